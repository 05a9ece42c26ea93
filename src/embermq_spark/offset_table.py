"""The offsets of queues as a small DataFrame. Nothing is scanned."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from embermq_spark.brokers import find_brokers
from embermq_spark.option_values import as_texts
from embermq_spark.options import ReadOptions
from embermq_spark.selection import check_names, is_selected, make_wanted

SCHEMA: Final = "topic string, brokerName string, queueId int, beginOffset long, endOffset long"


def offsets(spark: SparkSession, **options: object) -> DataFrame:
    """Begin and end of every queue, by the options of a read: `offsets(spark, path="data", subscribe="orders")`.

    They are looked up each time the DataFrame is used. Raises SettingsError for options that cannot be.
    """
    parsed = ReadOptions.parse(as_texts(options))

    def find(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield _find_offsets(parsed)

    return spark.range(0, 1, 1, 1).mapInArrow(find, SCHEMA)


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
    types = (pa.string(), pa.string(), pa.int32(), pa.int64(), pa.int64())
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[part.split()[0] for part in SCHEMA.split(", ")])
