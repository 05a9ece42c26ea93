"""What clients with message trace told: how long messages took from producer to store to consumer.

A trace message holds contexts that end with 0x02; their fields end with 0x01:

    Pub       time  region  group  topic  id  tags  keys  store host  body size  cost  type  offset id  success …
    SubBefore time  region  group  request  id  retries  keys
    SubAfter  request  id  cost  success  keys  code  time  group          the last two are not in all of them
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from embermq.model.topic import TRACE_TOPIC
from embermq_spark.reports.reading import (
    either,
    from_the_beginning,
    is_chosen,
    milliseconds_between,
    read_messages,
    read_topics,
    time_of,
)

_STEPS = ("sendMs", "storedAfterMs", "waitedMs", "consumedInMs")


def trace(spark: SparkSession, *, trace_topic: str = TRACE_TOPIC, **options: object) -> DataFrame:
    """One row for each message that was traced and each time a group took it; null is what nobody told.

    `sendMs` is what the producer waited, `storedAfterMs` the time from its first step to the record, `waitedMs` from
    there to the consumer, and `consumedInMs` what that took.
    """
    contexts = _contexts(spark, options, trace_topic)
    sent, taken = _sent(contexts).where(is_chosen(options, "topic")), _taken(contexts)
    stored = (
        read_messages(spark, from_the_beginning(options), ("topic", "uniqKey", "storeTimestamp"))  # before its trace
        .where(F.col("uniqKey").isNotNull())
        .groupBy(F.col("topic").alias("topic"), F.col("uniqKey").alias("id"))
        .agg(F.min("storeTimestamp").alias("stored"))
    )
    return (
        sent.join(stored, ["topic", "id"], "left")
        .join(taken, "id", "left")
        .select(
            "topic", "id", "producerGroup", "sent", "isSent", "sendMs", "stored",
            milliseconds_between("sent", "stored").alias("storedAfterMs"), "consumerGroup", "retries", "taken",
            milliseconds_between("stored", "taken").alias("waitedMs"), "consumedInMs", "isConsumed",
        )
        .orderBy("sent", "topic", "id", "consumerGroup", "taken")
    )  # fmt: skip


def trace_latency(spark: SparkSession, *, trace_topic: str = TRACE_TOPIC, **options: object) -> DataFrame:
    """The same by topic and groups: how many, how many failed, median and 99th percentile of each step in ms."""
    found = trace(spark, trace_topic=trace_topic, **options).groupBy("topic", "producerGroup", "consumerGroup")
    middle = [F.percentile(step, F.lit(0.5)).alias(f"{step}P50") for step in _STEPS]
    high = [F.percentile(step, F.lit(0.99)).alias(f"{step}P99") for step in _STEPS]
    steps = [column for pair in zip(middle, high, strict=True) for column in pair]
    return found.agg(
        F.countDistinct("id").alias("messages"),
        F.count(F.when(~F.col("isSent"), 1)).alias("sendsFailed"),
        F.count(F.when(~F.col("isConsumed"), 1)).alias("consumesFailed"),
        *steps,
    ).orderBy("topic", "producerGroup", "consumerGroup")


def _contexts(spark: SparkSession, options: dict[str, object], trace_topic: str) -> DataFrame:
    messages = read_topics(spark, options, ("body",), either(trace_topic))
    pieces = F.explode(F.split(F.decode("body", "UTF-8"), "\x02"))
    fields = F.split("context", "\x01")
    return messages.select(pieces.alias("context")).select(fields.alias("fields")).withColumn("kind", _field(0))


def _sent(contexts: DataFrame) -> DataFrame:
    success = F.when(F.size("fields") >= 14, _field(13)).otherwise(_field(12))
    pubs = contexts.where((F.col("kind") == "Pub") & (F.size("fields") >= 13)).select(
        _field(4).alias("topic"), _field(5).alias("id"), _field(3).alias("producerGroup"), _time(1).alias("sent"),
        _field(10).cast("long").alias("sendMs"), (success == "true").alias("isSent"),
    )  # fmt: skip
    return pubs.dropDuplicates(["topic", "id", "sent"])


def _taken(contexts: DataFrame) -> DataFrame:
    before = contexts.where((F.col("kind") == "SubBefore") & (F.size("fields") >= 7)).select(
        _field(5).alias("id"), _field(4).alias("request"), _field(3).alias("consumerGroup"), _time(1).alias("taken"),
        _field(6).cast("int").alias("retries"),
    )  # fmt: skip
    after = contexts.where((F.col("kind") == "SubAfter") & (F.size("fields") >= 5)).select(
        _field(2).alias("id"), _field(1).alias("request"), _field(3).cast("long").alias("consumedInMs"),
        (_field(4) == "true").alias("isConsumed"),
    )  # fmt: skip
    pair = ["id", "request"]
    return before.dropDuplicates(pair).join(after.dropDuplicates(pair), pair, "left").drop("request")


def _field(number: int) -> Column:
    return F.get("fields", F.lit(number))


def _time(number: int) -> Column:
    return time_of(F.expr(f"try_cast(get(fields, {number}) AS BIGINT)"))
