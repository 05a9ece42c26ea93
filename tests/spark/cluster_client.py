"""A program that reads, streams and writes with a Spark cluster, and runs every job on it.

    python cluster_client.py <master> <store> <store with a compacted topic> <output directory> <name server> <reports>

Reports are JSON: of each by its name, the store that it is made of and the columns that are wanted of it.

It says what it saw as JSON. The format is not registered: executors find it by themselves.
"""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import embermq_spark
from embermq_spark import jobs
from embermq_spark.reports.catalogue import CATALOGUE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def main(master: str, store: str, compacted: str, output: str, namesrv: str, wanted: str) -> None:
    spark = embermq_spark.session("cluster", master=master, settings=SETTINGS)
    try:
        frame = spark.read.format("rocketmq").option("splitSize", "64k").load(store)
        counts = {row["topic"]: row["count"] for row in frame.groupBy("topic").count().collect()}
        reader = spark.readStream.format("rocketmq").option("subscribePattern", ".*").option("minPartitions", "4")
        query = (
            reader.load(store)
            .writeStream.format("parquet")
            .option("checkpointLocation", f"{output}/marks")
            .trigger(availableNow=True)
            .start(f"{output}/rows")
        )
        query.awaitTermination()
        streamed = spark.read.parquet(f"{output}/rows").select("topic", "queueId", "queueOffset").distinct().count()
        rows = spark.range(0, 100, 1, 4).selectExpr("cast(id as string) as body")
        rows.write.format("rocketmq").option("namesrv", namesrv).option("topic", "cluster").mode("append").save()
        _stream_back(spark, f"{output}/rows", f"{output}/sink-marks", namesrv)
        copied = shutil.copytree(store, f"{output}/store")
        done = jobs.archive(spark, copied, f"{output}/archive", format="delta")
        archived = jobs.history(spark, f"{output}/archive", copied).count() if done.batches else 0
        damages = jobs.verify(spark, store, range_size=100_000).count()
        rebuilt = jobs.rebuild(spark, store, f"{output}/rebuilt", range_size=100_000)
        differences = jobs.compare(spark, store, copied, range_size=100_000).count()
        kept = jobs.compact(spark, compacted, f"{output}/compacted", range_size=20_000).kept
        reported = {
            name: [list(row) for row in CATALOGUE[name].make(spark, path=path).select(*columns).collect()]
            for name, (path, columns) in json.loads(wanted).items()
        }
        jobs.replay(spark, f"{output}/archive", namesrv, to="replayed")
        executors = spark.range(0, 64, 1, 16).mapInArrow(_name_executor, "name string").distinct().count()
        facts = {"counts": counts, "streamed": streamed, "archived": archived, "executors": executors}
        found = {"damages": damages, "rebuilt": rebuilt.records, "differences": differences}
        print(json.dumps({**facts, **found, "kept": kept, "reported": reported}))
    finally:
        spark.stop()


def _stream_back(spark: SparkSession, rows: str, marks: str, namesrv: str) -> None:
    """Stream what was read into a topic."""
    frame = spark.readStream.schema(spark.read.parquet(rows).schema).parquet(rows)
    writer = frame.select("body").writeStream.format("rocketmq").option("checkpointLocation", marks)
    writer = writer.option("namesrv", namesrv).option("topic", "streamed").trigger(availableNow=True)
    writer.start().awaitTermination()


def _name_executor(batches):  # type: ignore[no-untyped-def]
    import os
    import time

    import pyarrow as pa

    time.sleep(0.2)  # so that one executor does not take all tasks
    for _ in batches:
        yield pa.record_batch([pa.array([os.environ["SPARK_EXECUTOR_DIRS"]])], names=["name"])


if __name__ == "__main__":
    main(*sys.argv[1:])
