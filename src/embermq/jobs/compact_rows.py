"""What compaction knows of a message: eight numbers, so that bodies stay where they are until somebody survives.

    key, 16 bytes │ offset │ position │ size │ traits │ tags code │ store time

The key is a digest of all keys of a message. The position is one of the log or, by its traits, one of a file that an
earlier compaction has made.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

ROW_WIDTH: Final = 8
ROW_SIZE: Final = ROW_WIDTH * 8
FROM_PAIR: Final = 1  # its position is one of a file that an earlier compaction has made
NO_BODY: Final = 2  # it deletes its key

_AT_ONCE: Final = 65_536  # rows


class Row(NamedTuple):
    """One message of a queue."""

    key_high: int
    key_low: int
    offset: int
    position: int
    size: int
    traits: int
    tags_code: int
    store_time: int


class Block(NamedTuple):
    """Some rows of a staging file, from number `begin` on."""

    path: str
    begin: int
    rows: int


def digest_of(keys: bytes | memoryview) -> bytes:
    """What the keys of a message are compared by."""
    return blake2b(keys, digest_size=16).digest()


def iter_rows(blocks: Iterable[Block]) -> Iterator[Row]:
    """The rows of all blocks, in their order."""
    for block in blocks:
        with Path(block.path).open("rb") as file:
            file.seek(block.begin * ROW_SIZE)
            for begin in range(0, block.rows, _AT_ONCE):
                numbers = array("q")
                numbers.fromfile(file, min(block.rows - begin, _AT_ONCE) * ROW_WIDTH)
                each = iter(numbers)
                yield from map(Row._make, zip(*[each] * ROW_WIDTH, strict=True))


def pack_rows(rows: Iterable[Row]) -> bytes:
    numbers = array("q")
    for row in rows:
        numbers.extend(row)
    return numbers.tobytes()
