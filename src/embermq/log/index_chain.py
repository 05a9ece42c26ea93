"""The chains of an index file, followed by whoever can read bytes of it: mapped here, or from afar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from embermq.format.index_entry import (
    ENTRY,
    FIRST_ENTRY,
    HEADER,
    SLOT,
    IndexHeader,
    entry_at,
    slot_at,
)

ReadBytes: TypeAlias = Callable[[int, int], bytes | memoryview]  # `size` bytes from byte `at` on

USUAL_RATIO: Final = 4  # entries for each slot


class Shape(NamedTuple):
    """How many slots and entries an index file has room for."""

    slots: int
    entries: int


def usual_shape(size: int) -> Shape | None:
    """The shape of an index file of `size` bytes with the usual number of entries for each slot, if it can be so."""
    slots, rest = divmod(size - HEADER.size, SLOT.size + ENTRY.size * USUAL_RATIO)
    return Shape(slots, slots * USUAL_RATIO) if rest == 0 and slots > 0 else None


def iter_chain(
    read: ReadBytes, header: IndexHeader, shape: Shape, key_hash: int, *, begin_ms: int, end_ms: int
) -> Iterator[int]:
    """Positions of records filed under `key_hash` that were stored in that time, newest first.

    A chain that is damaged ends where it would lead forward.
    """
    if header.next_entry <= FIRST_ENTRY or header.begin_time > end_ms or header.end_time < begin_ms:
        return
    slots, before = shape
    number = SLOT.unpack(read(slot_at(key_hash % slots), SLOT.size))[0]
    while 0 < number < before:
        before = number
        found, position, seconds, number = ENTRY.unpack(read(entry_at(slots, number), ENTRY.size))
        time = header.begin_time + seconds * 1000
        if found == key_hash and seconds >= 0 and begin_ms <= time <= end_ms:
            yield position
        if time < begin_ms or seconds < 0:
            return


def is_chained(read: ReadBytes, header: IndexHeader, shape: Shape, count: int) -> bool:
    """Whether the newest `count` entries are chained as they would be in a file of this shape."""
    slots, entries = shape
    if slots < 1 or entries < header.next_entry:
        return False
    for number in range(header.next_entry - 1, max(header.next_entry - 1 - count, 0), -1):
        key_hash, position, _, previous = ENTRY.unpack(read(entry_at(slots, number), ENTRY.size))
        slot = key_hash % slots
        if not header.begin_position <= position <= header.end_position or key_hash < 0:
            return False
        if not 0 <= previous < number <= SLOT.unpack(read(slot_at(slot), SLOT.size))[0]:
            return False
        if previous and ENTRY.unpack(read(entry_at(slots, previous), ENTRY.size))[0] % slots != slot:
            return False
    return True
