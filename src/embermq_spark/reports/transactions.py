"""Transactions that nobody ended: half messages without a mark that says they are done.

RocketMQ's brokers store a half message again each time they ask its producer, and mark the last of these copies alone.
Copies before it, and what was given up, lie before the broker's own progress, which is kept as offsets of a group.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from embermq.model.group import HALVES_GROUP
from embermq.model.properties import PRODUCER_GROUP, REAL_TOPIC, TRANSACTION_CHECK_TIMES
from embermq.model.topic import GIVEN_UP_TOPIC, HALF_DONE_TOPIC, HALF_TOPIC
from embermq_spark.brokers import find_brokers
from embermq_spark.option_values import as_texts
from embermq_spark.options import ReadOptions
from embermq_spark.reports.reading import (
    either,
    is_chosen,
    milliseconds_between,
    options_of_topics,
    property_of,
    read_topics,
    to_the_end,
)
from embermq_spark.selection import make_wanted

_PLACE = ("brokerName", "queueId", "queueOffset")


def transactions(spark: SparkSession, *, at: datetime | None = None, **options: object) -> DataFrame:
    """Messages that wait for the end of their transaction, and those the broker gave up asking about; oldest first.

    Topics that options choose are those that the messages are for.
    """
    columns = ("topic", *_PLACE, "storeTimestamp", "uniqKey", "properties")
    parked = read_topics(spark, options, columns, either(HALF_TOPIC, GIVEN_UP_TOPIC)).withColumn(
        "realTopic", property_of(REAL_TOPIC)
    )
    parked = parked.where(is_chosen(options, "realTopic"))
    halves = parked.where((F.col("topic") == HALF_TOPIC) & ~_is_passed(options))
    halves = halves.join(_done(spark, to_the_end(options)), [*_PLACE], "left_anti")
    given_up = parked.where(F.col("topic") == GIVEN_UP_TOPIC)
    now = F.lit(at or datetime.now(UTC))
    return (
        halves.withColumn("state", F.lit("open"))
        .unionByName(given_up.withColumn("state", F.lit("given up")))
        .select(
            "state", "realTopic", property_of(PRODUCER_GROUP).alias("producerGroup"),
            "uniqKey", property_of(TRANSACTION_CHECK_TIMES).cast("int").alias("checks"), *_PLACE, "storeTimestamp",
            milliseconds_between("storeTimestamp", now).alias("ageMs"),
        )
        .orderBy("state", "storeTimestamp", *_PLACE)
    )  # fmt: skip


def _is_passed(options: dict[str, object]) -> Column:
    """Whether the broker is through with a half message, because it is before its progress."""
    parsed = ReadOptions.parse(as_texts(options_of_topics(options, either(HALF_TOPIC))))
    passed = F.lit(False)
    for broker in find_brokers(parsed, make_wanted(parsed, ())):
        queues = broker.look(lambda topic: topic == HALF_TOPIC).queues
        progress = broker.find_group(HALVES_GROUP, queues) or {}
        for queue, offset in progress.get(HALF_TOPIC, {}).items():
            place = (F.col("brokerName") == broker.name) & (F.col("queueId") == queue)
            passed = passed | (place & (F.col("queueOffset") < offset))
    return passed


def _done(spark: SparkSession, options: dict[str, object]) -> DataFrame:
    """The places of half messages that ended: a mark names one or more offsets of the queue with its own number."""
    marks = read_topics(spark, options, ("brokerName", "queueId", "body"), either(HALF_DONE_TOPIC))
    numbers = F.filter(F.split(F.decode("body", "UTF-8"), ","), lambda number: number.rlike(r"^\d{1,18}$"))
    offsets = F.transform(numbers, lambda number: number.cast("long"))
    return marks.select("brokerName", "queueId", F.explode(offsets).alias("queueOffset")).distinct()
