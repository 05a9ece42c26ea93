"""Messages that were put off: which were delivered, which wait for their time, and which are overdue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from embermq.model.delay import DEFAULT_DELAY_LEVELS
from embermq.model.properties import REAL_TOPIC, TIMER_DEL_UNIQKEY, TIMER_OUT_MS
from embermq.model.topic import SCHEDULE_TOPIC, SYSTEM_PREFIX, TIMER_TOPIC
from embermq_spark.reports.reading import (
    either,
    is_chosen,
    milliseconds_between,
    property_of,
    read_messages,
    read_topics,
    time_of,
    to_the_end,
)

_STATES = ("overdue", "waiting", "cancelled", "delivered")  # as they are sorted
_KEY = ("realTopic", "uniqKey", "reconsumeTimes")


def delay(
    spark: SparkSession,
    *,
    at: datetime | None = None,
    levels: Sequence[int] = DEFAULT_DELAY_LEVELS,
    **options: object,
) -> DataFrame:
    """One row for each message that was put off: `overdue`, `waiting`, `cancelled` or `delivered`, overdue ones first.

    `at` is the time by which a message is overdue, now unless given; `levels` are the broker's delay levels in ms. A
    message without a unique key is left out: its copy cannot be told from others. `lateMs` is null for what was
    cancelled, and below 0 for what has time left.
    """
    is_cancel = F.col("cancels").isNotNull()
    later = to_the_end(options)  # what became of a message may be stored after the time that is asked for
    parked = _parked(spark, later, levels)
    asked = _parked(spark, options, levels).where(~is_cancel & F.col("uniqKey").isNotNull()).groupBy(*_KEY)
    wanted = asked.agg(F.min("storeTimestamp").alias("asked"), F.max("due").alias("due"))
    cancelled = parked.where(is_cancel).select(F.col("cancels").alias("target")).distinct()
    target = F.concat("realTopic", F.lit("+"), "uniqKey")
    now = F.lit(at or datetime.now(UTC))
    late = milliseconds_between("due", F.coalesce("delivered", now))
    return (
        wanted.join(_delivered(spark, later), [*_KEY], "left")
        .join(cancelled, target == F.col("target"), "left")
        .withColumn("state", _state(now))
        .select(
            "state", F.col("realTopic").alias("topic"), "uniqKey", "reconsumeTimes", "asked", "due", "delivered",
            F.when(F.col("state") != "cancelled", late).alias("lateMs"),
        )
        .orderBy(F.array_position(F.array(*map(F.lit, _STATES)), F.col("state")), "due", "uniqKey")
    )  # fmt: skip


def _parked(spark: SparkSession, options: dict[str, object], levels: Sequence[int]) -> DataFrame:
    columns = ("topic", "queueId", "storeTimestamp", "reconsumeTimes", "uniqKey", "properties")
    messages = read_topics(spark, options, columns, either(SCHEDULE_TOPIC, TIMER_TOPIC))
    level_ms = F.element_at(F.array(*map(F.lit, levels)), F.least(F.col("queueId") + 1, F.lit(len(levels))))
    by_level = time_of(F.unix_millis("storeTimestamp") + level_ms)
    due = F.when(F.col("topic") == SCHEDULE_TOPIC, by_level).otherwise(time_of(property_of(TIMER_OUT_MS)))
    return messages.select(
        property_of(REAL_TOPIC).alias("realTopic"), "uniqKey", "reconsumeTimes", "storeTimestamp", due.alias("due"),
        property_of(TIMER_DEL_UNIQKEY).alias("cancels"),
    ).where(~F.col("realTopic").startswith(SYSTEM_PREFIX) & is_chosen(options, "realTopic"))  # fmt: skip


def _delivered(spark: SparkSession, options: dict[str, object]) -> DataFrame:
    messages = read_messages(spark, options, ("topic", "uniqKey", "reconsumeTimes", "storeTimestamp"))
    found = messages.where(F.col("uniqKey").isNotNull()).groupBy(
        F.col("topic").alias("realTopic"), "uniqKey", "reconsumeTimes"
    )
    return found.agg(F.max("storeTimestamp").alias("delivered"))


def _state(now: Column) -> Column:
    return (
        F.when(F.col("delivered").isNotNull(), "delivered")
        .when(F.col("target").isNotNull(), "cancelled")
        .when(F.col("due") <= now, "overdue")
        .otherwise("waiting")
    )
