"""Archives as functions of a Spark session: making one, one view over archive and log, and sending messages again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructField, StructType

from embermq.archive.history import check_together, plan_log, read_state
from embermq.archive.job import Archived, ArchiveOptions, Archiver
from embermq.archive.tables import PARQUET, find_format, open_table
from embermq.archive.target import Target
from embermq.jobs.progress import Progress
from embermq.model.properties import ASKABLE, RESERVED, TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS
from embermq.scan.columns import ALL_COLUMNS
from embermq.scan.splits import Split, StorePlace
from embermq.scan.store_name import find_name
from embermq.scan.wanted import Wanted
from embermq_spark.jobs.running import SparkRunner
from embermq_spark.pieces import Piece, read_piece
from embermq_spark.schema import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

    from embermq.archive.tables import Table

SCHEMA: Final = StructType([StructField(name, COLUMNS[name]) for name in ALL_COLUMNS])
_DELAYS: Final = {"DELAY", TIMER_DELAY_MS, TIMER_DELAY_SEC, TIMER_DELIVER_MS}
_NOT_SENT: Final = sorted((RESERVED | _DELAYS) - (ASKABLE - _DELAYS))


def archive(
    spark: SparkSession,
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    format: str | None = None,
    topics: Sequence[str] | None = None,
    pattern: str | None = None,
    system_topics: bool = False,
    batch_bytes: int | None = None,
    allow_loss: bool = False,
    wait: Callable[[], bool] = lambda: True,
) -> Archived:
    """Bring an archive up to its store: each message once. What it did. See docs/archive.md for what it raises.

    As a stream: `wait` is called when there is nothing more; False has it look again, True ends it.
    """
    address = os.fspath(target)
    options = ArchiveOptions(
        topics=tuple(topics) if topics is not None else None,
        pattern=pattern,
        system_topics=system_topics,
        batch_bytes=batch_bytes,
        allow_loss=allow_loss,
    )
    archiver = Archiver(
        _place(path),
        open_table(address, format or find_format(Target(address)) or PARQUET),
        options,
        SparkRunner(spark),
        Progress("archive"),
    )
    with archiver.open():
        return archiver.follow(wait)


def history(
    spark: SparkSession, archive: str | os.PathLike[str], path: str | os.PathLike[str] | None = None
) -> DataFrame:
    """The messages of an archive and, with `path`, of the log behind it: each once, none left out, in all columns.

    It is what there is now: what comes later is not in it. Raises ArchiveMissing, ArchiveMismatch for an archive of
    another store, DataLoss for a gap between the two.
    """
    table = open_table(os.fspath(archive))
    state = read_state(table)
    frame = _archived(spark, table)
    if path is None:
        return frame
    place = _place(path)
    check_together(state, table, place)
    wanted = Wanted(
        topics=frozenset(state.origin.topics) if state.origin.topics is not None else None,
        pattern=state.origin.pattern,
        system_topics=state.origin.system_topics,
        columns=ALL_COLUMNS,
        broker_name=find_name(place),
    )
    return frame.unionByName(_logged(spark, plan_log(place, state.end), wanted))


def replay(
    spark: SparkSession,
    source: DataFrame | str | os.PathLike[str],
    namesrv: str,
    *,
    where: str | None = None,
    topics: Mapping[str, str] | None = None,
    to: str | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Send messages once more: those of an archive, or of any DataFrame with its columns, all of them or none.

    `where` is a condition in Spark's SQL; `topics` maps old names to new ones, and `to` is where all others go.
    `options` are further ones of the sink, such as accessKey.
    """
    frame = source if isinstance(source, DataFrame) else history(spark, source)
    if where is not None:
        frame = frame.where(where)
    topic = sql.lit(to) if to is not None else sql.col("topic")
    for old, new in (topics or {}).items():
        topic = sql.when(sql.col("topic") == old, sql.lit(new)).otherwise(topic)
    kept = sql.map_filter("properties", lambda name, value: ~name.isin(_NOT_SENT))
    rows = frame.select(topic.alias("topic"), "body", "tags", "keys", kept.alias("properties"))
    rows.write.format("rocketmq").options(namesrv=namesrv, **(options or {})).mode("append").save()


def _place(path: str | os.PathLike[str]) -> StorePlace:
    """A store whose path means the same in the folders where executors work."""
    text = os.fspath(path)
    return StorePlace(text if "://" in text else os.path.abspath(os.path.expanduser(text)))


def _archived(spark: SparkSession, table: Table) -> DataFrame:
    """The rows of an archive, by Spark's own reader of Parquet."""
    root = table.target.address
    files = [f"{root}/{file.path}" for file in table.find_files()]
    if not files:
        return spark.createDataFrame([], SCHEMA)
    frame = spark.read.schema(SCHEMA).option("basePath", root).parquet(*files)
    return frame.select(*ALL_COLUMNS)


def _logged(spark: SparkSession, splits: list[Split], wanted: Wanted) -> DataFrame:
    """The rows of a log, read where tasks run."""
    if not splits:
        return spark.createDataFrame([], SCHEMA)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_piece(Piece(splits[number], wanted), SCHEMA)

    return spark.range(0, len(splits), 1, len(splits)).mapInArrow(read, SCHEMA)
