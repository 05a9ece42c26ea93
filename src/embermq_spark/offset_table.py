"""The offsets of queues as a small DataFrame. Nothing is scanned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from embermq.scan.survey import QueueState
from embermq_spark.brokers import find_brokers
from embermq_spark.option_values import as_texts
from embermq_spark.options import ReadOptions
from embermq_spark.selection import check_names, is_selected, make_wanted

QUEUES_SCHEMA: Final = "topic string, brokerName string, queueId int"
SCHEMA: Final = "topic string, brokerName string, queueId int, beginOffset long, endOffset long"
_TYPES: Final = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}


def offsets(spark: SparkSession, **options: object) -> DataFrame:
    """Begin and end of every queue, by the options of a read: `offsets(spark, path="data", subscribe="orders")`.

    They are looked up each time the DataFrame is used. Raises SettingsError for options that cannot be.
    """
    parsed = ReadOptions.parse(as_texts(options))

    def find(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _find_offsets(parsed)

    return spark.range(0, 1, 1, 1).mapInArrow(find, SCHEMA)


def written_queues(spark: SparkSession, options: Mapping[str, object]) -> DataFrame:
    """The queues that messages go to, of the topics that options choose, whether they have any or not."""
    parsed = ReadOptions.parse(as_texts(options))

    def find(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = make_wanted(parsed, ())
        yield _batch_of(
            [
                (topic, broker.name, queue)
                for broker in find_brokers(parsed, wanted)
                for topic, queue in broker.written_queues(wanted)
                if is_selected(parsed, wanted, broker, QueueState(topic, queue, 0, 0))
            ],
            QUEUES_SCHEMA,
        )

    return spark.range(0, 1, 1, 1).mapInArrow(find, QUEUES_SCHEMA)


def _find_offsets(options: ReadOptions) -> pa.RecordBatch:
    wanted = make_wanted(options, ())
    brokers = find_brokers(options, wanted)
    states = [broker.look() for broker in brokers]
    check_names(options, brokers, states)
    rows = [
        (queue.topic, broker.name, queue.queue, queue.begin, queue.end)
        for broker, state in zip(brokers, states, strict=True)
        for queue in state.queues
        if is_selected(options, wanted, broker, queue)
    ]
    return _batch_of(rows, SCHEMA)


def _batch_of(rows: Sequence[tuple[Any, ...]], schema: str) -> pa.RecordBatch:
    fields = [tuple(part.split()) for part in schema.split(", ")]
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, _TYPES[kind]) for column, (_, kind) in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in fields])
