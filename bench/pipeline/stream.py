"""How long a message takes from its put to a committed sink: python3 dev.py bench spark stream

A program puts 5 000 messages of 1 KiB a second into a store, and a query streams its files into Parquet, as fast as it
can: by the log, and by queues. A message is there when Spark has committed its file to the table; that moment less its
put is its time. The first seconds, in which Spark compiles itself, do not count, nor does what waited then and comes
after them.

Spark tells of each batch what took how long; of those that count, the slowest is shown with its parts, in ms. So is who
had the processors: a batch waits for many short steps, and takes seconds where other programs want the same cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow.parquet as pq

import embermq_spark
from bench.pipeline.reads import SETTINGS
from bench.pipeline.results import Bar, save
from bench.report.busy import Busy
from bench.servers.server import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RATE: Final = 5_000  # messages a second
TOPIC: Final = "steady"
MODES: Final[dict[str, dict[str, str]]] = {"by the log": {}, "by queues": {"subscribe": TOPIC}}
SPARK: Final = {
    "spark.sql.streaming.numRecentProgressUpdates": "10000",  # all of them
    "spark.log.level": "OFF",  # it would tell of the batch that a query is stopped in
}
LONGEST_WARM_UP_S: Final = 90.0
COLUMNS: Final = "topic,queueId,queueOffset,bornTimestamp,storeTimestamp,keys,tags,body"
WRITER: Final = """
import select, sys, time
from embermq import Message, open_store
body, written, began = b"x" * 1024, 0, time.monotonic()
with open_store(sys.argv[1], durability="async") as store:
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0.01)[0]:
        due = int((time.monotonic() - began) * float(sys.argv[3]))
        store.put_many([Message(sys.argv[2], body)] * (due - written))
        written = due
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40.0, help="that are measured, in each mode")
    parser.add_argument("--warm-up", type=float, default=20.0, help="seconds that are not")
    options = parser.parse_args()
    spark = embermq_spark.session("bench", master="local[2]", settings=SETTINGS | SPARK)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (mode, more) in enumerate(MODES.items()):
            found[mode] = measure(spark, Path(folder, str(number)), more, options.warm_up, options.seconds)
            print(f"{mode:<12} {found[mode]}", flush=True)
    spark.stop()
    bars = [
        Bar(f"99 % of {RATE:,} msgs/s, {mode}", 1.0, each["p99_s"], "s", is_limit=True) for mode, each in found.items()
    ]
    save("stream", {"rate": RATE, "modes": found}, bars)


def measure(spark: SparkSession, path: Path, more: dict[str, str], warm_up: float, seconds: float) -> dict[str, Any]:
    """How long messages took, in seconds, that were put after the warm-up; and the slowest batch of these."""
    path.mkdir()
    store, table = str(path / "store"), path / "table"
    command = [sys.executable, "-c", WRITER, store, TOPIC, str(RATE)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as writer:
        assert writer.stdout is not None and writer.stdin is not None
        if not writer.stdout.readline():
            raise SystemExit("the program that puts messages has ended; it says why above")
        time.sleep(1.0)  # so that the topic is there
        stream = spark.readStream.format("rocketmq").options(columns=COLUMNS, **more).load(store)
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(path / "checkpoint"))
            .start(str(table))
        )
        try:
            time.sleep(warm_up)
            wait_until_even(query)
            begin_ms, before = time.time() * 1000, Busy.now()
            time.sleep(seconds)
            busy = Busy.now().since(before)
            batches = [dict(each) for each in query.recentProgress]
            if query.exception() is not None:
                raise SystemExit(f"the query has failed: {query.exception()}")
        finally:
            query.stop()
            writer.stdin.close()
    times = np.concatenate([done_ms - born for done_ms, born in _iter_batches(table)])
    born = np.concatenate([born for _, born in _iter_batches(table)])
    counted = times[born >= begin_ms] / 1000
    return {
        **{f"p{share}_s": float(np.percentile(counted, share)) for share in (50, 90, 99)},
        "messages": len(counted),
        "slowest batch": slowest_of(batches, begin_ms),
        "processors": busy.shares(),
    }


def wait_until_even(query: StreamingQuery) -> None:
    """Wait until batches have no more than a second's messages, or until there was time enough for that."""
    deadline = time.monotonic() + LONGEST_WARM_UP_S
    while time.monotonic() < deadline:
        last = query.lastProgress
        if last is not None and 0 < last["numInputRows"] <= RATE:
            return
        time.sleep(0.1)


def slowest_of(batches: list[dict[str, Any]], begin_ms: float) -> dict[str, int]:
    """How long each part of a batch took, of the longest that began after a time."""
    late = [each for each in batches if datetime.fromisoformat(each["timestamp"]).timestamp() * 1000 >= begin_ms]
    slowest = max(late, key=lambda each: each["durationMs"]["triggerExecution"])
    return {"rows": slowest["numInputRows"], **slowest["durationMs"]}


def _iter_batches(table: Path) -> Any:
    """When a batch was committed, and when its messages were put, in ms."""
    for log in (table / "_spark_metadata").iterdir():
        if not log.name.isdecimal():
            continue  # a summary of several
        done_ms = log.stat().st_mtime_ns / 1e6
        for line in log.read_text().splitlines()[1:]:
            path = unquote(urlsplit(json.loads(line)["path"]).path)
            yield (
                done_ms,
                pq.read_table(path, columns=["bornTimestamp"])["bornTimestamp"]
                .cast("timestamp[ms]")
                .cast("int64")
                .to_numpy(),
            )


if __name__ == "__main__":
    main()
