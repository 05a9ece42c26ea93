"""Keys against the entries of an index file: whether they are there, one by one, in the order of the log.

The plain way is store.verify_index_file.IndexEntries; where `match_keys` stops, that goes on. `match_entries` and
`follow_chains` do the same in two halves: keys of any stretch of the log, and chains of a whole file.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from embermq.format.index_entry import ENTRY, FIRST_ENTRY, HEADER, SLOT
from embermq.kernels.columns import KEY_HASH, KEY_POSITION, KEY_STORE_TIME, KEY_WIDTH
from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.memory import get, load_i32, load_i64, row_at

Slots = npt.NDArray[np.int32]  # the newest entry of each slot so far

_HEADER_SIZE: Final = HEADER.size
_SLOT_SIZE: Final = SLOT.size
_ENTRY_SIZE: Final = ENTRY.size
_I32: Final = 2**31
_MAX_SECONDS: Final = 2**31 - 1
_EVERYTHING: Final = 2**63 - 1  # behind every record
_MAX_TIME: Final = 2**62  # far beyond all times, and the difference of two still is a number of 64 bits


@part
def _entries_at(size: int, slots: int, number: int, end: int) -> int:
    """Where the entries of a file begin; 0 if those from `number` to `end` are not all within its `size` bytes."""
    if not (0 < slots < _I32 and FIRST_ENTRY <= number <= end < _I32):
        return 0
    first = _HEADER_SIZE + slots * _SLOT_SIZE
    return first if size >= first + end * _ENTRY_SIZE else 0


@part
def _has_time(entry: int, number: int, store_time: int, begin_time: int) -> bool:
    """Whether an entry counts the seconds it should; the first of a file may say anything."""
    if not (-_MAX_TIME < store_time < _MAX_TIME and -_MAX_TIME < begin_time < _MAX_TIME):
        return False
    seconds = min(max((store_time - begin_time) // 1000, 0), _MAX_SECONDS)
    return number == FIRST_ENTRY or load_i32(entry + 12) == seconds


@part
def _is_entry_of(entry: int, number: int, key: int, begin_time: int, until: int) -> bool:
    """Whether an entry has the hash, the position and the seconds of a key, and its record begins before `until`."""
    key_hash, position = load_i32(entry), load_i64(entry + 4)
    if key_hash < 0 or key_hash != get(key, KEY_HASH) or position != get(key, KEY_POSITION) or position >= until:
        return False
    if key_hash == 0 and position == 0 and load_i32(entry + 16) == 0:
        return False  # perhaps no entry at all
    return _has_time(entry, number, get(key, KEY_STORE_TIME), begin_time)


@kernel("int64(int64, int64, int64, int64, int64, int64, int32[::1], int64[:, ::1])")
def match_keys(
    memory: int, size: int, number: int, end: int, begin_time: int, until: int, newest: Slots, keys: Table
) -> int:
    """How many of `keys`, from the first on, have the entries `number`, `number` + 1 and so on, before `end`.

    The index file is the `size` bytes at `memory`; it has as many slots as `newest`, and counts seconds from
    `begin_time`. An entry fits if hash, position, seconds and chain do, and its record begins before `until`.
    `newest` goes on with those that fit.
    """
    slots = newest.size
    first = _entries_at(size, slots, number, end)
    if first == 0 or keys.shape[1] != KEY_WIDTH:
        return 0
    count = min(len(keys), end - number)
    for index in range(count):
        entry = memory + first + (number + index) * _ENTRY_SIZE
        if not _is_entry_of(entry, number + index, row_at(keys, index), begin_time, until):
            return index
        slot = load_i32(entry) % slots
        if load_i32(entry + 16) != newest[slot]:
            return index
        newest[slot] = number + index
    return count


@kernel("int64(int64, int64, int64, int64, int64, int64, int64[:, ::1])")
def match_entries(memory: int, size: int, slots: int, number: int, end: int, begin_time: int, keys: Table) -> int:
    """How many of `keys`, from the first on, have the entries `number`, `number` + 1 and so on, before `end`.

    As match_keys, but chains are not looked at.
    """
    first = _entries_at(size, slots, number, end)
    if first == 0 or keys.shape[1] != KEY_WIDTH:
        return 0
    count = min(len(keys), end - number)
    for index in range(count):
        entry = memory + first + (number + index) * _ENTRY_SIZE
        if not _is_entry_of(entry, number + index, row_at(keys, index), begin_time, _EVERYTHING):
            return index
    return count


@kernel("int64(int64, int64, int64, int32[::1])")
def follow_chains(memory: int, size: int, end: int, newest: Slots) -> int:
    """The first entry before `end` that is not chained to the one before it in its slot; `end` if all are.

    `newest` is all zeros and has as many numbers as there are slots; it becomes what they should hold.
    """
    slots = newest.size
    first = _entries_at(size, slots, FIRST_ENTRY, end)
    if first == 0:
        return 0
    for number in range(FIRST_ENTRY, end):
        entry = memory + first + number * _ENTRY_SIZE
        key_hash = load_i32(entry)
        if key_hash < 0 or load_i32(entry + 16) != newest[key_hash % slots]:
            return number
        newest[key_hash % slots] = number
    return end
