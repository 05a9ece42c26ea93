"""Reading a queue as bytes: what `reading` finds, in as few pieces as it lies in.

    queue    ├ entry │ entry │ entry │ entry ┤
    log      ├ ours │ ours │ others' │ ours │ ours │ …      two stretches, sent from mapped memory

Records that lie side by side are one stretch, whose bytes nobody looks at. Where something is unusual (a filter, a
blank entry, a record that is not there, another kind of queue) `reading` does the work, or does the rest of it when
the next read begins there.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

from embermq.files.file_chain import FileChain
from embermq.format.queue_entry import ENTRY, QUEUE_ENTRY_SIZE
from embermq.log.commit_log import CommitLog
from embermq.log.consume_queue import ConsumeQueue
from embermq.store.queues import AnyQueue
from embermq.store.reading import Accept, ReadStatus, Wanted, read_queue


class FoundBytes(NamedTuple):
    """The bytes of records one after the other, how many records they are, and where to go on."""

    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    records: int = 0
    size: int = 0
    parts: Sequence[memoryview] = ()


class Stretches(NamedTuple):
    """The records of the first so many of some entries."""

    records: int
    size: int
    parts: Sequence[memoryview]


NOTHING: Final = Stretches(0, 0, ())

Gather = Callable[[memoryview, FileChain, int], Stretches]  # entries, the log and the most bytes, but one record


def read_bytes(
    queue: AnyQueue | None,
    commit_log: CommitLog,
    offset: int,
    *,
    limit: int,
    max_bytes: int,
    accept: Accept | None = None,
    wanted: Wanted | None = None,
    gather: Gather | None = None,
) -> FoundBytes:
    """Records of `queue` from `offset` on: at most `limit` messages and `max_bytes`, but one at least."""
    if accept is None and wanted is None and type(queue) is ConsumeQueue:
        low, high = queue.min_offset, queue.max_offset
        entries = queue.select(offset, limit)
        if entries is not None:
            count, size, parts = (gather or gather_stretches)(entries, commit_log.chain, max_bytes)
            if count:
                commit_log.chain.readers.note(ENTRY.unpack_from(entries)[0])
                return FoundBytes(ReadStatus.FOUND, offset + count, low, high, count, size, parts)
    found = read_queue(queue, commit_log, offset, limit=limit, max_bytes=max_bytes, accept=accept, wanted=wanted)
    parts = [data for _, _, data in found.records]
    size = sum(map(len, parts))
    return FoundBytes(found.status, found.next_offset, found.min_offset, found.max_offset, len(parts), size, parts)


def gather_stretches(entries: memoryview, chain: FileChain, max_bytes: int) -> Stretches:
    """The records of `entries`, up to the first that is not there or would be too much."""
    numbers = _row_of(len(entries) // QUEUE_ENTRY_SIZE).unpack(entries)
    positions, sizes = numbers[::3], numbers[1::3]
    begin, *ends = accumulate(sizes, initial=positions[0])
    size = ends[-1] - begin
    if size <= max_bytes and (begin, *ends[:-1]) == positions and min(sizes) > 0:  # all of them side by side
        data = chain.select(begin, size)
        if data is not None:
            return Stretches(len(sizes), size, (data,))
    return _gather_each(positions, sizes, chain, max_bytes)


def _gather_each(positions: Sequence[int], sizes: Sequence[int], chain: FileChain, max_bytes: int) -> Stretches:
    parts: list[memoryview] = []
    view, file_begin, file_end = memoryview(b""), 0, 0
    begin = end = 0  # of the stretch so far
    count, left = 0, max_bytes
    for position, size in zip(positions, sizes, strict=True):
        if size <= 0 or (size > left and count):
            break
        if position != end or end >= file_end:
            if end > begin:
                parts.append(view[begin - file_begin : end - file_begin])
            begin = end = position
            if not file_begin <= position < file_end:
                file = chain.find(position)
                if file is None:
                    break
                view, file_begin = file.view, file.start
                file_end = file_begin + min(file.committed, len(view))  # nothing of one that was just deleted
        if end + size > file_end:
            break
        end += size
        left -= size
        count += 1
    if end > begin:
        parts.append(view[begin - file_begin : end - file_begin])
    return Stretches(count, max_bytes - left, parts)


@lru_cache(maxsize=32)  # up to 100 KB each
def _row_of(count: int) -> struct.Struct:
    """The form of so many entries; mostly as many as consumers ask for at a time."""
    return struct.Struct(">" + ENTRY.format.removeprefix(">") * count)
