"""Rows a second that Spark writes to a topic, seen whole or not at all: python3 dev.py bench spark sink

A broker on the same machine, with its engine, in `sync`: what is committed is on disk. Rows of 1 KiB are made by Spark
itself while it writes; a round is one write, from its beginning to its commit.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import embermq_spark
from bench.pipeline.reads import SETTINGS
from bench.pipeline.results import Bar, save
from bench.servers.ember import ENGINE_ON

BODY: Final = 1024
LEAST: Final = 100_000  # rows a second
TOPIC: Final = "written"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rates = measure(Path(folder), options.rows, options.rounds)
    print([round(rate) for rate in rates], flush=True)
    bar = Bar("rows of 1 KiB into a topic, exactly once", LEAST, statistics.median(rates), "rows/s")
    save("sink", {"rows": options.rows, "rates": rates}, [bar])


def measure(folder: Path, rows: int, rounds: int) -> list[float]:
    """Rows a second of each round; the first, which warms up, does not count."""
    anywhere, data = "127.0.0.1:0", folder / "data"
    command = [sys.executable, "-m", "embermq", "serve", "--data", str(data), "--listen", anywhere]
    command += ["--namesrv-listen", anywhere]
    with (
        (folder / "said").open("wb") as said,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            words = dict(word.split("=", 1) for word in server.stdout.readline().split()[1:])
            while ENGINE_ON not in (folder / "said").read_text():
                time.sleep(0.1)
            return write(words["namesrv"], rows, rounds)
        finally:
            server.terminate()


def write(namesrv: str, rows: int, rounds: int) -> list[float]:
    spark = embermq_spark.session("bench", master="local[2]", settings=SETTINGS)
    columns = f"rpad(cast(id as string), {BODY}, 'x') as body", "concat('k', id) as keys", "'eu' as tags"
    frame = spark.range(0, rows, 1, 2).selectExpr(*columns)
    writer = frame.write.format("rocketmq").option("namesrv", namesrv).option("topic", TOPIC).mode("append")
    rates = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        writer.save()
        rates.append(rows / (time.perf_counter() - began))
    offsets = embermq_spark.offsets(spark, namesrv=namesrv, subscribe=TOPIC).collect()
    stored = sum(row.endOffset - row.beginOffset for row in offsets)
    spark.stop()
    assert stored == rows * (rounds + 1), f"{rows * (rounds + 1)} rows were written, {stored} messages are there"
    return rates[1:]


if __name__ == "__main__":
    main()
