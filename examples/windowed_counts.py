"""Messages of a topic counted by minute and tag, by a stream that ends with what is there.

    python examples/windowed_counts.py DIRECTORY TOPIC CHECKPOINT

Started again, it goes on where it stopped. Without `availableNow` it would go on for ever.
"""

from __future__ import annotations

import sys

from pyspark.sql.functions import count, window

import embermq_spark


def main(path: str, topic: str, checkpoint: str) -> None:
    spark = embermq_spark.session("windowed counts")
    stream = spark.readStream.format("rocketmq").option("subscribe", topic).load(path)
    counts = (
        stream.withWatermark("storeTimestamp", "10 minutes")
        .groupBy(window("storeTimestamp", "1 minute"), "tags")
        .agg(count("*").alias("count"))
    )
    query = (
        counts.selectExpr("window.start AS minute", "tags", "count")
        .writeStream.format("console")
        .option("truncate", "false")
        .outputMode("complete")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = query.lastProgress["numInputRows"] if query.lastProgress else 0
    print(f"{rows} messages in the last batch")


if __name__ == "__main__":
    main(*sys.argv[1:])
