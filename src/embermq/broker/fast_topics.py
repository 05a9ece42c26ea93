"""The topics that plain messages may go to, where kernels find them: by name, with their queues.

Those that messages wait in have numbers, too, but are not found by name: nobody sends there.

Only loaded where kernels are.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import numpy as np

from embermq.broker.intake import Intake
from embermq.kernels.byte_table import ByteTable
from embermq.kernels.compiling import Table
from embermq.kernels.placing import QUEUES_WIDTH
from embermq.kernels.topics import TopicTable
from embermq.log.queue_table import QueueTable
from embermq.model.topic import HALF_TOPIC, TIMER_TOPIC


class FastTopics:
    """Follows what an Intake knows."""

    def __init__(self, intake: Intake, numbers: QueueTable) -> None:
        self._intake = intake
        self._numbers = numbers
        self._known: Mapping[str, tuple[bytes, int]] | None = None
        self._start({})

    @property
    def is_empty(self) -> bool:
        """Whether no message can go anywhere."""
        return len(self.by_name) == 0

    def refresh(self) -> None:
        """Know what the intake knows now."""
        known = self._intake.known
        if known is not self._known:
            self._start(known)
        if len(known) > len(self.by_name):
            for name, count in islice(known.values(), len(self.by_name), None):
                self.by_name.add(name, self._add(name, count))

    def _start(self, known: Mapping[str, tuple[bytes, int]]) -> None:
        self._known = known
        self._rows: list[Table] = []  # of the queues of each topic; kept where they are
        self._room: Table = np.zeros((16, QUEUES_WIDTH), np.int64)
        self.by_name = TopicTable()
        self.names = ByteTable()
        self.titles: list[str] = []  # the same as text
        self.timer, self.half = (self._add(name.encode(), 1) for name in (TIMER_TOPIC, HALF_TOPIC))

    def _add(self, name: bytes, count: int) -> int:
        number = len(self._rows)
        rows = np.array([self._numbers.row(name, queue) for queue in range(count)], np.int64)
        self._rows.append(rows)
        if number == len(self._room):
            self._room = np.concatenate([self._room, np.zeros_like(self._room)])
        self._room[number] = int(rows.ctypes.data), count
        self._use_room(number + 1)
        self.names.number_of(name)
        self.titles.append(name.decode())
        return number

    def _use_room(self, count: int) -> None:
        self.queues: Table = self._room[:count]
        self.queues_address = int(self._room.ctypes.data)
