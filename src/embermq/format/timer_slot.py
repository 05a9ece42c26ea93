"""The 32-byte slot of the timer wheel: where the chain of units of one moment begins and ends.

    time 8   first 8   last 8   messages 4   magic 4 (unused)

`time` counts steps of the wheel's precision since 1970. The wheel has a fixed number of slots; that of a time is its
number modulo that. A slot with another time in it is empty.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

TIMER_SLOT: Final = struct.Struct(">qqqii")
TIMER_SLOT_SIZE: Final = TIMER_SLOT.size
WHEEL_DAYS: Final = 7  # that a wheel with steps of a second reaches ahead
WHEEL_REACH: Final = WHEEL_DAYS * 86_400  # slots; as many more lie behind
WHEEL_SLOTS: Final = 2 * WHEEL_REACH
WHEEL_SIZE: Final = WHEEL_SLOTS * TIMER_SLOT_SIZE


class TimerSlot(NamedTuple):
    """One slot, field for field."""

    time: int  # in steps
    first: int  # place of its first unit in the timer log
    last: int  # of its newest
    messages: int  # that wait; one that cancels another takes away
    magic: int = 0


def slot_number(time: int) -> int:
    """The slot for `time`, in steps."""
    return time % WHEEL_SLOTS


def encode_timer_slot(slot: TimerSlot) -> bytes:
    return TIMER_SLOT.pack(*slot)
