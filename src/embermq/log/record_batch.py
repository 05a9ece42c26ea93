"""Records in log memory as a table of numbers: what a kernel has appended or found there.

Only loaded where kernels are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from embermq.format.queue_entry import ENTRY
from embermq.kernels.columns import RECORD_SIZE, RECORD_STORE_TIME, RECORD_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.found_records import FoundRecords, find_known
from embermq.kernels.memory import address_of
from embermq.kernels.queue_entries import enter_entries
from embermq.kernels.record_check import count_named
from embermq.kernels.record_scan import scan_records
from embermq.log.placed import Batch, Placed, Run
from embermq.log.queue_table import QueueTable
from embermq.model.topic import SCHEDULE_TOPIC

_SCHEDULE = SCHEDULE_TOPIC.encode()


class RecordBatch(Batch):
    """Records that kernels know, for queues and index. `places` tells where the numbers of their queues are."""

    __slots__ = ("__dict__", "_found", "_places", "entered", "keys", "store_time")

    def __init__(self, found: FoundRecords, places: Table | None = None) -> None:
        self.keys = found.keys  # as the index files them, in the order of the records
        self.store_time = int(found.records[-1, RECORD_STORE_TIME])
        self.entered = 0  # how many of the first have their queue entries already
        self._found = found
        self._places = places

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def sizes(self) -> Sequence[int]:  # type: ignore[override]
        found: list[int] = self._found.records[:, RECORD_SIZE].tolist()
        return found

    def enter(self, table: QueueTable, put_one: Callable[[Placed], None]) -> bool:
        """Write the entries of all records into their queues; `put_one` does it for those that are not offered.

        False, with nothing done, if it is not known where the queues' numbers are.
        """
        if self._places is None:
            return False
        done, found = self.entered, self._found
        while True:
            done = enter_entries(found.records, found.codes, self._places, table.address, len(table.numbers), done)
            if done == len(self):
                return True
            put_one(self[done])
            done += 1

    def runs(self) -> Sequence[Run]:
        return self._runs

    @cached_property
    def _runs(self) -> list[Run]:
        return [Run(run.topic.encode(), run.queue, run.offset, [run.entries]) for run in self._found.iter_runs()]

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
        return Placed(*self._found[index])


def scan_batch(data: memoryview, position: int, most: int) -> RecordBatch | None:
    """The records that `data`, cut from log `position`, begins with, `most` at most; None if plain code must look."""
    records = np.empty((most, RECORD_WIDTH), np.int64)
    address = address_of(data)
    count, _, _ = scan_records(address, len(data), position, False, records)
    count = count_named(address, len(data), position, records[:count], False)
    found = find_known(address, data, records[:count]) if count else None
    return None if found is None else RecordBatch(found)
