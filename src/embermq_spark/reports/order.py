"""Whether messages with one sharding key are in order: all of them in one queue, none born after one behind it."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from embermq.model.properties import SHARDING_KEY
from embermq_spark.reports.reading import milliseconds_between, property_of, read_messages


def order(spark: SparkSession, **options: object) -> DataFrame:
    """Messages that are not in order with the one of their sharding key that was stored before them.

    `kind` is `queue` where that one lies in another queue, so that a consumer may take them in any order, and `time`
    where it was born later: producers sent, or a retry stored, them the wrong way round.
    """
    columns = (
        "topic", "brokerName", "queueId", "queueOffset", "physicalOffset", "storeTimestamp", "bornTimestamp", "uniqKey",
        "properties",
    )  # fmt: skip
    messages = read_messages(spark, options, columns).withColumn("shardingKey", property_of(SHARDING_KEY))
    place = F.struct("brokerName", "queueId", "queueOffset", "bornTimestamp")
    in_turn = Window.partitionBy("topic", "shardingKey").orderBy(
        "storeTimestamp", "brokerName", "physicalOffset", "queueId", "queueOffset"
    )
    pairs = (
        messages.where(F.col("shardingKey").isNotNull())
        .drop("properties")
        .withColumn("before", F.lag(place).over(in_turn))
        .where(F.col("before").isNotNull())
    )
    is_elsewhere = (F.col("before.brokerName") != F.col("brokerName")) | (F.col("before.queueId") != F.col("queueId"))
    is_older = F.col("bornTimestamp") < F.col("before.bornTimestamp")
    kind = F.when(is_elsewhere, "queue").when(is_older, "time")
    return (
        pairs.withColumn("kind", kind)
        .where(F.col("kind").isNotNull())
        .select(
            "topic", "shardingKey", "kind", "brokerName", "queueId", "queueOffset", "uniqKey",
            F.col("before.brokerName").alias("beforeBroker"), F.col("before.queueId").alias("beforeQueue"),
            F.col("before.queueOffset").alias("beforeOffset"),
            milliseconds_between("bornTimestamp", "before.bornTimestamp").alias("olderByMs"),
        )
        .orderBy("topic", "shardingKey", "brokerName", "queueId", "queueOffset")
    )  # fmt: skip
