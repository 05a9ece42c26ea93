"""Reads one split: Arrow batches of the messages that are wanted, and proof that none was left out.

A split that cannot be read to its end raises DamagedRecord or DataLoss, or counts what is missing if it may.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from embermq.errors import CorruptRecord, DamagedRecord, DataLoss
from embermq.format.record import Record, decode_record
from embermq.scan.file_walk import FileWalk
from embermq.scan.matching import Matcher
from embermq.scan.queue_entries import QueueEntries, is_blank
from embermq.scan.rows import Row, batch_of, iter_rows
from embermq.scan.splits import LogFile, LogSplit, QueuePart, QueueSplit, RecordSplit, Split
from embermq.scan.store_files import StoreFiles
from embermq.scan.tally import Tally
from embermq.scan.wanted import Wanted

_BATCH_BYTES: Final = 2 << 20  # of the log, in one Arrow batch
_BATCH_ROWS: Final = 32_768


def read_split(split: Split, wanted: Wanted, tally: Tally | None = None) -> Iterator[pa.RecordBatch]:
    """The wanted messages of a split, in the order of the log, as Arrow batches of `wanted.columns`.

    What is skipped or lost, where `wanted` allows it, is counted in `tally`. Raises DamagedRecord and DataLoss.
    """
    reader = _SplitReader(split, wanted, tally or Tally())
    match split:
        case LogSplit():
            records = reader.iter_stretch(split)
        case QueueSplit():
            records = reader.iter_queues(split)
        case RecordSplit():
            records = reader.iter_single(split)
    yield from reader.batches(records)


class _SplitReader:
    def __init__(self, split: Split, wanted: Wanted, tally: Tally) -> None:
        self._store = StoreFiles(split.place)
        self._files = split.files
        self._log_end = split.log_end
        self._wanted = wanted
        self._matcher = Matcher(wanted)
        self._tally = tally

    def batches(self, records: Iterable[Record]) -> Iterator[pa.RecordBatch]:
        rows: list[Row] = []
        size = 0
        for record in records:
            if not self._matcher.accepts_record(record):
                continue
            try:
                found = [
                    row
                    for row in iter_rows(record, decode_body=self._wanted.decode_body)
                    if self._matcher.accepts_row(row)
                ]
            except CorruptRecord as error:
                self._add_damage(error.position, error.reason)
                continue
            rows += found
            size += record.size
            if size >= _BATCH_BYTES or len(rows) >= _BATCH_ROWS:
                yield batch_of(rows, self._wanted.columns, self._wanted.broker_name)
                rows, size = [], 0
        if rows:
            yield batch_of(rows, self._wanted.columns, self._wanted.broker_name)

    def iter_stretch(self, split: LogSplit) -> Iterator[Record]:
        """The records that begin in a stretch of the log."""
        position = split.begin
        for file in split.files:
            if file.end <= position or position >= split.end:
                continue
            if position < file.start:
                self._add_damage(position, f"no file holds it; the next begins at {file.start}")
            yield from self._iter_file(file, max(position, file.start), split.end)
            position = file.end
        if position < split.end:
            self._add_damage(position, "the log's files end before it")

    def _iter_file(self, file: LogFile, begin: int, end: int) -> Iterator[Record]:
        with FileWalk(self._store, file, begin, self._log_end) as walk:
            if begin > file.start and not walk.find_next():
                return  # what lies here belongs to a record that began before
            while walk.position < end:
                position = walk.position
                try:
                    data = walk.next(check_body=True)
                except CorruptRecord as error:
                    self._add_damage(position, error.reason)
                    walk.skip()
                    walk.find_next()
                    continue
                if data is None:
                    if not walk.is_closed and position < min(end, self._log_end):
                        self._add_damage(position, "no record where the log goes on")
                        walk.skip()
                        walk.find_next()
                        continue
                    return
                yield decode_record(data, position, check_body=False)

    def iter_queues(self, split: QueueSplit) -> Iterator[Record]:
        """The records of parts of queues, in the order of the log."""
        queues = {(queue.topic, queue.queue): queue for queue in self._store.find_queues()}
        places: list[tuple[int, int]] = []
        for part in split.parts:
            queue = queues.get((part.topic, part.queue))
            if queue is None:
                self._add_loss(part, part.end - part.begin, "the queue is gone")
                continue
            entries = QueueEntries(self._store, queue)
            found = entries.read(entries.index_of(part.begin), entries.index_of(part.end - 1) + 1)
            found = found[~is_blank(found)]
            places += zip(found["position"].tolist(), found["size"].tolist(), strict=True)
        for position, size in sorted(places):
            record = self._read(position, size)
            if record is not None:
                yield record

    def iter_single(self, split: RecordSplit) -> Iterator[Record]:
        """The records at some positions."""
        for position in split.positions:
            record = self._read(position, None)
            if record is not None:
                yield record

    def _read(self, position: int, size: int | None) -> Record | None:
        file = next((file for file in self._files if file.start <= position < file.end), None)
        if file is None:
            loss = DataLoss(self._store.place.address, what=f"the record at {position}", reason="no file holds it")
            self._tally.add_loss(loss, 1, fail=self._wanted.fail_on_loss)
            return None
        with FileWalk(self._store, file, position, self._log_end) as walk:
            try:
                data = walk.next(check_body=True)
                if data is None or (size is not None and len(data) != size):
                    raise CorruptRecord(position, f"no record of {size} bytes")
            except CorruptRecord as error:
                self._add_damage(position, error.reason)
                return None
            return decode_record(data, position, check_body=False)

    def _add_damage(self, position: int, reason: str) -> None:
        file = next((file for file in self._files if file.start <= position < file.end), None)
        path = self._store.name_of(file.path) if file else self._store.place.address
        self._tally.add_damage(DamagedRecord(path, position=position, reason=reason), skip=self._wanted.skip_damaged)

    def _add_loss(self, part: QueuePart, count: int, reason: str) -> None:
        place = f"{self._store.place.address}, topic {part.topic!r}, queue {part.queue}"
        loss = DataLoss(place, what=f"offsets [{part.begin}, {part.end})", reason=reason)
        self._tally.add_loss(loss, count, fail=self._wanted.fail_on_loss)
