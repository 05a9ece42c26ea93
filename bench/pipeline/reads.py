"""Spark over a log beside Spark over Parquet with the same rows: python3 dev.py bench spark reads

Stores of 1 KiB and of 100 B messages, each beside a Parquet file that Spark wrote from it. Both are read into Spark's
sink that throws rows away: seven columns, all of them, and four ids; then one topic that is a tenth of the log. Rounds
are interleaved, and medians and ratios within this run shown.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import embermq_spark
from bench.pipeline.results import Bar, save
from bench.scan import IDS, SEVEN, make_log
from embermq import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BODIES: Final = {"1 KiB": 1024, "100 B": 100}
LEAST_IDS: Final = {"1 KiB": 2e6, "100 B": 5e6}  # messages a second
LOG_SIZE: Final = 1 << 30  # one file of a usual store
TOPICS: Final = tuple(b"topic-%d" % number for number in range(10))
ALL: Final = (
    *SEVEN, "bornTimestamp", "brokerName", "physicalOffset", "storeSize", "flag", "sysFlag", "bodyCRC", "bornHost",
    "storeHost", "reconsumeTimes", "preparedTransactionOffset", "uniqKey", "properties",
)  # fmt: skip
COLUMNS: Final = {"7 columns": SEVEN, "all columns": ALL, "4 ids": IDS}
ONE_TOPIC: Final = "7 columns, 1 topic in 10"
SETTINGS: Final = {
    "spark.driver.memory": "6g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=LOG_SIZE >> 20, help="size of each log")
    parser.add_argument("--folder", help="where stores are made, and found by the next run; else they do not stay")
    options = parser.parse_args()
    spark = embermq_spark.session("bench", master="local[2]", settings=SETTINGS)
    found: dict[str, Any] = {}
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as temporary:
        for size, body in BODIES.items():
            path = Path(options.folder or temporary, str(body))
            make_both(spark, path, body, options.mib << 20)
            if options.rounds:
                found[size] = measure(spark, path, options.rounds)
                bars += judge(size, found[size])
    spark.stop()
    if found:
        save("reads", {"rounds": options.rounds, "sizes": found}, bars)


def make_both(spark: SparkSession, path: Path, body: int, size: int) -> None:
    """A store, and Parquet with the same rows, unless they are there."""
    if not (path / "store").exists():
        make_log(path / "store", body, size, TOPICS)
        with open_store(path / "store"):
            pass  # which makes its queues
    if not (path / "parquet" / "_SUCCESS").exists():
        read(spark, str(path / "store"), ALL).write.mode("overwrite").parquet(str(path / "parquet"))


def measure(spark: SparkSession, path: Path, rounds: int) -> dict[str, Any]:
    """How long each read takes, in turns."""
    store, parquet = str(path / "store"), str(path / "parquet")
    count = spark.read.parquet(parquet).count()
    cases = {}
    for name, columns in COLUMNS.items():
        cases[name] = read(spark, store, columns)
        cases[f"{name}, Parquet"] = spark.read.parquet(parquet).select(*columns)
    cases[ONE_TOPIC] = read(spark, store, SEVEN, topic=TOPICS[0].decode())
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, frame in cases.items():
            seconds = time_of(frame)
            if turn:  # the first warms up
                taken[name].append(seconds)
    for name, times in taken.items():
        seconds = statistics.median(times)
        print(f"{path.name:>5} B  {name:<26} {seconds:>6.2f} s  {count / seconds / 1e6:>6.2f} M messages/s", flush=True)
    return {"messages": count, "seconds": taken}


def judge(size: str, found: dict[str, Any]) -> list[Bar]:
    times = {name: statistics.median(each) for name, each in found["seconds"].items()}
    return [
        Bar(f"seven columns of {size} messages, to Parquet", 0.55, times["7 columns, Parquet"] / times["7 columns"]),
        Bar(f"all columns of {size} messages, to Parquet", 0.5, times["all columns, Parquet"] / times["all columns"]),
        Bar(f"four ids of {size} messages", LEAST_IDS[size], found["messages"] / times["4 ids"], "msgs/s"),
        Bar(f"one topic in ten of {size}, to the whole", 0.25, times[ONE_TOPIC] / times["7 columns"], is_limit=True),
    ]


def read(spark: SparkSession, store: str, columns: tuple[str, ...], *, topic: str | None = None) -> DataFrame:
    reader = spark.read.format("rocketmq").option("columns", ",".join(columns))
    return (reader if topic is None else reader.option("subscribe", topic)).load(store).select(*columns)


def time_of(frame: DataFrame) -> float:
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
