"""A slot of the wheel, read some units at a time: its chain may be as long as there are messages for one second."""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from embermq.format.timer_unit import DELETE, ROLL
from embermq.timers.unit_log import UnitLog

log = logging.getLogger(__name__)

ALL: Final = 2**62


# From a place on, at most so many: notes places and counts of topics' hashes; how many, and the place to go on with.
Follow = Callable[[int, int, "array[int]", "Counter[int]"], tuple[int, int]]


class Slot(NamedTuple):
    """A slot that is due: places of its units in the timer log, oldest first."""

    time_ms: int
    places: array[int]
    cancelled: frozenset[bytes]  # <topic>+<unique key> of messages that are not to be delivered
    counts: Mapping[int, int]  # messages that waited, by the hash of their topic


class SlotReading:
    """Follows the chain of a slot from its last unit to its first. Nothing may be added to it meanwhile."""

    def __init__(
        self,
        units: UnitLog,
        time_ms: int,
        last: int,
        *,
        cancelled_by: Callable[[int, int], Iterable[bytes]],
        follow: Follow | None = None,
    ) -> None:
        self._units = units
        self._time_ms = time_ms
        self._place = last  # of the next unit; none before the first
        self._follow = follow  # goes over the usual ones, if there is somebody who can
        self._cancelled_by = cancelled_by  # what the message at a position, of a size, cancels
        self._places: array[int] = array("q")
        self._cancelled: set[bytes] = set()
        self._counts: Counter[int] = Counter()

    def go_on(self, most: int = ALL) -> bool:
        """Read so many units more; True when that was all."""
        place, done = self._place, 0
        while done < most and place >= 0:
            if self._follow is not None:
                count, place = self._follow(place, most - done, self._places, self._counts)
                done += count
                if count:
                    continue
            done += 1
            found = self._units.position_at(place)
            if found is None or found[0] >= place:
                log.error("timer units lost slot=%d place=%d", self._time_ms, place)
                place = -1
                break
            previous, flags, _, position, size, topic_hash = found
            if flags & DELETE and not flags & ROLL:
                self._cancelled.update(self._cancelled_by(position, size))
            self._counts[topic_hash] += -1 if flags & DELETE else 1
            self._places.append(place)
            place = previous
        self._place = place
        return place < 0

    def slot(self) -> Slot:
        """What was read, which must be all."""
        assert self._place < 0, "the beginning of the chain is not reached"
        self._places.reverse()
        return Slot(self._time_ms, self._places, frozenset(self._cancelled), self._counts)
