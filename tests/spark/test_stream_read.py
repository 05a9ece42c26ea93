"""Streams from stores: every message once, whatever happens to the query."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embermq import Client, Message, open_store
from tests.e2e.conftest import Served
from tests.spark import stream_reader
from tests.spark.golden_rows import GoldenStores
from tests.spark.stream_reader import MODES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


TOPIC = "steady"
WRITER = Path(__file__).with_name("steady_writer.py")
READER = Path(__file__).with_name("stream_reader.py")
PATIENCE_S = 120.0
MARK = "STREAM_READER_OF"


def until(holds: Callable[[], object]) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@contextmanager
def writing(store: Path, rate: int) -> Iterator[Callable[[], int]]:
    """A process that writes; call what this gives to end it, and to learn how many messages it wrote."""
    command = [sys.executable, str(WRITER), str(store), TOPIC, str(rate)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        until((store / "consumequeue" / TOPIC).exists)
        yield lambda: int(process.communicate(timeout=PATIENCE_S)[0])
    finally:
        process.kill()
        process.communicate()


class Victim:
    """A process with streams, to be killed."""

    def __init__(self, store: Path, output: Path) -> None:
        self._mark = f"{MARK}={output}".encode()
        command = [sys.executable, str(READER), str(store), TOPIC, str(output)]
        with (output.parent / "reader.log").open("a") as errors:
            self._process = subprocess.Popen(
                command, env={**os.environ, MARK: str(output)}, stderr=errors, start_new_session=True
            )

    def is_running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """What `kill -9` does, to everything that Spark has started: much of that is in groups of its own."""
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self._mark in (process / "environ").read_bytes().split(b"\0"):
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue
        self._process.wait()


def last_of(folder: Path) -> int:
    """The number of the last batch that a folder of Spark's checkpoint knows."""
    return max((int(path.name) for path in folder.glob("[0-9]*") if path.name.isdecimal()), default=-1)


class Marks:
    """What Spark has noted of a stream."""

    def __init__(self, output: Path, mode: str) -> None:
        self._marks = output / mode / "marks"
        self._rows = output / mode / "rows"
        self._began = self.committed

    @property
    def committed(self) -> int:
        return last_of(self._marks / "commits")

    def is_planned(self) -> bool:
        """A batch is in the log of offsets, and not done."""
        return last_of(self._marks / "offsets") > self.committed > self._began

    def is_written(self) -> bool:
        """A batch is in the sink, and Spark has not noted that it is done."""
        return last_of(self._rows / "_spark_metadata") > self.committed > self._began

    def is_done(self) -> bool:
        """Some batches are done."""
        return self.committed > self._began + 2


Moment = Callable[[Marks], bool]
MOMENTS: list[Moment] = [Marks.is_planned, Marks.is_written, Marks.is_done]


def read_rows(spark: SparkSession, output: Path, mode: str) -> tuple[int, int, int]:
    """How many rows a stream has written, how many of them are different, and how many bodies."""
    rows = spark.read.parquet(str(output / mode / "rows"))
    places, bodies = rows.select("queueId", "queueOffset").distinct(), rows.select("body").distinct()
    return rows.count(), places.count(), bodies.count()


def kill_once(store: Path, output: Path, mode: str, moment: Moment) -> None:
    """Run the streams up to a moment of one of them."""
    marks, victim = Marks(output, mode), Victim(store, output)
    try:
        until(lambda: moment(marks) or not victim.is_running())
        assert victim.is_running(), (output.parent / "reader.log").read_text()[-3000:]
    finally:
        victim.kill()


def kill_and_finish(spark: SparkSession, folder: Path, rate: int, moments: list[tuple[str, Moment]]) -> None:
    store, output = folder / "data", folder / "output"
    output.mkdir()
    with writing(store, rate) as stop:
        for mode, moment in moments:
            kill_once(store, output, mode, moment)
        written = stop()
    assert written > 0
    for mode in MODES:
        stream_reader.start(spark, mode, str(store), TOPIC, output, now=True).awaitTermination()
        assert read_rows(spark, output, mode) == (written, written, written)


def test_every_message_is_read_once_although_the_query_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    kill_and_finish(spark, tmp_path, 1_000, [("queue", Marks.is_planned)])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_message_is_read_once_although_the_query_is_killed_at_any_moment(
    spark: SparkSession, tmp_path: Path
) -> None:
    moments = [(mode, moment) for moment in MOMENTS for mode in MODES]
    kill_and_finish(spark, tmp_path, 5_000, moments)


def run_now(frame: DataFrame, checkpoint: Path, name: str) -> StreamingQuery:
    """Read what is there into a table in memory."""
    writer = frame.writeStream.format("memory").queryName(name).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


@pytest.mark.parametrize("options", [{}, {"subscribePattern": ".*"}], ids=["log", "queues"])
def test_a_store_of_rocketmq_is_streamed_in_batches(
    spark: SparkSession, stores: GoldenStores, tmp_path: Path, options: dict[str, str]
) -> None:
    reader = spark.readStream.format("rocketmq").options(
        columns="physicalOffset", maxOffsetsPerTrigger="150", **options
    )
    name = f"golden_{len(options)}"
    query = run_now(reader.load(str(stores.paths["basic"])), tmp_path, name)
    found = sorted(row.physicalOffset for row in spark.table(name).collect())
    assert found == sorted(place[1] for place in stores.records if place[0] == "basic")
    progress = [each for each in query.recentProgress if each["numInputRows"]]
    assert [each["numInputRows"] for each in progress] == [150] * 4
    source = progress[-1]["sources"][0]
    assert source["endOffset"] == source["latestOffset"]


def test_queues_in_a_rocksdb_are_streamed(spark: SparkSession, stores: GoldenStores, tmp_path: Path) -> None:
    path, rocks = stores.paths["rocksdb-cq"], [place[1] for place in stores.records if place[0] == "rocksdb-cq"]
    reader = spark.readStream.format("rocketmq").options(
        columns="physicalOffset", subscribePattern=".*", maxBytesPerTrigger="4k"
    )
    query = run_now(reader.load(str(path)), tmp_path, "rocks")
    assert sorted(row.physicalOffset for row in spark.table("rocks").collect()) == sorted(rocks)
    assert sum(bool(each["numInputRows"]) for each in query.recentProgress) > 1


def run_ember(served: Served, *words: str) -> str:
    command = [sys.executable, "-m", "embermq", "--namesrv", served.namesrv, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_progress_is_committed_to_a_group(spark: SparkSession, ember: Served, tmp_path: Path) -> None:
    with Client(ember.namesrv) as mq:
        for number in range(10):
            mq.send("followed", b"%d" % number)
    run_ember(ember, "group", "create", "dashboards")
    reader = spark.readStream.format("rocketmq").option("subscribe", "followed").option("maxOffsetsPerTrigger", "4")
    reader = reader.option("namesrv", ember.namesrv).option("commitGroup", "dashboards")
    run_now(reader.load(str(ember.data)), tmp_path, "followed")
    assert spark.table("followed").count() == 10
    shown = json.loads(run_ember(ember, "group", "show", "dashboards", "--json"))
    assert shown["lag"] == 0
    assert sum(queue["offset"] for queue in shown["queues"]) == 10


def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, tmp_path: Path) -> None:
    with open_store(tmp_path / "data", durability="async") as store:
        for turn in (1, 2):
            store.put_many([Message("orders", b"%d" % turn)] * 5)
            frame = spark.readStream.format("rocketmq").option("subscribe", "orders").load(str(store.path))
            writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            assert sum(each["numInputRows"] for each in query.recentProgress) == 5
