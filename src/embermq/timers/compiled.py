"""The timer's work on many messages at a time, by kernels. Only loaded where kernels are."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from embermq.format.queue_entry import ENTRY
from embermq.format.timer_unit import DEFAULT, TIMER_UNIT_SIZE
from embermq.kernels.columns import RECORD_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.timer_units import (
    WAIT_CODE,
    WAIT_POSITION,
    WAIT_SIZE,
    WAIT_TIME,
    WAIT_TOPIC_AT,
    WAIT_TOPIC_SIZE,
    WAIT_WIDTH,
    follow_units,
    read_waits,
)
from embermq.log.consume_queue import ConsumeQueue
from embermq.model.topic import TIMER_TOPIC
from embermq.store.store import Store
from embermq.timers.unit_log import UnitLog

_AT_ONCE: Final = 4096
_MOST: Final = 2048  # messages that are enqueued at once
_UNIT: Final = np.dtype(
    [
        ("size", ">i4"), ("previous", ">i8"), ("flags", ">i4"), ("write_time", ">i8"), ("delay", ">i4"),
        ("position", ">i8"), ("record_size", ">i4"), ("code", ">i4"), ("reserved", ">i8"),
    ]
)  # fmt: skip
assert _UNIT.itemsize == TIMER_UNIT_SIZE


class Run(NamedTuple):
    """Units that are added to one slot: its time, the places of the first and the last, and how many there are."""

    time_ms: int
    first: int
    last: int
    units: int


class Enqueued(NamedTuple):
    """Units of messages that follow each other in the timer's topic, and what is to be known of them."""

    units: bytes
    runs: list[Run]
    counts: Counter[tuple[int, int]]  # by time of slot and hash of topic


class CompiledEnqueue:
    """Makes units of messages that wait for nothing but their time. Used in one thread."""

    def __init__(self, store: Store, *, precision: int, window: int) -> None:
        self._store = store
        self._precision, self._window = precision, window
        self._waits: Table = np.zeros((_MOST, WAIT_WIDTH), np.int64)
        self._record: Table = np.zeros((1, RECORD_WIDTH), np.int64)

    def read(self, offset: int, write_ms: int, name: Callable[[str], int]) -> Table | None:
        """What the usual messages from an offset of the topic on wait for; None if the first is not usual.

        `name` is told their topics.
        """
        queue = self._store.find_queue(TIMER_TOPIC, 0)
        entries = queue.select(offset, _MOST) if isinstance(queue, ConsumeQueue) else None
        if not entries:
            return None
        file = self._store.log_files().find(ENTRY.unpack_from(entries)[0])
        if file is None:
            return None
        data = file.view[: file.committed]
        address = address_of(data) if data else 0
        count = read_waits(address_of(entries), len(entries), address, len(data), file.start, self._record, self._waits)
        waits = self._waits[:count]
        # One whose time is too far away is put again on the way.
        far = np.flatnonzero(waits[:, WAIT_TIME] // self._precision * self._precision - write_ms >= self._window)
        waits = waits[: far[0]] if len(far) else waits
        if not len(waits):
            return None
        for first in np.unique(waits[:, WAIT_CODE], return_index=True)[1].tolist():
            at = int(waits[first, WAIT_TOPIC_AT])
            name(bytes(data[at : at + int(waits[first, WAIT_TOPIC_SIZE])]).decode())
        return waits

    def units(
        self, waits: Table, place: int, *, write_ms: int, read_ms: int, last_of: Callable[[int], int]
    ) -> Enqueued:
        """The units of messages, which go to the timer log from `place` on; slots before `read_ms` take none.

        `last_of` tells the place of the last unit of a slot, -1 if it has none.
        """
        count = len(waits)
        times = np.maximum(waits[:, WAIT_TIME] // self._precision * self._precision, read_ms)
        places = place + np.arange(count) * TIMER_UNIT_SIZE
        order = np.argsort(times, kind="stable")
        ordered, ordered_places = times[order], places[order]
        firsts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        previous = np.concatenate([[0], ordered_places[:-1]])
        ends = [*firsts[1:].tolist(), count]
        runs = []
        for first, end in zip(firsts.tolist(), ends, strict=True):
            time_ms = int(ordered[first])
            previous[first] = last_of(time_ms)
            runs.append(Run(time_ms, int(ordered_places[first]), int(ordered_places[end - 1]), end - first))
        units = np.zeros(count, _UNIT)
        units["size"], units["flags"], units["write_time"] = TIMER_UNIT_SIZE, DEFAULT, write_ms
        units["previous"][order] = previous
        units["delay"] = times - write_ms
        units["position"], units["record_size"] = waits[:, WAIT_POSITION], waits[:, WAIT_SIZE]
        units["code"] = waits[:, WAIT_CODE]
        counts = Counter(zip(times.tolist(), waits[:, WAIT_CODE].tolist(), strict=True))
        return Enqueued(units.tobytes(), runs, counts)


class CompiledChain:
    """Follows chains in the units of one timer. Used in one thread."""

    def __init__(self, units: UnitLog) -> None:
        self._units = units
        self._places = np.zeros(_AT_ONCE, np.int64)
        self._codes = np.zeros(_AT_ONCE, np.int64)

    def follow(self, place: int, most: int, places: array[int], counts: Counter[int]) -> tuple[int, int]:
        """Go back over usual units, `most` at most, and note them; how many, and the place to go on with."""
        found = self._units.select_file(place)
        if found is None:
            return 0, place
        start, data = found
        size = min(most, _AT_ONCE)
        count, after = follow_units(address_of(data), len(data), start, place, self._places[:size], self._codes[:size])
        places.frombytes(self._places[:count].tobytes())
        codes, each = np.unique(self._codes[:count], return_counts=True)
        for code, number in zip(codes.tolist(), each.tolist(), strict=True):
            counts[code] += number
        return count, after
