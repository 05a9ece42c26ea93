"""The only file that knows how Spark's versions differ. 4.3 is what everything is tested with."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from embermq.errors import SettingsError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from embermq_spark.stream import Stream

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # 4.1 has no limits, and takes what is available now in one batch

    class ReadLimit:  # type: ignore[no-redef]
        def __init__(self, *_: int) -> None: ...

    class SupportsTriggerAvailableNow: ...  # type: ignore[no-redef]

    ReadAllAvailable = ReadMaxBytes = ReadMaxRows = ReadMinRows = ReadLimit  # type: ignore[misc, assignment]

__all__ = [
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "WholeStream",
    "arrow_schema",
    "check_version",
    "fit_stream",
    "pushes_filters",
]

OLDEST: Final = (4, 1)  # the first whose streams can be written in Arrow batches
TELLS_BEGINNINGS: Final = (4, 2)  # the first that asks a stream for the end of a batch with its beginning
_PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"


def check_version(version: str = pyspark.__version__) -> None:
    """Raise SettingsError if this PySpark is too old."""
    if _numbers_of(version) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise SettingsError(f"PySpark {version} is too old, {wanted} or newer is wanted; pip install 'embermq[spark]'")


def fit_stream(stream: Stream, version: str = pyspark.__version__) -> DataSourceStreamReader:
    """A stream as this PySpark asks streams. Raises SettingsError for options that this needs a newer one for."""
    return stream if _numbers_of(version) >= TELLS_BEGINNINGS else WholeStream(stream, version)


class WholeStream(DataSourceStreamReader):
    """A stream for Spark 4.1, which asks how far there is something, and not from where on: a batch is all of it."""

    def __init__(self, stream: Stream, version: str) -> None:
        if stream.limits.are_given:
            raise SettingsError(
                "options maxOffsetsPerTrigger, maxBytesPerTrigger and minOffsetsPerTrigger need PySpark 4.2 or newer, "
                f"and this is {version}; leave them out: a batch is then all that is there"
            )
        self._stream = stream

    def initialOffset(self) -> dict[str, Any]:
        return dict(self._stream.initialOffset() or {})

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        return dict(self._stream.reportLatestOffset() or {})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._stream.partitions(self._stream.with_new(start), end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._stream.read(partition)


def _numbers_of(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects batches of these columns in; its times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **wanted)  # 4.1 has UTC always


def pushes_filters() -> bool:
    """Whether this process was started to push filters down.

    Elsewhere Spark refuses every reader that takes filters, unless a setting that is off by default is on.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHDOWN_WORKER in sys.modules or (main is not None and main.name == _PUSHDOWN_WORKER)
