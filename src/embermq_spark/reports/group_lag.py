"""How far consumer groups are behind: in messages, and in time. Nothing is scanned.

Brokers keep the offsets of now only. Who wants to see how lag went keeps a copy of the report now and then:

    keep_lag(lag(spark, path="data"), "lags")  ─→ lags/*.parquet ─→ lag_history(spark, "lags")
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from embermq.admin.cluster import Cluster
from embermq.admin.groups import list_groups, show_group
from embermq.scan.searching import StoreSearch
from embermq_spark.brokers import StoreBroker, find_brokers
from embermq_spark.option_values import as_texts, parse_time
from embermq_spark.options import ReadOptions
from embermq_spark.reports.reading import is_chosen, time_of
from embermq_spark.selection import make_wanted

SCHEMA: Final = (
    "at timestamp, group string, topic string, brokerName string, queueId int, offset long, endOffset long, lag long, "
    "lagMs long"
)
_ARROW: Final = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")), ("group", pa.string()), ("topic", pa.string()), ("brokerName", pa.string()),
        ("queueId", pa.int32()), ("offset", pa.int64()), ("endOffset", pa.int64()), ("lag", pa.int64()),
        ("lagMs", pa.int64()),
    ]
)  # fmt: skip


class _Lag(NamedTuple):
    at: datetime
    group: str
    topic: str
    broker: str
    queue: int
    offset: int
    end: int
    lag: int
    lag_ms: int | None


def lag(spark: SparkSession, *, group: str | None = None, **options: object) -> DataFrame:
    """Every queue that a group has read from, largest lag first; of one `group` if it is given.

    `lagMs` is the age of the oldest message that the group has not consumed; null if it has consumed all. Offsets in
    files are those that the broker saved last, every 5 s as a rule.
    """
    parsed = ReadOptions.parse({name: str(value) for name, value in options.items()})

    def find(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = _look(parsed) if parsed.all_paths else asyncio.run(_ask(parsed, group))
        wanted = [row for row in rows if group is None or row.group == group]
        columns = list(zip(*wanted, strict=True)) or [()] * len(_ARROW)
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)], schema=_ARROW
        )

    found = spark.range(0, 1, 1, 1).mapInArrow(find, SCHEMA)
    return found.orderBy(F.desc("lag"), "group", "topic", "brokerName", "queueId")


def keep_lag(found: DataFrame, folder: str) -> None:
    """Add a report to those that are kept in `folder`."""
    found.coalesce(1).write.mode("append").parquet(folder)


def lag_history(spark: SparkSession, folder: str, *, group: str | None = None, **options: object) -> DataFrame:
    """How lag went, of all reports that were kept: by time, group and topic, over all queues.

    Of one `group` if it is given. Of the options of a read, those count that choose topics, and `startingTimestamp` and
    `endingTimestamp`, which choose reports by the time they were made.
    """
    kept = spark.read.schema(SCHEMA).parquet(folder).where(is_chosen(options, "topic"))
    if group is not None:
        kept = kept.where(F.col("group") == group)
    for name, text in as_texts(options).items():
        if name.lower() == "startingtimestamp":
            kept = kept.where(F.col("at") >= time_of(F.lit(parse_time(text))))
        if name.lower() == "endingtimestamp":
            kept = kept.where(F.col("at") < time_of(F.lit(parse_time(text))))
    sums = kept.groupBy("at", "group", "topic").agg(F.sum("lag").alias("lag"), F.max("lagMs").alias("lagMs"))
    return sums.orderBy("at", "group", "topic")


def _look(options: ReadOptions) -> list[_Lag]:
    """What the files of stores tell."""
    now = datetime.now(UTC)
    rows = []
    wanted = make_wanted(options, ())
    for broker in find_brokers(options, wanted):
        assert isinstance(broker, StoreBroker), "of files, all are"
        state = broker.look()
        search = StoreSearch(state)
        queues = {(queue.topic, queue.queue): queue for queue in state.queues}
        for (topic, group), offsets in broker.read_offsets().items():
            for number, offset in offsets.items() if wanted.accepts_topic(topic) else ():
                queue = queues.get((topic, number))
                behind = max(queue.end - offset, 0) if queue else 0
                stored = search.find_time(queue, offset) if queue and behind else None
                age = None if stored is None else max(int(now.timestamp() * 1000) - stored, 0)
                end = queue.end if queue else offset
                rows.append(_Lag(now, group, topic, broker.name, number, offset, end, behind, age))
    return rows


async def _ask(options: ReadOptions, group: str | None) -> list[_Lag]:
    """What brokers tell that run."""
    assert options.namesrv is not None
    now = datetime.now(UTC)
    async with Cluster(
        options.namesrv, access_key=options.access_key, secret_key=options.secret_key, tls=options.tls
    ) as cluster:
        names = [group] if group is not None else [line.group for line in await list_groups(cluster)]
        views = [await show_group(cluster, name) for name in names]
    return [
        _Lag(
            now,
            view.group,
            each.queue.topic,
            each.queue.broker,
            each.queue.queue,
            each.offset,
            each.end,
            each.lag,
            each.lag_ms,
        )
        for view in views
        for each in view.queues
    ]
