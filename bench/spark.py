"""Spark over a log beside Spark over Parquet with the same rows: python3 dev.py bench spark

Stores of 1 KiB and of 100 B messages, each beside a Parquet file that Spark wrote from it. Both are read into Spark's
sink that throws rows away: seven columns, all of them, and four ids; then one topic that is a tenth of the log. Rounds
are interleaved, and medians and ratios within this run shown. Results also go to bench/results/spark.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import embermq_spark
from bench.report.machine import machine
from bench.scan import IDS, SEVEN, make_log
from embermq import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BODIES: Final = (1024, 100)
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
RESULTS: Final = Path(__file__).parent / "results" / "spark.json"


class Bar(NamedTuple):
    """What must be reached, by the size of bodies and the case."""

    text: str
    least: float
    found: Callable[[dict[str, float], int], float]  # of the medians of a size, and how many messages there are


BARS: Final = {
    1024: (
        Bar("seven columns, to Parquet", 0.55, lambda times, _: times["7 columns parquet"] / times["7 columns"]),
        Bar("all columns, to Parquet", 0.5, lambda times, _: times["all columns parquet"] / times["all columns"]),
        Bar("four ids, messages a second", 2e6, lambda times, count: count / times["4 ids"]),
        Bar("all of the log to a tenth of it, time", 4, lambda times, _: times["7 columns"] / times[ONE_TOPIC]),
    ),
    100: (
        Bar("seven columns, to Parquet", 0.55, lambda times, _: times["7 columns parquet"] / times["7 columns"]),
        Bar("all columns, to Parquet", 0.5, lambda times, _: times["all columns parquet"] / times["all columns"]),
        Bar("four ids, messages a second", 5e6, lambda times, count: count / times["4 ids"]),
        Bar("all of the log to a tenth of it, time", 4, lambda times, _: times["7 columns"] / times[ONE_TOPIC]),
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--folder", help="where stores are made; a temporary one by default")
    options = parser.parse_args()
    spark = embermq_spark.session("bench", master=options.master, settings=SETTINGS)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        for size in BODIES:
            results.append(measure(spark, Path(folder, str(size)), size, options.rounds))
    spark.stop()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine(), "reads": results}, indent=1) + "\n")


def measure(spark: SparkSession, path: Path, size: int, rounds: int) -> dict[str, Any]:
    make_log(path / "store", size, LOG_SIZE, TOPICS)
    with open_store(path / "store"):
        pass  # which makes its queues
    store, parquet = str(path / "store"), str(path / "parquet")
    read(spark, store, ALL).write.parquet(parquet)
    count = spark.read.parquet(parquet).count()
    cases = {name: read(spark, store, columns) for name, columns in COLUMNS.items()}
    cases |= {f"{name} parquet": spark.read.parquet(parquet).select(*columns) for name, columns in COLUMNS.items()}
    cases[ONE_TOPIC] = read(spark, store, SEVEN, topic=TOPICS[0].decode())
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, frame in cases.items():
            seconds = time_of(frame)
            if turn:  # the first warms up
                taken[name].append(seconds)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    for name, seconds in medians.items():
        print(f"{size:>5} B  {name:<26} {seconds:>6.2f} s  {count / seconds / 1e6:>6.2f} M messages/s")
    bars = []
    for bar in BARS[size]:
        found = bar.found(medians, count)
        verdict = "reached" if found >= bar.least else "not reached"
        print(f"{size:>5} B  {bar.text:<40} {found:>12,.2f}, at least {bar.least:,g}: {verdict}")
        bars.append({"bar": bar.text, "least": bar.least, "found": found})
    return {"body": size, "messages": count, "seconds": medians, "bars": bars}


def read(spark: SparkSession, store: str, columns: tuple[str, ...], *, topic: str | None = None) -> DataFrame:
    reader = spark.read.format("rocketmq").option("columns", ",".join(columns))
    return (reader if topic is None else reader.option("subscribe", topic)).load(store).select(*columns)


def time_of(frame: DataFrame) -> float:
    began = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
