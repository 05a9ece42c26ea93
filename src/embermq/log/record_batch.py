"""Records in log memory as a table of numbers: what a kernel has appended or found there.

Only loaded where kernels are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from embermq.format.queue_entry import ENTRY, QUEUE_ENTRY_SIZE
from embermq.kernels.columns import (
    DONE,
    FULL,
    KEY_WIDTH,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_QUEUE,
    RECORD_SIZE,
    RECORD_STORE_TIME,
    RECORD_SYS_FLAG,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
    RUN_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.dispatch import find_codes_and_keys
from embermq.kernels.memory import address_of
from embermq.kernels.queue_entries import enter_entries
from embermq.kernels.queue_runs import group_entries
from embermq.kernels.record_check import count_named
from embermq.kernels.record_scan import scan_records
from embermq.log.placed import Batch, Placed, Run
from embermq.log.queue_table import QueueTable
from embermq.model.topic import SCHEDULE_TOPIC

_SCHEDULE = SCHEDULE_TOPIC.encode()
KEYS_PER_RECORD = 4  # more than that make the table of keys grow


class RecordBatch(Batch):
    """The records that `data`, a part of the log, begins with; `records` has a row for each."""

    __slots__ = ("__dict__", "_codes", "_data", "_places", "_records", "entered", "keys", "store_time")

    def __init__(
        self, data: memoryview, records: Table, codes: Table, keys: Table, places: Table | None = None
    ) -> None:
        self.keys = keys  # as the index files them, in the order of the records
        self.store_time = int(records[-1, RECORD_STORE_TIME])
        self._data = data
        self._records = records
        self._codes = codes
        self._places = places
        self.entered = 0  # how many of the first have their queue entries already

    def __len__(self) -> int:
        return len(self._records)

    @cached_property
    def sizes(self) -> Sequence[int]:  # type: ignore[override]
        found: list[int] = self._records[:, RECORD_SIZE].tolist()
        return found

    def enter(self, table: QueueTable, put_one: Callable[[Placed], None]) -> bool:
        """Write the entries of all records into their queues; `put_one` does it for those that are not offered.

        False, with nothing done, if it is not known where the queues' numbers are.
        """
        if self._places is None:
            return False
        done = self.entered
        while True:
            done = enter_entries(self._records, self._codes, self._places, table.address, len(table.numbers), done)
            if done == len(self):
                return True
            put_one(self[done])
            done += 1

    def runs(self) -> Sequence[Run]:
        return self._runs

    @cached_property
    def _runs(self) -> list[Run]:
        count = len(self)
        entries = np.empty(count * QUEUE_ENTRY_SIZE, np.uint8)
        runs = np.empty((count, RUN_WIDTH), np.int64)
        run_count, _, reason = group_entries(
            address_of(self._data), len(self._data), self._records, self._codes,
            int(entries.ctypes.data), entries.nbytes, runs,
        )  # fmt: skip
        assert reason == DONE, f"records of a kernel's own, and entries cannot be made of them: reason {reason}"
        blocks, data = entries.tobytes(), self._data
        found: list[Run] = []
        for topic_at, topic_size, queue, offset, begin, number in runs[:run_count].tolist():
            block = blocks[begin * QUEUE_ENTRY_SIZE : (begin + number) * QUEUE_ENTRY_SIZE]
            found.append(Run(bytes(data[topic_at : topic_at + topic_size]), queue, offset, [block]))
        return found

    def queues_of(self, topic: bytes) -> set[int]:
        if topic == _SCHEDULE:  # whose records kernels leave to plain code
            return set()
        return {run.queue for run in self._runs if run.topic == topic}

    def codes_by_queue(self) -> dict[tuple[str, int], list[int]]:
        found: dict[tuple[str, int], list[int]] = {}
        for run in self._runs:
            codes = found.setdefault((run.topic.decode(), run.queue), [])
            codes += [code for _, _, code in ENTRY.iter_unpack(b"".join(run.entries))]
        return found

    def _make(self, index: int) -> Placed:
        row = self._records[index].tolist()
        topic_at, properties_at = row[RECORD_TOPIC_AT], row[RECORD_PROPERTIES_AT]
        properties = bytes(self._data[properties_at : properties_at + row[RECORD_PROPERTIES_AT + 1]])
        topic = bytes(self._data[topic_at : topic_at + row[RECORD_TOPIC_SIZE]]).decode()
        return Placed(
            topic, row[RECORD_QUEUE], row[RECORD_OFFSET], row[RECORD_POSITION], row[RECORD_SIZE],
            int(self._codes[index]), row[RECORD_STORE_TIME], row[RECORD_SYS_FLAG], properties,
        )  # fmt: skip


def make_batch(address: int, data: memoryview, records: Table, places: Table | None = None) -> RecordBatch | None:
    """What is known of records by a table, made ready for queues and index, up to the first that is for plain code.

    The records lie at `address`, and will be in `data` before somebody looks there. The table is kept, not copied.
    """
    codes, room = np.empty(len(records), np.int64), len(records) * KEYS_PER_RECORD
    while True:
        keys = np.empty((room, KEY_WIDTH), np.int64)
        done, key_count, reason = find_codes_and_keys(address, len(data), records, -1, codes, keys)
        if reason != FULL:
            return RecordBatch(data, records[:done], codes[:done], keys[:key_count], places) if done else None
        room *= 4


def scan_batch(data: memoryview, position: int, most: int) -> RecordBatch | None:
    """The records that `data`, cut from log `position`, begins with, `most` at most; None if plain code must look."""
    records = np.empty((most, RECORD_WIDTH), np.int64)
    address = address_of(data)
    count, _, _ = scan_records(address, len(data), position, False, records)
    count = count_named(address, len(data), position, records[:count], False)
    return make_batch(address, data, records[:count]) if count else None
