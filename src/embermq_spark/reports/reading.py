"""What reports read: messages of the format `rocketmq`, as few columns of them as each needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

Options = Mapping[str, object]

_CHOOSING = ("subscribe", "subscribepattern", "assign")


def read_messages(spark: SparkSession, options: Options, columns: Sequence[str]) -> DataFrame:
    """Messages of the topics that options choose; of all that are not the system's if they choose none."""
    return _reader(spark, options).option("columns", ",".join(columns)).load()


def read_topics(spark: SparkSession, options: Options, columns: Sequence[str], pattern: str) -> DataFrame:
    """Messages of all topics whose whole name fits `pattern`, whatever options choose; none if there is no such."""
    others = {name: value for name, value in options.items() if name.lower() not in _CHOOSING}
    reader = _reader(spark, others).option("subscribePattern", pattern).option("includeSystemTopics", "true")
    return reader.option("columns", ",".join(columns)).load()


def either(*topics: str) -> str:
    """The pattern of just these topics."""
    return "|".join(map(re.escape, topics))


def property_of(name: str) -> Column:
    """A property of the message, null where it has none."""
    return F.col("properties").getItem(name)


def time_of(milliseconds: Column) -> Column:
    """The time that is so many milliseconds after 1970."""
    return F.timestamp_millis(milliseconds.cast("long"))


def milliseconds_between(first: str | Column, last: str | Column) -> Column:
    """How long it is from one time to another; below 0 if they are the other way round."""
    return F.unix_millis(_column(last)) - F.unix_millis(_column(first))


def _column(what: str | Column) -> Column:
    return F.col(what) if isinstance(what, str) else what


def _reader(spark: SparkSession, options: Options) -> DataFrameReader:
    reader = spark.read.format("rocketmq")
    for name, value in options.items():
        reader = reader.option(name, str(value).lower() if isinstance(value, bool) else str(value))
    return reader
