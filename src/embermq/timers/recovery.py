"""Opening the timer's files: where the timer log ends, what the wheel lacks, where enqueuing goes on.

    the files                                      then
    ─────────────────────────────────────────────────────────────────────────────────────────────────────
    were closed                                    units behind the checkpoint are looked at, nothing changes
    crashed                                        units that the wheel does not know are linked into it
    have units of records that the log lost        they are cut
    have no wheel, or one that knows more          the wheel is made again from all units
    have lost units, or another precision          wheel and units are made again from the timer's topic

The timer's topic in the commit log is the truth; wheel and units only say where in it to look.
"""

from __future__ import annotations

import logging
from typing import NamedTuple, Protocol

from embermq.errors import CorruptRecord, OutOfRange
from embermq.format.record import Record
from embermq.format.timer_check import TimerCheck
from embermq.format.timer_slot import WHEEL_REACH
from embermq.format.timer_unit import DELETE, TIMER_UNIT_SIZE, TimerUnit
from embermq.model.topic import TIMER_TOPIC
from embermq.timers.times import floor_time
from embermq.timers.unit_log import UnitLog
from embermq.timers.wheel import TimerWheel

log = logging.getLogger(__name__)

_BLANK_SLOTS = 60  # of the wheel's reach that are never used


class RecordLog(Protocol):
    """What recovery asks the store."""

    @property
    def dispatched(self) -> int: ...
    def offsets(self, topic: str, *, queue: int) -> tuple[int, int]: ...
    def read_record(self, position: int) -> Record: ...


class Recovered(NamedTuple):
    """Where the timer goes on."""

    read_time: int  # the first slot that is not delivered
    queue_offset: int  # the next message of the timer's topic to be enqueued
    known_offset: int  # messages before it were enqueued already, if they are enqueued again
    is_changed: bool  # whether the files were


def count_of(unit: TimerUnit) -> int:
    """By how much a unit changes the count of its slot and of its topic."""
    return -1 if unit.flags & DELETE else 1


def recover_timers(
    units: UnitLog, wheel: TimerWheel, check: TimerCheck, records: RecordLog, *, now_ms: int
) -> Recovered:
    """Bring wheel and units into agreement; both are loaded."""
    reach = (WHEEL_REACH - _BLANK_SLOTS) * wheel.precision
    read_time = max(floor_time(check.read_time, wheel.precision), floor_time(now_ms, wheel.precision) - reach)
    low, high = records.offsets(TIMER_TOPIC, queue=0)
    end, last, linked = _link_new(units, wheel, check, records, read_time)
    if end < check.log_place or not _fits(wheel, last):
        log.warning("timer units are made again from the log found=%d expected=%d", end, check.log_place)
        wheel.clear()
        units.destroy()
        return Recovered(read_time, low, min(check.queue_offset, high), is_changed=True)
    units.set_end(end)
    is_lost = not wheel.was_found and last is not None
    if is_lost or any(slot.last >= end for _, slot in wheel.iter_from(read_time)):
        _link_all(units, wheel, read_time)
        linked += 1
    return Recovered(read_time, min(max(_next_offset(last, check, records), low), high), 0, is_changed=linked > 0)


def _link_new(
    units: UnitLog, wheel: TimerWheel, check: TimerCheck, records: RecordLog, read_time: int
) -> tuple[int, TimerUnit | None, int]:
    """Link units that the wheel does not know; where they end, the last of them, and how many were linked."""
    log_end = records.dispatched
    last: TimerUnit | None = None
    end, linked = units.begin, 0
    for place, unit in units.iter_from(max(check.log_place - units.file_size, units.begin)):
        if unit.position + unit.size > log_end:
            log.warning("timer units behind the log cut place=%d log_end=%d", place, log_end)
            break
        end, last = place + TIMER_UNIT_SIZE, unit
        slot = wheel.find(unit.slot_time)
        if unit.slot_time >= read_time and (slot is None or slot.last < place):
            wheel.link(unit.slot_time, place, place, count_of(unit))
            linked += 1
    return units.end_behind(end), last, linked


def _link_all(units: UnitLog, wheel: TimerWheel, read_time: int) -> None:
    log.warning("timer wheel is made again from its units begin=%d end=%d", units.begin, units.end)
    wheel.clear()
    for place, unit in units.iter_from(units.begin):
        if unit.slot_time >= read_time:
            wheel.link(unit.slot_time, place, place, count_of(unit))


def _fits(wheel: TimerWheel, last: TimerUnit | None) -> bool:
    """Whether the units are those of a wheel with this precision."""
    return last is None or (last.slot_time % wheel.precision == 0 and last.write_time % wheel.precision == 0)


def _next_offset(last: TimerUnit | None, check: TimerCheck, records: RecordLog) -> int:
    """Behind the message of the last unit, or where the checkpoint was if that is further."""
    if last is None:
        return check.queue_offset
    try:
        record = records.read_record(last.position)
    except (OutOfRange, CorruptRecord):
        return check.queue_offset
    return max(record.offset + 1 if record.topic == TIMER_TOPIC else 0, check.queue_offset)
