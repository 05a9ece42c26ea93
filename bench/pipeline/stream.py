"""How long a message takes from its put to a committed sink: python3 dev.py bench spark stream

A program puts 5 000 messages of 1 KiB a second into a store, and a query streams its files into Parquet, as fast as it
can: by the log, and by queues. A message is there when Spark has committed its file to the table; that moment less its
put is its time. The first seconds, in which Spark compiles itself, do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow.parquet as pq

import embermq_spark
from bench.pipeline.reads import SETTINGS
from bench.pipeline.results import Bar, save
from bench.servers.server import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RATE: Final = 5_000  # messages a second
TOPIC: Final = "steady"
MODES: Final[dict[str, dict[str, str]]] = {"by the log": {}, "by queues": {"subscribe": TOPIC}}
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
    spark = embermq_spark.session("bench", master="local[2]", settings=SETTINGS)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (mode, more) in enumerate(MODES.items()):
            seconds = measure(spark, Path(folder, str(number)), more, options.warm_up, options.seconds)
            found[mode] = {f"p{share}_s": float(np.percentile(seconds, share)) for share in (50, 90, 99)}
            found[mode]["messages"] = len(seconds)
            print(f"{mode:<12} {found[mode]}", flush=True)
    spark.stop()
    bars = [
        Bar(f"99 % of {RATE:,} msgs/s, {mode}", 1.0, each["p99_s"], "s", is_limit=True) for mode, each in found.items()
    ]
    save("stream", {"rate": RATE, "modes": found}, bars)


def measure(spark: SparkSession, path: Path, more: dict[str, str], warm_up: float, seconds: float) -> Any:
    """How long messages took, in seconds, that were put after the warm-up."""
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
            begin_ms = time.time() * 1000
            time.sleep(seconds)
        finally:
            query.stop()
            writer.stdin.close()
    times = np.concatenate([done_ms - born for done_ms, born in _iter_batches(table)])
    born = np.concatenate([born for _, born in _iter_batches(table)])
    return times[born >= begin_ms] / 1000


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
