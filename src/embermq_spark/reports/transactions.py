"""Transactions that nobody ended: half messages without a mark that says they are done."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from embermq.model.properties import PRODUCER_GROUP, REAL_TOPIC, TRANSACTION_CHECK_TIMES
from embermq.model.topic import GIVEN_UP_TOPIC, HALF_DONE_TOPIC, HALF_TOPIC
from embermq_spark.reports.reading import either, milliseconds_between, property_of, read_topics

_PLACE = ("brokerName", "queueId", "queueOffset")


def transactions(spark: SparkSession, *, at: datetime | None = None, **options: object) -> DataFrame:
    """Messages that wait for the end of their transaction, and those the broker gave up asking about; oldest first."""
    columns = ("topic", *_PLACE, "storeTimestamp", "uniqKey", "properties")
    parked = read_topics(spark, options, columns, either(HALF_TOPIC, GIVEN_UP_TOPIC))
    halves = parked.where(F.col("topic") == HALF_TOPIC).join(_done(spark, options), [*_PLACE], "left_anti")
    given_up = parked.where(F.col("topic") == GIVEN_UP_TOPIC)
    now = F.lit(at or datetime.now(UTC))
    return (
        halves.withColumn("state", F.lit("open"))
        .unionByName(given_up.withColumn("state", F.lit("given up")))
        .select(
            "state", property_of(REAL_TOPIC).alias("realTopic"), property_of(PRODUCER_GROUP).alias("producerGroup"),
            "uniqKey", property_of(TRANSACTION_CHECK_TIMES).cast("int").alias("checks"), *_PLACE, "storeTimestamp",
            milliseconds_between("storeTimestamp", now).alias("ageMs"),
        )
        .orderBy("state", "storeTimestamp", *_PLACE)
    )  # fmt: skip


def _done(spark: SparkSession, options: dict[str, object]) -> DataFrame:
    """The places of half messages that ended: a mark names one or more offsets of the queue with its own number."""
    marks = read_topics(spark, options, ("brokerName", "queueId", "body"), either(HALF_DONE_TOPIC))
    numbers = F.filter(F.split(F.decode("body", "UTF-8"), ","), lambda number: number.rlike(r"^\d{1,18}$"))
    offsets = F.transform(numbers, lambda number: number.cast("long"))
    return marks.select("brokerName", "queueId", F.explode(offsets).alias("queueOffset")).distinct()
