"""Cuts an index file back to the entries that are known to be whole.

What was put for records before `position` was flushed, so it is on disk. Of what came later, a crash
leaves any part: header, slots and entries go to disk in any order, and where they did not, zeros remain.

    entry   1 … first - 1     whole
            first …           whole, torn or zeros, in any mixture
    slot    below `first`     as it was when `first` was put
            from `first` on   leads to an entry that goes, or to nothing

Such a slot is led back along its chain as long as the entries there are whole, else by a look at all
hashes that are kept. A crash in the middle of a cut does no harm: the next one finds a state like the first.
"""

from __future__ import annotations

import sys
from array import array
from typing import Final

from embermq.format.index_entry import ENTRY, FIRST_ENTRY, IndexEntry, entry_at, slot_at
from embermq.log.index_file import IndexFile

_BLOCK: Final = 64  # bytes that reach the disk together or not at all; disks promise 512
_FOLLOWED: Final = 1_000  # slots whose chains are followed in any case
_FOLLOWING_COST: Final = 40  # entries whose hashes are looked at in the time that following one chain takes
_SLOTS_TOGETHER: Final = 1 << 10
_ENTRIES_TOGETHER: Final = 1 << 16
_WORDS: Final = ENTRY.size // 4
_ZEROS: Final = IndexEntry(0, 0, 0, 0)


def cut_file(file: IndexFile, position: int) -> int:
    """Forget every entry whose record begins at or after `position`; return how many are left.

    If none are, the file is left as it is, to be deleted. Nobody else may use it meanwhile.
    """
    first = _find_first(file, position)
    if first == FIRST_ENTRY:
        return 0
    header, last = file.header, file.read_entry(first - 1)
    is_cut = (first, last.position) != (header.next_entry, header.end_position)
    repaired = header._replace(
        end_time=header.begin_time + last.seconds * 1000 if is_cut else header.end_time,
        end_position=last.position,
        used_slots=_repair_slots(file, first, position),
        next_entry=first,
    )
    if repaired != header:
        file.write_header(repaired)
    file.mapped.truncate(entry_at(file.slots, first))
    file.flush()  # before new entries come: a next crash may mix them with zeros, not with what was cut
    return first - FIRST_ENTRY


def _find_first(file: IndexFile, position: int) -> int:
    """The number of the first entry to forget."""
    header = file.header
    last = file.read_entry(header.next_entry - 1)
    if last.position == header.end_position < position:  # nothing from the cut on was counted yet
        return header.next_entry

    def is_before(entry: IndexEntry) -> bool:
        return header.begin_position <= entry.position < position and entry != _ZEROS

    low, high = 0, file.entries
    while high - low > 1:
        middle = (low + high) // 2
        entry = file.read_entry(middle)
        before = file.read_entry(middle - 1) if middle > FIRST_ENTRY else entry
        if is_before(before) and is_before(entry) and before.position <= entry.position:
            low = middle
        else:
            high = middle
    return low if low and _is_torn(file, low) else high


def _is_torn(file: IndexFile, number: int) -> bool:
    """Whether an entry seems to be before the cut only because the low half of its position is missing.

    Where that cannot be told, and keeping the entry breaks no chain, it counts as whole.
    """
    entry = file.read_entry(number)
    if entry.position & 0xFFFF_FFFF or entry.seconds or entry.previous:
        return False
    slot = entry.key_hash % file.slots
    return file.read_slot(slot) < number or slot in _find_newest(file, {slot}, number)


def _repair_slots(file: IndexFile, first: int, position: int) -> int:
    """Lead every slot to its newest entry below `first`; return how many lead to one."""
    numbers = _words(file.mapped.view[slot_at(0) : slot_at(file.slots)])
    behind = _slots_from(numbers, first)
    lost = set(behind)
    if len(behind) <= max(_FOLLOWED, first // _FOLLOWING_COST):
        for slot in behind:
            kept = _follow(file, slot, first, position)
            if kept is not None:
                numbers[slot] = kept
                lost.remove(slot)
    for slot in lost:
        numbers[slot] = 0
    for slot, number in _find_newest(file, lost, first).items():
        numbers[slot] = number
    _write_slots(file, numbers, behind)
    return file.slots - numbers.count(0)


def _slots_from(numbers: array[int], first: int) -> list[int]:
    """The slots that lead to `first` or behind it."""
    found: list[int] = []
    for begin in range(0, len(numbers), _SLOTS_TOGETHER):
        some = numbers[begin : begin + _SLOTS_TOGETHER]
        if max(some) >= first:
            found += [slot for slot, number in enumerate(some, begin) if number >= first]
    return found


def _write_slots(file: IndexFile, numbers: array[int], changed: list[int]) -> None:
    for begin in sorted({slot - slot % _SLOTS_TOGETHER for slot in changed}):
        some = numbers[begin : begin + _SLOTS_TOGETHER]
        if sys.byteorder == "little":
            some.byteswap()
        file.mapped.write_at(slot_at(begin), some.tobytes())


def _follow(file: IndexFile, slot: int, first: int, position: int) -> int | None:
    """The newest entry of `slot` below `first`, 0 if there is none; None if the chain does not tell."""
    number, before = file.read_slot(slot), file.entries
    while first <= number < before:
        entry = file.read_entry(number)
        if entry.position < position or entry.key_hash % file.slots != slot:
            return None
        if entry.previous == 0:
            return 0 if _has_end(file, number) else None
        number, before = entry.previous, number
    if 0 < number < first and file.read_entry(number).key_hash % file.slots == slot:
        return number
    return None


def _has_end(file: IndexFile, number: int) -> bool:
    """Whether the last bytes of an entry, which are zeros, are zeros because they were written."""
    begin = entry_at(file.slots, number)
    if begin // _BLOCK == (begin + ENTRY.size - 1) // _BLOCK:
        return True
    # The next entry was written later, and begins in the block in which this one ends.
    return number + 1 < file.entries and file.read_entry(number + 1).key_hash != 0


def _find_newest(file: IndexFile, slots: set[int], first: int) -> dict[int, int]:
    """The newest entry below `first` of each of these slots that has one."""
    found: dict[int, int] = {}
    count = file.slots
    is_wanted = bytearray(count)  # smaller than the set, which matters to the processor's caches
    for slot in slots:
        is_wanted[slot] = 1
    for end in range(first, FIRST_ENTRY, -_ENTRIES_TOGETHER):
        if len(found) == len(slots):
            break
        begin = max(end - _ENTRIES_TOGETHER, FIRST_ENTRY)
        hashes = _words(file.mapped.view[entry_at(count, begin) : entry_at(count, end)])[::_WORDS]
        newest = {slot: number for number, key_hash in enumerate(hashes, begin) if is_wanted[slot := key_hash % count]}
        found |= newest
        for slot in newest:
            is_wanted[slot] = 0
    return found


def _words(view: memoryview) -> array[int]:
    """The big-endian 32-bit numbers in `view`."""
    words = array("I", bytes(view))
    if sys.byteorder == "little":
        words.byteswap()
    return words
