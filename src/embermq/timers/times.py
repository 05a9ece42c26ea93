"""When a message is due, and which slot of the wheel it waits in. Pure: no files, no clock.

    deliver at 12:00:05.300   precision 1 s   slot 12:00:05   read when the clock shows 12:00:06
    deliver at 12:00:05.000                   slot 12:00:04   read when the clock shows 12:00:05

So nothing comes before its time, and at most one step behind it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from embermq.format.timer_slot import WHEEL_REACH

PRECISIONS: Final = (1000, 500, 200, 100)
LEAST_ROLL: Final = 2  # slots
MOST_ROLL: Final = WHEEL_REACH - 60


def snap_precision(precision_ms: int) -> int:
    """The step that RocketMQ takes for this one: the next smaller of a few."""
    return next((step for step in PRECISIONS if precision_ms >= step), PRECISIONS[-1])


def roll_window(slots: int, *, precision: int, retention_ms: int) -> int:
    """How far ahead, in ms, a message may lie in the wheel; beyond that it is put there again on the way.

    Half of what the log keeps at most: a message that is put again in time is never deleted while it waits.
    """
    wanted = slots if LEAST_ROLL <= slots <= MOST_ROLL else MOST_ROLL
    kept = retention_ms // 2 // precision
    return max(min(wanted, kept), LEAST_ROLL) * precision


def slot_time(deliver_ms: int, precision: int) -> int:
    """The time of the slot for a message that is to be delivered at `deliver_ms`."""
    return (deliver_ms - 1) // precision * precision


def floor_time(time_ms: int, precision: int) -> int:
    """The step that a moment belongs to."""
    return time_ms // precision * precision


class Place(NamedTuple):
    """The slot of a message, and whether that is only a stop on its way."""

    time_ms: int
    is_roll: bool


def place_of(slot_ms: int, *, write_ms: int, read_ms: int, window: int, precision: int) -> Place:
    """Where a message of slot `slot_ms` goes that enters the wheel at `write_ms`; slots before `read_ms` are done."""
    ahead = slot_ms - write_ms
    if ahead < window:
        return Place(max(slot_ms, read_ms), is_roll=False)
    slots = window // precision
    # Not the whole window, if little would be left then: the last stop should not be the shortest.
    stop = slots // 2 if ahead - window < slots // 3 * precision else slots
    return Place(max(write_ms + stop * precision, read_ms), is_roll=True)
