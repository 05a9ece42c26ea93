"""Messages that a producer sent more than once: of one topic, with one unique key."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from embermq.model.topic import DEAD_LETTER_PREFIX, RETRY_PREFIX
from embermq_spark.reports.reading import milliseconds_between, read_messages


def duplicates(spark: SparkSession, **options: object) -> DataFrame:
    """Unique keys that several messages of a topic have, most copies first, and where first and last copy are.

    Retries and dead letters are copies by their nature, and left out.
    """
    columns = ("topic", "uniqKey", "brokerName", "queueId", "queueOffset", "storeTimestamp")
    messages = read_messages(spark, options, columns).where(
        F.col("uniqKey").isNotNull()
        & ~F.col("topic").startswith(RETRY_PREFIX)
        & ~F.col("topic").startswith(DEAD_LETTER_PREFIX)
    )
    place = F.struct("storeTimestamp", "brokerName", "queueId", "queueOffset")
    found = messages.groupBy("topic", "uniqKey").agg(
        F.count("*").alias("copies"), F.min(place).alias("first"), F.max(place).alias("last")
    )
    return (
        found.where(F.col("copies") > 1)
        .select(
            "topic", "uniqKey", "copies",
            F.col("first.brokerName").alias("firstBroker"), F.col("first.queueId").alias("firstQueue"),
            F.col("first.queueOffset").alias("firstOffset"), F.col("last.brokerName").alias("lastBroker"),
            F.col("last.queueId").alias("lastQueue"), F.col("last.queueOffset").alias("lastOffset"),
            milliseconds_between("first.storeTimestamp", "last.storeTimestamp").alias("spanMs"),
        )
        .orderBy(F.desc("copies"), "topic", "uniqKey")
    )  # fmt: skip
