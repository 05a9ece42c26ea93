"""The engine whose loops are kernels. Only loaded where kernels are.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from embermq.kernels.columns import (
    DONE,
    FULL,
    NEW_TOPIC,
    NOT_TEXT,
    PAIR_WIDTH,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
    ROW_WIDTH,
    VALUE_WIDTH,
)
from embermq.kernels.memory import address_of
from embermq.kernels.property_split import split_properties
from embermq.kernels.row_scan import SCRATCH_ROWS, find_rows
from embermq.kernels.span_copy import SPARE, copy_spans
from embermq.kernels.topics import TopicTable
from embermq.scan.engine import MOST_ROWS, Looked, Numbers, Taken, Times
from embermq.scan.topic_numbers import TopicNumbers

_NO_PLACES: Final = np.empty(0, np.int64)
_PAIRS_PER_RECORD: Final = 8  # more than that make the table of pairs grow


class CompiledEngine:
    """Its tables are used again for every piece of the log."""

    def __init__(self, accepts_topic: Callable[[str], bool]) -> None:
        self.topics = TopicNumbers(accepts_topic)
        self._table = TopicTable()
        self._rows = np.empty((ROW_WIDTH, MOST_ROWS), np.int64)
        self._record = np.zeros((SCRATCH_ROWS, RECORD_WIDTH), np.int64)

    def find(
        self,
        data: memoryview,
        position: int,
        *,
        stop: int = -1,
        places: Numbers | None = None,
        times: Times,
        check_body: bool,
        with_rest: bool = True,
    ) -> Looked:
        if not data:
            return Looked(self._rows[:, :0], 0, 0, goes_on=False)
        taken, end, seen, reason = find_rows(
            address_of(data), len(data), position, stop, _NO_PLACES if places is None else places, places is None,
            check_body, with_rest, self._table.address, self._table.size, self.topics.wanted, times.begin, times.end,
            self._record, self._rows,
        )  # fmt: skip
        goes_on = reason == FULL or (reason == NEW_TOPIC and self._add_topic(data))
        return Looked(self._rows[:, :taken], end, seen, goes_on)

    def take_apart(self, data: memoryview, places: Numbers, sizes: Numbers, *, with_pairs: bool) -> Taken:
        values, ends = np.empty((VALUE_WIDTH, len(places)), np.int64), np.empty(len(places), np.int32)
        room = _PAIRS_PER_RECORD * len(places) if with_pairs else 0
        while True:
            pairs = np.empty((PAIR_WIDTH, room), np.int64)
            count, made, reason = split_properties(
                address_of(data), len(data), places, sizes, with_pairs, ends, pairs, values
            )
            if reason != FULL:
                assert reason in (DONE, NOT_TEXT), f"properties that were found cannot be split: reason {reason}"
                return Taken(count, values[:, :count], ends[:count], pairs[:, :made])
            room = 4 * room + 64

    def gather(self, data: memoryview, places: Numbers, sizes: Numbers, kind: pa.DataType) -> pa.Array:
        absent = sizes < 0
        has_nulls = bool(absent.any())
        total = int(sizes[~absent].sum() if has_nulls else sizes.sum())
        offsets, gathered = np.empty(len(places) + 1, np.int32), np.empty(total + SPARE, np.uint8)
        count, reason = copy_spans(
            address_of(data) if data else 0, len(data), places, sizes, offsets,
            int(gathered.ctypes.data), gathered.nbytes,
        )  # fmt: skip
        assert count == len(places), f"{count} of {len(places)} spans copied: reason {reason}"
        valid = pa.py_buffer(np.packbits(~absent, bitorder="little")) if has_nulls else None
        return pa.Array.from_buffers(kind, count, [valid, pa.py_buffer(offsets), pa.py_buffer(gathered)])

    def _add_topic(self, data: memoryview) -> bool:
        """Know the topic of the record that was looked at last; False if it is none that kernels can know."""
        at, size = int(self._record[0, RECORD_TOPIC_AT]), int(self._record[0, RECORD_TOPIC_SIZE])
        name = bytes(data[at : at + size])
        try:
            number = self.topics.add(name)
        except UnicodeDecodeError:
            return False
        if name:
            self._table.add(name, number)
        return bool(name)
