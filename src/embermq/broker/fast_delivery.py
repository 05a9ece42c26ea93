"""Messages of a slot out of the timer by kernels: from units to a table of drafts, many in one call.

Only loaded where kernels are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from embermq.broker.topics import BrokerTopics
from embermq.errors import CorruptRecord, OutOfRange
from embermq.kernels.byte_table import ByteTable
from embermq.kernels.columns import (
    BYTES_WIDTH,
    DRAFT_BODY_SIZE,
    DRAFT_QUEUE,
    DRAFT_TOPIC,
    DRAFT_WIDTH,
    RECORD_SIZE,
    RECORD_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.placing import QUEUES_WIDTH
from embermq.kernels.timer_units import draft_due
from embermq.kernels.topics import TopicTable
from embermq.log.table_append import DraftTable
from embermq.model.properties import REAL_TOPIC, find_property
from embermq.model.topic import HALF_TOPIC, LIGHT_PREFIX, TIMER_TOPIC
from embermq.store.store import Store
from embermq.timers.slot_reading import Slot
from embermq.timers.timers import Timers

MOST: Final = 2048  # messages of a table
TEXT_ROOM: Final = 2 * 1024 * 1024
_QUEUES_SHIFT: Final = 32


class FastDelivery:
    """Makes tables of messages for topics that it has met. Used in one thread."""

    def __init__(self, store: Store, timers: Timers, topics: BrokerTopics) -> None:
        self._store = store
        self._timers = timers
        self._topics = topics
        self._timer = ByteTable(TIMER_TOPIC.encode())
        self._drafts: Table = np.zeros((MOST, DRAFT_WIDTH), np.int64)
        self._hosts: Table = np.zeros((MOST + 1, BYTES_WIDTH), np.int64)
        self._record: Table = np.zeros((1, RECORD_WIDTH), np.int64)
        self._texts = np.zeros(TEXT_ROOM, np.uint8)
        self._own_host = store.store_host()
        self._hosts[0] = address_of(self._own_host), len(self._own_host)
        self._known_of = topics.table()
        self._queues: Table = np.zeros((0, QUEUES_WIDTH), np.int64)
        self._by_name = TopicTable()
        self._forget()

    def read(self, slot: Slot, begin: int, *, now_ms: int, most_bytes: int, most: int = MOST) -> DraftTable | None:
        """Messages of a slot from its unit `begin` on, one of each that is usual; None if the first is not."""
        if self._topics.table() is not self._known_of:
            self._known_of = self._topics.table()
            self._forget()
        if slot.cancelled:
            return None
        memory = self._timers.memory_of(slot.places[begin])
        if memory is None:
            return None
        (unit_start, unit_data), (log_start, log_data) = memory
        places = np.frombuffer(slot.places, np.int64)[begin : begin + most]
        count, used, _ = draft_due(
            address_of(unit_data), len(unit_data), unit_start, places, address_of(log_data), len(log_data), log_start,
            self._timer.rows, self._by_name.address, self._by_name.size, self._queues, now_ms,
            int(self._texts.ctypes.data), TEXT_ROOM, self._record, self._drafts, self._hosts,
        )  # fmt: skip
        if not count and self._learn(slot.places[begin]):
            return self.read(slot, begin, now_ms=now_ms, most_bytes=most_bytes, most=most)
        if not count:
            return None
        drafts = self._drafts[:count]
        total = int(drafts[:, DRAFT_BODY_SIZE].sum())
        if total > most_bytes and most > 1:
            return self.read(slot, begin, now_ms=now_ms, most_bytes=most_bytes, most=most // 2)
        return DraftTable(
            drafts, address_of(log_data), len(log_data), int(self._texts.ctypes.data), TEXT_ROOM, total + used,
            self._numbers.rows, self._queues, self._hosts[: count + 1], 0, b"", kept=log_data,
        )  # fmt: skip

    def count(self, table: DraftTable, records: Table, count_put: Callable[[str, int, int, int], None]) -> None:
        """Have messages counted that were put, by topic and queue."""
        drafts = table.drafts[: len(records)]
        places = drafts[:, DRAFT_TOPIC] << _QUEUES_SHIFT | drafts[:, DRAFT_QUEUE]
        found, which, counts = np.unique(places, return_inverse=True, return_counts=True)
        sizes = np.bincount(which, weights=records[:, RECORD_SIZE])
        names = list(self._names.values())
        for place, count, size in zip(found.tolist(), counts.tolist(), sizes.tolist(), strict=True):
            count_put(names[place >> _QUEUES_SHIFT], place & (1 << _QUEUES_SHIFT) - 1, count, int(size))

    def _learn(self, place: int) -> bool:
        """Know the topic of a unit's message from now on; False if it is known, or something about it is special."""
        try:
            properties = self._store.read_record(self._timers.read_unit(place)[2]).properties
        except (OutOfRange, CorruptRecord):
            return False
        name = find_property(properties, REAL_TOPIC.encode()) or b""
        topic = name.decode(errors="replace")
        config = self._topics.find(topic)
        if config is None or name in self._names or config.attributes or topic == HALF_TOPIC:
            return False
        if topic.startswith(LIGHT_PREFIX) or self._topics.is_static(topic):
            return False
        table, count = self._store.queue_table(), max(config.write_queues, config.read_queues)
        rows = np.array([table.row(name, queue) for queue in range(count)], np.int64)
        self._rows.append(rows)
        self._names[name] = topic
        self._numbers.number_of(name)
        self._queues = np.concatenate([self._queues, [[int(rows.ctypes.data), count]]])
        self._by_name.add(name, len(self._rows) - 1)
        return True

    def _forget(self) -> None:
        self._names: dict[bytes, str] = {}
        self._rows: list[Table] = []  # of the queues of each topic; kept where they are
        self._numbers = ByteTable()
        self._queues = np.zeros((0, QUEUES_WIDTH), np.int64)
        self._by_name = TopicTable()
