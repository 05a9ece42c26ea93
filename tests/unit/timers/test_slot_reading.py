"""Slots of the timer: chains of any length, read in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.format.timer_unit import DEFAULT, DELETE, TIMER_UNIT, TIMER_UNIT_SIZE
from embermq.timers.slot_reading import SlotReading
from embermq.timers.unit_log import UnitLog

COUNT = 1_000
TOPICS = 3
TIME = 1_700_000_000_000


@pytest.fixture
def units(tmp_path: Path) -> Iterator[UnitLog]:
    log = UnitLog(tmp_path / "timerlog", file_size=64 * TIMER_UNIT_SIZE)
    yield log
    log.close()


def fill(units: UnitLog) -> list[int]:
    """A chain over several files, whose every tenth unit cancels something; the places of its units."""
    places = []
    last = -1
    for number in range(COUNT):
        flags = DEFAULT | DELETE if number % 10 == 0 else DEFAULT
        place = units.next_place()
        units.add(TIMER_UNIT.pack(TIMER_UNIT_SIZE, last, flags, TIME, 0, number * 100, 100, number % TOPICS, 0))
        places.append(place)
        last = place
    units.commit()
    return places


def reading_of(units: UnitLog, last: int) -> SlotReading:
    return SlotReading(units, TIME, last, cancelled_by=lambda position, size: [b"at %d" % position])


@pytest.mark.parametrize("most", [1, 99, 100, 999, 1_000, 1_001])
def test_a_long_chain_is_read_in_pieces(units: UnitLog, most: int) -> None:
    places = fill(units)
    reading = reading_of(units, places[-1])
    pieces = 1
    while not reading.go_on(most):
        pieces += 1
    assert pieces == -(-COUNT // most)
    slot = reading.slot()
    assert slot.places.tolist() == places
    assert slot.cancelled == {b"at %d" % (number * 100) for number in range(0, COUNT, 10)}
    assert sum(slot.counts.values()) == COUNT - 2 * COUNT // 10


def test_a_chain_that_leads_nowhere_ends_where_it_is_broken(units: UnitLog) -> None:
    places = fill(units)
    reading = reading_of(units, places[-1] + TIMER_UNIT_SIZE * 1_000)
    assert reading.go_on()
    assert reading.slot().places.tolist() == []
