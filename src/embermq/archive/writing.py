"""What one task does: reads its stretch of the log and writes the rows as Parquet, a file for each topic and day.

Rows wait in memory until a row group of a file is full, or until all that waits is too much. A file is on disk when the
task is done, but nobody sees it: only the table's next transaction names it.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from embermq.archive.rows import Part, split_rows
from embermq.archive.target import Target
from embermq.scan import columns as names
from embermq.scan.reading import read_split
from embermq.scan.splits import LogSplit
from embermq.scan.tally import Tally
from embermq.scan.wanted import Wanted

if TYPE_CHECKING:
    from embermq.jobs.progress import Report

GROUP_BYTES: Final = 64 << 20  # of rows, before they are packed
MOST_WAITING: Final = 256 << 20
MOST_OPEN: Final = 256  # files
RANKED: Final = (names.STORE_TIME, names.POSITION, names.OFFSET)  # columns whose least and largest value tables know
LEVEL: Final = 1  # of zstd

_FEW: Final = [  # columns with few values
    *(names.TOPIC, names.QUEUE, names.TAGS, names.BROKER, names.FLAG, names.SYS_FLAG, names.BORN_HOST),
    *(names.STORE_HOST, names.RECONSUME_TIMES, names.PREPARED_POSITION),
]
_RISING: Final = (names.OFFSET, names.STORE_TIME, names.BORN_TIME, names.POSITION, names.SIZE)
_ENCODINGS: Final = {
    **dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
    names.UNIQUE_KEY: "DELTA_LENGTH_BYTE_ARRAY",  # all of one size: zstd sees nothing but their characters
}


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One stretch of the log, and where its rows go. Plain data."""

    split: LogSplit
    wanted: Wanted
    target: Target
    number: int  # of the batch's tasks
    prefix: str  # of the names of its files, which no other try of the batch has
    with_topic: bool  # as a column, too


class WrittenFile(NamedTuple):
    """One file, which no table knows yet."""

    path: str
    part: Part
    size: int
    rows: int
    low: dict[str, int]  # the least values of RANKED; times in microseconds
    high: dict[str, int]


@dataclass(slots=True)
class TaskResult:
    """What a task wrote, and what it left out because it may."""

    files: list[WrittenFile] = field(default_factory=list)
    damaged: int = 0
    last_position: int = -1  # of the last record that it wrote


def write_stretch(task: WriteTask, report: Report) -> TaskResult:
    """Write the rows of a task. What it wrote is removed again if it fails."""
    result, tally = TaskResult(), Tally()
    writer = PartWriter(task, result)
    done = task.split.begin
    try:
        for batch in read_split(task.split, task.wanted, tally):
            for part, rows in split_rows(batch):
                writer.add(part, rows)
            position = int(batch.column(names.POSITION)[-1].as_py())
            if position > done:  # topics take turns
                report(position - done)
                done = position
            result.last_position = max(result.last_position, position)
        writer.close()
    except BaseException:
        writer.discard()
        raise
    report(task.split.end - done)
    result.damaged = tally.damaged
    return result


class PartWriter:
    """Files of one task, one for each part at a time."""

    def __init__(self, task: WriteTask, result: TaskResult) -> None:
        self._task = task
        self._result = result
        self._open: dict[Part, _OpenFile] = {}
        self._made: list[str] = []
        self._waiting = 0
        self._suffix = os.urandom(4).hex()  # Spark may try a task twice, even at once

    def add(self, part: Part, rows: pa.RecordBatch) -> None:
        file = self._open.get(part)
        if file is None:
            if len(self._open) == MOST_OPEN:
                self.close()
            file = self._open[part] = self._make(part)
        self._waiting += file.add(rows)
        if file.waiting >= GROUP_BYTES:
            self._waiting -= file.flush()
        elif self._waiting >= MOST_WAITING:
            self._waiting -= max(self._open.values(), key=lambda each: each.waiting).flush()

    def close(self) -> None:
        """Have all files on disk."""
        for file in self._open.values():
            self._result.files.append(file.close())
        self._open.clear()
        self._waiting = 0

    def discard(self) -> None:
        """Remove what was written."""
        for name in self._made:
            self._task.target.delete(name)

    def _make(self, part: Part) -> _OpenFile:
        name = f"{self._task.prefix}-{self._task.number:04}-{len(self._made):04}-{self._suffix}.parquet"
        path = f"{part.folder}/{name}"
        self._task.target.make_folder(part.folder)
        self._made.append(path)
        return _OpenFile(self._task.target, path, part, with_topic=self._task.with_topic)


class _OpenFile:
    """A file that is being written."""

    def __init__(self, target: Target, path: str, part: Part, *, with_topic: bool) -> None:
        self._target = target
        self._path = path
        self._part = part
        self._with_topic = with_topic
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0
        self._low: dict[str, int] = {}
        self._high: dict[str, int] = {}
        self._writer: parquet.ParquetWriter | None = None
        self.waiting = 0

    def add(self, rows: pa.RecordBatch) -> int:
        """Have rows wait; how many bytes they are."""
        self._batches.append(rows)
        size = int(rows.nbytes)
        self.waiting += size
        return size

    def flush(self) -> int:
        """Write what waits as one row group; how many bytes it was."""
        table = pa.Table.from_batches(self._batches)
        if not self._with_topic:
            table = table.drop_columns([names.TOPIC])
        if self._writer is None:
            self._writer = self._begin(table.schema)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._rank(table)
        self._rows += table.num_rows
        written, self.waiting = self.waiting, 0
        self._batches = []
        return written

    def close(self) -> WrittenFile:
        if self._batches:
            self.flush()
        assert self._writer is not None
        self._writer.close()
        size = int(self._target.system.get_file_info(self._target.path(self._path)).size)
        self._sync()
        return WrittenFile(self._path, self._part, size, self._rows, self._low, self._high)

    def _begin(self, schema: pa.Schema) -> parquet.ParquetWriter:
        present = set(schema.names)
        return parquet.ParquetWriter(
            self._target.path(self._path),
            schema,
            filesystem=self._target.system,
            compression="zstd",
            compression_level=LEVEL,
            use_dictionary=[name for name in _FEW if name in present],
            column_encoding=_ENCODINGS,
            write_statistics=[*RANKED, *([names.TOPIC] if self._with_topic else [])],
        )

    def _rank(self, table: pa.Table) -> None:
        for name in RANKED:
            limits = pc.min_max(table[name].cast(pa.int64())).as_py()
            self._low[name] = min(self._low.get(name, limits["min"]), limits["min"])
            self._high[name] = max(self._high.get(name, limits["max"]), limits["max"])

    def _sync(self) -> None:
        """Object stores keep what they answered for; of this machine the disk has to."""
        if self._target.local is not None:
            descriptor = os.open(self._target.local / self._path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
