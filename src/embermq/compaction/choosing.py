"""Which records compaction keeps: those that no newer one with the same keys has replaced.

Keys are looked at in as many passes as it takes to keep the table of keys small; each pass has its share of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from zlib import crc32

from embermq.format.compacted import is_kept

Keyed = tuple[int, bytes, bool]  # offset, keys, whether it has a body


def choose(read: Callable[[], Iterable[Keyed]], count: int, *, most_keys: int) -> bytearray:
    """For each of `count` records, in the order that `read` gives them every time, 1 if it is kept."""
    kept = bytearray(count)
    passes = max(-(-count // max(most_keys, 1)), 1)
    for share in range(passes):
        newest: dict[bytes, int] = {}
        for offset, keys, _ in read():
            if crc32(keys) % passes == share:
                newest[keys] = max(offset, newest.get(keys, -1))
        last = max(newest.values(), default=-1)
        for index, (offset, keys, has_body) in enumerate(read()):
            if crc32(keys) % passes == share:
                kept[index] = is_kept(offset, newest[keys], has_body=has_body, last_offset=last)
    return kept
