"""Keys into the memory of an index file: what log.index_file.IndexFile.put does, byte for byte.

The file is laid out in format/index_entry.py. Others may read it meanwhile: an entry is there before the slot that
leads to it, and both before the header counts them.
"""

from __future__ import annotations

from typing import Final

from embermq.format.index_entry import ENTRY, FIRST_ENTRY, HEADER, SLOT
from embermq.kernels.columns import (
    DONE,
    FULL,
    KEY_HASH,
    KEY_POSITION,
    KEY_STORE_TIME,
    KEY_WIDTH,
    MISUSED,
    UNFIT,
)
from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.memory import fence, get, load_i32, load_i64, prefetch, row_at, store_32, store_64

_HEADER_SIZE: Final = HEADER.size
_SLOT_SIZE: Final = SLOT.size
_ENTRY_SIZE: Final = ENTRY.size
_I32: Final = 2**31
_MAX_SECONDS: Final = 2**31 - 1
_MAX_TIME: Final = 2**62  # far beyond all times, and the difference of two still is a number of 64 bits
_AHEAD: Final = 16  # keys whose slots are fetched before they are needed: most are in no cache

# Where the fields of the header are.
_BEGIN_TIME, _END_TIME, _BEGIN_POSITION, _END_POSITION, _USED_SLOTS, _NEXT_ENTRY = 0, 8, 16, 24, 32, 36


@part
def _is_shape(size: int, slots: int, entries: int) -> bool:
    """Whether memory of `size` bytes holds an index file with so many slots and entries."""
    if not (0 < slots < _I32 and 0 < entries < _I32):
        return False
    return size >= _HEADER_SIZE + slots * _SLOT_SIZE + entries * _ENTRY_SIZE


@part
def _is_key(key: int, begin_time: int) -> bool:
    """Whether a key has its place in an index file that begins at this time."""
    if not 0 <= get(key, KEY_HASH) < _I32:
        return False
    return -_MAX_TIME < get(key, KEY_STORE_TIME) < _MAX_TIME and -_MAX_TIME < begin_time < _MAX_TIME


@part
def _seconds(store_time: int, begin_time: int) -> int:
    return min(max((store_time - begin_time) // 1000, 0), _MAX_SECONDS)


@kernel("UniTuple(int64, 2)(int64, int64, int64, int64, int64[:, ::1])")
def put_index(memory: int, size: int, slots: int, entries: int, keys: Table) -> tuple[int, int]:
    """Add an entry for each key to the index file with so many slots and entries in `memory`.

    Returns how many keys were added, and why it went no further. The disk space for them must be there.
    """
    if keys.shape[1] != KEY_WIDTH or not _is_shape(size, slots, entries):
        return 0, MISUSED
    first = max(load_i32(memory + _NEXT_ENTRY), FIRST_ENTRY)
    room = max(entries - first, 0)
    count = min(keys.shape[0], room)
    reason = DONE if count == keys.shape[0] else FULL
    begin_time, begin_position = load_i64(memory + _BEGIN_TIME), load_i64(memory + _BEGIN_POSITION)
    used_slots = load_i32(memory + _USED_SLOTS)
    if used_slots >= _I32 - count:
        return 0, UNFIT
    if count and first == FIRST_ENTRY:  # before any entry counts its seconds from it
        begin_time, begin_position = keys[0, KEY_STORE_TIME], keys[0, KEY_POSITION]
    first_slot, first_entry = memory + _HEADER_SIZE, memory + _HEADER_SIZE + slots * _SLOT_SIZE
    done = 0
    while done < count and _is_key(row_at(keys, done), begin_time):
        if done + _AHEAD < count:
            prefetch(first_slot + (keys[done + _AHEAD, KEY_HASH] & _MAX_SECONDS) % slots * _SLOT_SIZE)
        slot = first_slot + keys[done, KEY_HASH] % slots * _SLOT_SIZE
        previous = load_i32(slot)
        if not 0 < previous < first + done:
            previous = 0
            used_slots += 1
        entry = first_entry + (first + done) * _ENTRY_SIZE
        store_32(entry, keys[done, KEY_HASH])
        store_64(entry + 4, keys[done, KEY_POSITION])
        store_32(entry + 12, _seconds(keys[done, KEY_STORE_TIME], begin_time))
        store_32(entry + 16, previous)
        fence()
        store_32(slot, first + done)
        done += 1
    if done < count:
        reason = UNFIT
    if done:
        fence()
        store_64(memory + _BEGIN_TIME, begin_time)
        store_64(memory + _END_TIME, keys[done - 1, KEY_STORE_TIME])
        store_64(memory + _BEGIN_POSITION, begin_position)
        store_64(memory + _END_POSITION, keys[done - 1, KEY_POSITION])
        store_32(memory + _USED_SLOTS, used_slots)
        store_32(memory + _NEXT_ENTRY, first + done)
    return done, reason
