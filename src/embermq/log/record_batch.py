"""Records in log memory as a table of numbers: what a kernel has appended or found there.

Only loaded where kernels are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import cached_property
from typing import Final

import numpy as np

from embermq.format.queue_entry import ENTRY
from embermq.kernels.columns import RECORD_SIZE, RECORD_STORE_TIME, RECORD_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.found_records import FoundRecords, find_known
from embermq.kernels.memory import address_of
from embermq.kernels.placing import list_places
from embermq.kernels.queue_entries import enter_entries
from embermq.kernels.record_check import count_named
from embermq.kernels.record_scan import scan_records
from embermq.log.placed import Batch, Place, Placed, Run, Spread
from embermq.log.queue_table import QueueTable

_FEW: Final = 32  # queues; of more, a set is made


class RecordBatch(Batch):
    """Records that kernels know, for queues and index. `places` tells where `table` has the numbers of their queues."""

    __slots__ = ("__dict__", "_found", "_known_rows", "_places", "_spread", "_table", "entered", "keys", "store_time")

    def __init__(
        self,
        found: FoundRecords,
        table: QueueTable | None = None,
        places: Table | None = None,
        spread: Spread | None = None,
        rows: set[int] | None = None,
    ) -> None:
        self.keys = found.keys  # as the index files them, in the order of the records
        self.store_time = int(found.records[-1, RECORD_STORE_TIME])
        self.entered = 0  # how many of the first have their queue entries already
        self._found = found
        self._table = table
        self._spread = spread
        self._known_rows = rows
        self._places = None if places is None else places[: len(found)]

    def __len__(self) -> int:
        return len(self._found)

    @cached_property
    def sizes(self) -> Sequence[int]:  # type: ignore[override]
        found: list[int] = self._found.records[:, RECORD_SIZE].tolist()
        return found

    def spread(self) -> Spread:
        if self._spread is None:
            sizes = self._found.records[:, RECORD_SIZE]
            self._spread = Spread(int(sizes.min()), int(sizes.max()), int(sizes.sum()))
        return self._spread

    def may_be_in(self, rows: Set[int]) -> bool:
        if self._table is None:
            return True
        if self._places is None or self._few_rows is not None:
            return not self._rows.isdisjoint(rows)
        return bool(np.isin(self._places, list(rows)).any())

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
        if self._table is not None:
            return {queue for queue, row in self._table.rows(topic).items() if row in self._rows}
        return {run.queue for run in self._runs if run.topic == topic}

    def codes_by_queue(self, is_wanted: Callable[[Place], bool]) -> dict[Place, list[int]]:
        if self._table is not None:
            return self._codes_by_row(self._table, is_wanted)
        found: dict[Place, list[int]] = {}
        for run in self._runs:
            place = run.topic.decode(), run.queue
            if is_wanted(place):
                found.setdefault(place, []).extend(code for _, _, code in ENTRY.iter_unpack(b"".join(run.entries)))
        return found

    @cached_property
    def _rows(self) -> set[int]:
        """The rows of the queues that its records are in."""
        few = self._few_rows
        if few is not None:
            return few
        assert self._places is not None
        return set(self._places.tolist())

    @cached_property
    def _few_rows(self) -> set[int] | None:
        """The same, if they are few: None if they are many."""
        if self._known_rows is not None:
            return self._known_rows
        if self._places is None:
            return set()
        listed = np.empty(_FEW, np.int64)
        count = list_places(self._places, listed)
        return set(listed[:count].tolist()) if count >= 0 else None

    def _codes_by_row(self, table: QueueTable, is_wanted: Callable[[Place], bool]) -> dict[Place, list[int]]:
        found: dict[Place, list[int]] = {}
        for row in self._rows:
            topic, queue = table.name(row)
            if is_wanted(place := (topic.decode(), queue)):
                found[place] = self._found.codes[self._places == row].tolist()
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
