"""What reports read: messages of the format `rocketmq`, as few columns of them as each needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F

from embermq_spark.option_values import as_texts, parse_assigned, parse_names

Options = Mapping[str, object]

_CHOOSING = ("subscribe", "subscribepattern", "assign")
_BEGINNING, _ENDING = "starting", "ending"


def read_messages(spark: SparkSession, options: Options, columns: Sequence[str]) -> DataFrame:
    """Messages of the topics that options choose; of all that are not the system's if they choose none."""
    return _reader(spark, options).option("columns", ",".join(columns)).load()


def read_topics(spark: SparkSession, options: Options, columns: Sequence[str], pattern: str) -> DataFrame:
    """Messages of all topics whose whole name fits `pattern`, whatever options choose; none if there is no such."""
    return _reader(spark, options_of_topics(options, pattern)).option("columns", ",".join(columns)).load()


def options_of_topics(options: Options, pattern: str) -> dict[str, object]:
    """Options that choose all topics whose whole name fits `pattern`, also those of the system, and no others."""
    others = {name: value for name, value in options.items() if name.lower() not in _CHOOSING}
    return {**others, "subscribePattern": pattern, "includeSystemTopics": "true"}


def is_chosen(options: Options, topic: str) -> Column:
    """Whether the topic that a column names is one that options choose, for messages that lie elsewhere meanwhile."""
    chosen = {name.lower(): text for name, text in as_texts(options).items() if name.lower() in _CHOOSING}
    for name, text in chosen.items():
        if name == "subscribepattern":
            return F.col(topic).rlike(f"^(?:{text})$")
        return F.col(topic).isin(*(parse_names(text) if name == "subscribe" else parse_assigned(text)))
    return F.lit(True)


def from_the_beginning(options: Options) -> dict[str, object]:
    """The same options, but for where they begin."""
    return {name: value for name, value in options.items() if not name.lower().startswith(_BEGINNING)}


def to_the_end(options: Options) -> dict[str, object]:
    """The same options, but for where they end."""
    return {name: value for name, value in options.items() if not name.lower().startswith(_ENDING)}


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
    return spark.read.format("rocketmq").options(**as_texts(options))
