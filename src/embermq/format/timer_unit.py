"""The 52-byte unit of the timer log: one message that waits for its time.

    size 4 (52)   previous 8   magic 4   write time 8   delay 4   position 8   record size 4   topic hash 4   reserved 8

Units of one slot of the wheel form a chain, newest first, through `previous`: the place in the timer log of the
unit before, -1 at the first. A file that has no room for a unit and an end ends with

    bytes left 4   zeros 8   0xCBD43194
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord
from embermq.format.record import MAGIC_BLANK

TIMER_UNIT: Final = struct.Struct(">iqiqiqiiq")
TIMER_UNIT_SIZE: Final = TIMER_UNIT.size
TIMER_END: Final = struct.Struct(">iqi")

_END_MAGIC: Final = MAGIC_BLANK - 2**32  # as a signed number
_ALL_FLAGS: Final = 15


# What is to be done with a message when its slot comes: bits, as plain numbers, for they are asked for each message.
DEFAULT: Final = 1
ROLL: Final = 2  # its time is further away than the wheel reaches: put it into the wheel again
DELETE: Final = 4  # it cancels another message of the slot


class TimerUnit(NamedTuple):
    """One unit, field for field behind its size."""

    previous: int
    flags: int
    write_time: int  # of the slot that was current when it was written
    delay: int  # from there to its slot, in ms
    position: int  # of the record in the log
    size: int  # of the record
    topic_hash: int  # of the topic it waits for
    reserved: int = 0

    @property
    def slot_time(self) -> int:
        """The time of its slot in ms."""
        return self.write_time + self.delay


def encode_timer_unit(unit: TimerUnit) -> bytes:
    return TIMER_UNIT.pack(TIMER_UNIT_SIZE, *unit)


def decode_timer_unit(data: memoryview | bytes, at: int, place: int) -> TimerUnit | None:
    """The unit at byte `at` of `data`, which is `place` of the timer log; None where the units of a file end.

    Raises CorruptRecord for what is neither a unit nor such an end.
    """
    if len(data) - at < TIMER_UNIT_SIZE:
        return None
    size, *fields = TIMER_UNIT.unpack_from(data, at)
    unit = TimerUnit._make(fields)
    if unit.flags == _END_MAGIC or (size == 0 and not any(fields)):
        return None
    if size != TIMER_UNIT_SIZE or unit.flags & ~_ALL_FLAGS:
        raise CorruptRecord(place, f"no timer unit: size {size}, magic {unit.flags:#x}")
    if not -1 <= unit.previous < place or unit.position < 0 or unit.size <= 0:
        raise CorruptRecord(place, f"a timer unit that points to {unit.previous}, and to record {unit.position}")
    return unit


def encode_timer_end(size: int) -> bytes:
    """What closes a file of which `size` bytes are left."""
    return TIMER_END.pack(size, 0, _END_MAGIC)


def is_timer_end(data: memoryview | bytes, at: int) -> bool:
    """Whether a file is closed at byte `at` of `data`."""
    return len(data) - at < TIMER_END.size or TIMER_END.unpack_from(data, at)[2] == _END_MAGIC
