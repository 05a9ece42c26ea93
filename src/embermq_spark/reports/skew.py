"""How evenly messages lie in queues, and which keys most of them have."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from embermq.model.properties import SHARDING_KEY
from embermq_spark.offset_table import written_queues
from embermq_spark.reports.reading import property_of, read_messages


def skew(spark: SparkSession, **options: object) -> DataFrame:
    """Messages and bytes of every queue of a topic that has any, the fullest first; those that have none, too.

    `timesMean` compares a queue with the mean of its topic's: 1 is even.
    """
    columns = ("topic", "brokerName", "queueId", "storeSize", "storeTimestamp")
    nothing = {"storeSize": F.lit(None).cast("int"), "storeTimestamp": F.lit(None).cast("timestamp")}
    queues = (
        read_messages(spark, options, columns)
        .unionByName(written_queues(spark, options).withColumns(nothing))
        .groupBy("topic", "brokerName", "queueId")
        .agg(
            F.count("storeSize").alias("messages"),
            F.coalesce(F.sum("storeSize"), F.lit(0)).alias("bytes"),
            F.min("storeTimestamp").alias("firstStored"),
            F.max("storeTimestamp").alias("lastStored"),
        )
    )
    of_topic = Window.partitionBy("topic")
    return (
        queues.withColumn("ofTopic", F.sum("messages").over(of_topic))
        .where(F.col("ofTopic") > 0)
        .select(
            "topic", "brokerName", "queueId", "messages", "bytes",
            F.round(F.col("messages") / F.col("ofTopic"), 4).alias("share"),
            F.round(F.col("messages") / F.avg("messages").over(of_topic), 2).alias("timesMean"),
            "firstStored", "lastStored",
        )
        .orderBy(F.desc("messages"), "topic", "brokerName", "queueId")
    )  # fmt: skip


def hot_keys(spark: SparkSession, *, top: int = 20, **options: object) -> DataFrame:
    """The `top` keys of each topic that most messages have: keys they are found by, and sharding keys.

    `share` is how many of the topic's messages have it.
    """
    columns = ("topic", "keys", "storeSize", "properties")
    messages = read_messages(spark, options, columns).withColumn("shardingKey", property_of(SHARDING_KEY))
    totals = messages.groupBy("topic").agg(F.count("*").alias("ofTopic"))
    found = F.array_distinct(F.filter(F.split("keys", " "), lambda key: key != ""))
    keys = messages.select("topic", "storeSize", F.lit("key").alias("kind"), F.explode(found).alias("key"))
    sharded = messages.where(F.col("shardingKey").isNotNull())
    keys = keys.unionByName(
        sharded.select("topic", "storeSize", F.lit("shardingKey").alias("kind"), F.col("shardingKey").alias("key"))
    )
    counted = keys.groupBy("topic", "kind", "key").agg(
        F.count("*").alias("messages"), F.sum("storeSize").alias("bytes")
    )
    hottest = Window.partitionBy("topic", "kind").orderBy(F.desc("messages"), "key")
    return (
        counted.withColumn("rank", F.row_number().over(hottest))
        .where(F.col("rank") <= top)
        .join(totals, "topic")
        .select(
            "topic", "kind", "key", "messages", "bytes", F.round(F.col("messages") / F.col("ofTopic"), 4).alias("share")
        )
        .orderBy("topic", "kind", F.desc("messages"), "key")
    )
