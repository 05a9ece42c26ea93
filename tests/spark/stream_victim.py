"""A program with a stream into a topic that kills itself around a commit.

    python stream_victim.py <name server> <data directory of the broker> <checkpoint> before|inside|after|never

Two batches after it started, the commit kills the whole session, JVM and all: before it publishes, while the broker
publishes, or when it has. With `never` it ends by itself after a few batches.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

import embermq_spark
from embermq_spark.options import WriteOptions
from embermq_spark.sink import StreamSink
from embermq_spark.source import RocketMQSource

ROWS = 100
MOMENT = "KILLED_AT"
DATA = "BROKER_DATA"
VICTIM = "VICTIM"


class KillingSink(StreamSink):
    """Ends everything around the third commit that this session makes."""

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        counter = Path(os.environ[DATA]).parent / f"commits-{os.environ[VICTIM]}"
        counter.write_text((counter.read_text() if counter.exists() else "") + f"{batchId}\n")
        is_due = len(counter.read_text().splitlines()) == 3
        moment = os.environ[MOMENT] if is_due else "never"
        if moment == "before":
            kill_all()
        if moment == "inside":
            threading.Thread(target=kill_when_promised, args=(batchId,), daemon=True).start()
        super().commit(messages, batchId)
        if moment in ("inside", "after"):
            kill_all()


class KillingSource(RocketMQSource):
    def streamWriter(self, schema: StructType, overwrite: bool) -> KillingSink:
        return KillingSink(schema, WriteOptions.parse(self.options), overwrite=overwrite)


def kill_when_promised(batch: int) -> None:
    """Kill as soon as the broker has the intent of this batch on disk."""
    while True:
        for path in Path(os.environ[DATA]).glob("staged/*/manifest.json"):
            if f'"batch": {batch}, "state": "intent"' in path.read_text():
                kill_all()
        time.sleep(0)


def kill_all() -> None:
    """What `kill -9` does, to this session's processes: those that Spark started are in groups of their own."""
    victim = int(os.environ[VICTIM])
    groups = {victim}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"{VICTIM}={victim}\0".encode() in (process / "environ").read_bytes():
                groups.add(os.getpgid(int(process.name)))
        except OSError:
            continue
    for group in groups - {os.getpgrp()}:
        os.killpg(group, signal.SIGKILL)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main(namesrv: str, data: str, checkpoint: str, moment: str) -> None:
    os.environ |= {MOMENT: moment, DATA: data, VICTIM: str(os.getpid())}
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    spark = embermq_spark.session("victim", master="local[2]", settings=settings)
    spark.dataSource.register(KillingSource)
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2).load()
    query = (
        source.selectExpr("cast(value as string) as body")
        .writeStream.format("rocketmq")
        .option("namesrv", namesrv)
        .option("topic", "stream-killed")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    while moment != "never" or len(query.recentProgress) < 4:
        assert query.isActive, query.exception()
        time.sleep(0.1)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.spark import stream_victim  # by the name that workers know it under

    stream_victim.main(*sys.argv[1:])
