"""Messages that consumers gave back: how often, where the first copy is, and which were given up."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from embermq.model.properties import RETRY_TOPIC
from embermq.model.topic import DEAD_LETTER_PREFIX, RETRY_PREFIX
from embermq_spark.reports.reading import (
    from_the_beginning,
    is_chosen,
    milliseconds_between,
    property_of,
    read_messages,
    read_topics,
)

_COPY = (
    "topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "reconsumeTimes", "uniqKey", "keys",
    "properties",
)  # fmt: skip


def dlq(spark: SparkSession, **options: object) -> DataFrame:
    """One row for each message that a group gave back, dead ones first; it ends with where the original lies.

    The original is null where it was deleted, or where neither copy has a unique key. Topics that options choose are
    those of the originals.
    """
    group = F.regexp_replace("topic", f"^({RETRY_PREFIX}|{DEAD_LETTER_PREFIX})", "")
    copies = (
        read_topics(spark, options, _COPY, f"({RETRY_PREFIX}|{DEAD_LETTER_PREFIX}).*")
        .withColumn("group", group)
        .withColumn("isDead", F.col("topic").startswith(DEAD_LETTER_PREFIX))
        .withColumn("originTopic", property_of(RETRY_TOPIC))
        .where(is_chosen(options, "originTopic"))
    )
    place = F.struct("storeTimestamp", "brokerName", "queueId", "queueOffset")
    returned = copies.groupBy("group", "originTopic", "uniqKey").agg(
        F.count(F.when(~F.col("isDead"), 1)).alias("retries"),
        F.max("reconsumeTimes").alias("reconsumeTimes"),
        F.max(F.when(F.col("isDead"), place)).alias("dead"),
        F.max("storeTimestamp").alias("lastStored"),
        F.max("keys").alias("keys"),
    )
    return (
        returned.join(_originals(spark, options), ["originTopic", "uniqKey"], "left")
        .select(
            "group", F.when(F.col("dead").isNotNull(), "dead").otherwise("retrying").alias("state"), "originTopic",
            "uniqKey", "keys", "retries", "reconsumeTimes", F.col("dead.brokerName").alias("deadBroker"),
            F.col("dead.queueId").alias("deadQueue"), F.col("dead.queueOffset").alias("deadOffset"),
            F.col("original.brokerName").alias("originBroker"), F.col("original.queueId").alias("originQueue"),
            F.col("original.queueOffset").alias("originOffset"), F.col("original.storeTimestamp").alias("originStored"),
            "lastStored", milliseconds_between("original.storeTimestamp", "lastStored").alias("afterMs"),
        )
        .orderBy("state", "group", "originTopic", "lastStored", "uniqKey")
    )  # fmt: skip


def _originals(spark: SparkSession, options: dict[str, object]) -> DataFrame:
    columns = ("topic", "uniqKey", "storeTimestamp", "brokerName", "queueId", "queueOffset")
    place = F.struct("storeTimestamp", "brokerName", "queueId", "queueOffset")
    return (
        read_messages(spark, from_the_beginning(options), columns)  # an original may be older than what is asked for
        .where(F.col("uniqKey").isNotNull())
        .groupBy(F.col("topic").alias("originTopic"), "uniqKey")
        .agg(F.min(place).alias("original"))
    )
