"""What queues hold, told by the log: for stores whose queues are no files, but in a RocksDB, or left out of a copy.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from embermq.scan.columns import OFFSET, QUEUE, SIZE, TOPIC
from embermq.scan.reading import read_split
from embermq.scan.splits import LogFile, LogSplit, StorePlace
from embermq.scan.survey import QueueState
from embermq.scan.wanted import OffsetRange, Wanted


@lru_cache(maxsize=16)
def tell_queues(place: StorePlace, files: tuple[LogFile, ...], end: int) -> tuple[QueueState, ...]:
    """The queues of the records before `end`, by topic and number. The log is read for it."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for batch in _read(place, files, end, Wanted(columns=(TOPIC, QUEUE, OFFSET))):
        spans = pa.Table.from_batches([batch]).group_by([TOPIC, QUEUE]).aggregate([(OFFSET, "min"), (OFFSET, "max")])
        for row in spans.to_pylist():
            first, last = row[f"{OFFSET}_min"], row[f"{OFFSET}_max"]
            low, high = found.get((row[TOPIC], row[QUEUE]), (first, last))
            found[row[TOPIC], row[QUEUE]] = min(low, first), max(high, last)
    return tuple(sorted(QueueState(*queue, low, high + 1) for queue, (low, high) in found.items()))


class ToldSearch:
    """Finds offsets in such queues. The log is read for each question."""

    def __init__(self, place: StorePlace, files: tuple[LogFile, ...], end: int) -> None:
        self._log = place, files, end

    def count_within(self, queue: QueueState, begin: int, size: int) -> int:
        """How many messages of a queue, from offset `begin` on, have at most `size` bytes in the log; at least one."""
        wanted = Wanted(ranges=(OffsetRange(queue.topic, queue.queue, begin, queue.end),), columns=(OFFSET, SIZE))
        columns = [(batch[OFFSET].to_numpy(), batch[SIZE].to_numpy()) for batch in _read(*self._log, wanted)]
        if not columns:
            return 1
        offsets, sizes = (np.concatenate(parts) for parts in zip(*columns, strict=True))
        order = np.argsort(offsets, kind="stable")
        within = int((sizes[order].astype(np.int64).cumsum() <= size).sum())
        return int(offsets[order][within]) - begin or 1 if within < len(order) else queue.end - begin

    def find_offset(self, queue: QueueState, time_ms: int) -> int:
        """The offset of the first message of a queue that was stored at this time or later, else the queue's end."""
        whole = OffsetRange(queue.topic, queue.queue, queue.begin, queue.end)
        wanted = Wanted(ranges=(whole,), begin_time_ms=time_ms, columns=(OFFSET,))
        return min((int(batch[OFFSET].to_numpy().min()) for batch in _read(*self._log, wanted)), default=queue.end)


def _read(place: StorePlace, files: tuple[LogFile, ...], end: int, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """Messages of the whole log. What is damaged is told by who reads it afterwards."""
    begin = files[0].start if files else end
    if begin < end:
        lenient = replace(wanted, system_topics=True, skip_damaged=True)
        split = LogSplit(place, tuple(file for file in files if file.start < end), begin, end, end)
        yield from (batch for batch in read_split(split, lenient) if batch.num_rows)
