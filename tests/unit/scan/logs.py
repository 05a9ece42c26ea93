"""Logs for tests of scans: bytes as the one file of a store, the ways to read them, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from embermq.errors import DamagedRecord
from embermq.kernels.columns import ROW_WIDTH
from embermq.scan.compiled_engine import CompiledEngine
from embermq.scan.engine import Looked, Numbers, Taken
from embermq.scan.numpy_engine import NumpyEngine
from embermq.scan.reading import read_split
from embermq.scan.split_context import MakeEngine
from embermq.scan.splits import LogFile, LogSplit, StorePlace
from embermq.scan.tally import Tally
from embermq.scan.topic_numbers import TopicNumbers
from embermq.scan.wanted import Wanted

NAME = "00000000000000000000"


class PlainEngine:
    """Finds nothing, so that plain code looks at every record: what the others are compared with."""

    def __init__(self, accepts_topic: Callable[[str], bool]) -> None:
        self.topics = TopicNumbers(accepts_topic)

    def find(self, data: memoryview, position: int, **_: Any) -> Looked:
        return Looked(np.empty((ROW_WIDTH, 0), np.int64), 0, 0, goes_on=False)

    def take_apart(self, data: memoryview, places: Numbers, sizes: Numbers, *, with_pairs: bool) -> Taken:
        raise AssertionError("nothing was found")

    def gather(self, data: memoryview, places: Numbers, sizes: Numbers, kind: pa.DataType) -> pa.Array:
        raise AssertionError("nothing was found")


ENGINES: dict[str, MakeEngine] = {"compiled": CompiledEngine, "numpy": NumpyEngine, "plain": PlainEngine}


def a_log_of(path: Path, data: bytes, *, size: int | None = None) -> StorePlace:
    """A store whose log is one file that begins with `data`."""
    folder = path / "commitlog"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_bytes(data.ljust(size or len(data), b"\0"))
    return StorePlace(str(path))


def a_split(place: StorePlace, end: int, *, begin: int = 0, log_end: int | None = None) -> LogSplit:
    size = Path(place.address, "commitlog", NAME).stat().st_size
    files = (LogFile(f"commitlog/{NAME}", 0, size),)
    return LogSplit(place, files, begin, end, end if log_end is None else log_end)


def rows_of(split: Any, wanted: Wanted, engine: MakeEngine, tally: Tally | None = None) -> list[dict[str, Any]]:
    """The rows; times as numbers, for not each is a date, and properties as dictionaries, for they have no order."""
    rows = [row for batch in read_split(split, wanted, tally, make_engine=engine) for row in plain(batch).to_pylist()]
    for row in rows:
        if "properties" in row:
            assert len(dict(row["properties"])) == len(row["properties"]), "a name occurs twice"
            row["properties"] = dict(row["properties"])
    return rows


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    batch.validate(full=True)
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def outcome(split: Any, wanted: Wanted, engine: MakeEngine) -> tuple[object, ...]:
    """All that a read gives: rows and counts, or the error."""
    tally = Tally()
    try:
        rows = rows_of(split, wanted, engine, tally)
    except DamagedRecord as error:
        return error.position, error.reason
    return rows, tally.damaged, tally.lost
