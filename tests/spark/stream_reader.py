"""A program with two streams from one store into Parquet, one of the log and one of a topic, until it is killed.

python stream_reader.py <store> <topic> <output directory>
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

MODES = ("log", "queue")
SETTINGS = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}


def start(spark: SparkSession, mode: str, store: str, topic: str, output: Path, *, now: bool = False) -> StreamingQuery:
    """Start the stream of one mode, or have it go on where it was; with `now` it ends with what there is."""
    reader = spark.readStream.format("rocketmq").option("columns", "queueId,queueOffset,physicalOffset,body")
    reader = reader.option("subscribe", topic) if mode == "queue" else reader
    writer = reader.load(store).writeStream.format("parquet").option("checkpointLocation", str(output / mode / "marks"))
    writer = writer.trigger(availableNow=True) if now else writer.trigger(processingTime="200 milliseconds")
    return writer.start(str(output / mode / "rows"))


def main(store: str, topic: str, output: str) -> None:
    import embermq_spark

    spark = embermq_spark.session("reader", master="local[2]", settings=SETTINGS)
    queries = [start(spark, mode, store, topic, Path(output)) for mode in MODES]
    spark.streams.awaitAnyTermination()
    raise SystemExit(f"a stream ended: {[str(query.exception()) for query in queries]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
