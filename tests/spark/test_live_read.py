"""Reads from brokers that run, EmberMQ's and RocketMQ's own: the rows of `namesrv` are those of `path`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from embermq import Client, Message
from embermq.access.accounts import Accounts
from embermq.model.access import Action, Entry, Pattern, Policy, User
from tests.builders import wait_until
from tests.compat.cluster import running_cluster
from tests.compat.store_tool import missing
from tests.e2e.conftest import Served, serving
from tests.spark.golden_rows import ALL_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

COUNT = 600
QUEUES = 4
ADMIN = {"accessKey": "admin", "secretKey": "first-secret"}
READER = {"accessKey": "reader", "secretKey": "other-secret"}
IDS = "topic,queueId,queueOffset,brokerName,body"


class Live:
    """A broker that runs: how to reach it, and where its files are."""

    def __init__(self, namesrv: str, store: Path, **keys: str) -> None:
        self.namesrv = namesrv
        self.store = store
        self.keys = keys

    def load(self, spark: SparkSession, **options: str) -> DataFrame:
        return spark.read.format("rocketmq").option("namesrv", self.namesrv).options(**self.keys, **options).load()

    def load_files(self, spark: SparkSession, **options: str) -> DataFrame:
        return spark.read.format("rocketmq").options(**options).load(str(self.store))

    def make_group(self, name: str) -> None:
        keys = {"EMBERMQ_ACCESS_KEY": ADMIN["accessKey"], "EMBERMQ_SECRET_KEY": ADMIN["secretKey"]} if self.keys else {}
        command = [sys.executable, "-m", "embermq", "--namesrv", self.namesrv, "group", "create", name]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, **keys})

    def send(self, topic: str, numbers: range) -> None:
        names = {"accessKey": "access_key", "secretKey": "secret_key"}
        keys: dict[str, Any] = {names[name]: value for name, value in (ADMIN if self.keys else {}).items()}
        with Client(self.namesrv, timeout=30, **keys) as mq:
            for number in numbers:  # one by one, until the topic has all its queues
                mq.send(topic, b"%d" % number, queue=number % QUEUES) if number < QUEUES else None
            messages = [
                Message(
                    topic,
                    b"%d" % number * (30_000 if number % 50 == 7 else 10),
                    tags=("eu", "us")[number % 2],
                    keys=[f"k{number}"],
                    properties={"n": str(number)},
                    queue=number % QUEUES,
                )
                for number in numbers
                if number >= QUEUES
            ]
            failed = [each for each in mq.send_many(messages) if isinstance(each, Exception)]
            assert not failed, failed[0]


@pytest.fixture(scope="module", params=["shared", "pulled", "rocketmq"])
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Files read through EmberMQ's broker; messages pulled from it, by one who may not do that; and RocketMQ's."""
    folder = tmp_path_factory.mktemp(request.param)
    match request.param:
        case "shared":
            with serving(folder) as served:
                yield filled(Live(served.namesrv, served.data))
        case "pulled":
            make_users(folder)
            with serving(folder, "--access") as served:
                yield filled(Live(served.namesrv, served.data, **READER))
        case _:
            reason = missing()
            if reason is not None:
                pytest.skip(reason)
            with running_cluster(folder, target="rocketmq") as cluster:
                yield filled(Live(cluster.namesrv, folder / "store"))


def make_users(folder: Path) -> None:
    config = folder / "data" / "config"
    config.mkdir(parents=True)
    accounts = Accounts(config / "access.json")
    accounts.save_user(User("admin", ADMIN["secretKey"], is_super=True), User("reader", READER["secretKey"]))
    patterns = Pattern.parse("Topic:*"), Pattern.parse("Group:*")
    wanted = frozenset({Action.SUB})
    accounts.add_policy("reader", Policy(custom=tuple(Entry(each, wanted, allows=True) for each in patterns)))


def filled(live: Live) -> Live:
    def is_ready() -> bool:
        try:
            live.send("ready", range(1))
        except Exception:  # a broker listens a moment before it has registered
            return False
        return True

    wait_until(is_ready, seconds=60)
    live.send("orders", range(COUNT))
    live.send("bills", range(COUNT))
    return live


def in_order(rows: list[Row]) -> list[dict[str, Any]]:
    found = [row.asDict() for row in rows]
    return sorted(found, key=lambda row: (row["topic"], row["queueId"], row["queueOffset"]))


def options_of(live: Live, spark: SparkSession) -> dict[str, dict[str, str]]:
    """Options that choose some of the messages, by what they are about."""
    times = [row[0] for row in live.load_files(spark, subscribe="orders", columns="storeTimestamp").collect()]
    middle = str(int(sorted(times)[len(times) // 2].timestamp() * 1000))
    begins = json.dumps({"orders": {"broker-a": {"0": 5, "1": -2, "2": 100}}})
    ends = json.dumps({"orders": {"broker-a": {"0": 70, "1": 6, "2": 101}}})
    return {
        "topics": {"subscribe": "orders,bills"},
        "pattern": {"subscribe": "orders"},
        "queues": {"assign": json.dumps({"orders": {"broker-a": [1, 3]}})},
        "offsets": {"subscribe": "orders", "startingOffsets": begins, "endingOffsets": ends},
        "from a time": {"subscribe": "orders", "startingTimestamp": middle},
        "up to a time": {"subscribe": "orders", "endingTimestamp": middle},
        "tags": {"subscribe": "orders", "filterExpression": "us"},
        "sql": {"subscribe": "orders", "filterExpression": "n > 100 AND TAGS = 'eu' AND n IS NOT NULL"},
        "keys": {"subscribe": "bills", "keys": "k77,k8"},
    }


@pytest.mark.compat
def test_a_batch_has_the_rows_of_the_files(spark: SparkSession, live: Live) -> None:
    columns = {"columns": ",".join(ALL_COLUMNS), "minPartitions": "3"}
    for about, options in options_of(live, spark).items():
        found = in_order(live.load(spark, **options, **columns).collect())
        assert found, about
        expected = in_order(live.load_files(spark, **options, **columns).collect())
        assert found == expected, about


@pytest.mark.compat
def test_offsets_are_told_without_reading(spark: SparkSession, live: Live) -> None:
    import embermq_spark

    found = embermq_spark.offsets(spark, namesrv=live.namesrv, subscribe="orders", **live.keys).collect()
    assert sorted(map(tuple, found)) == [("orders", "broker-a", queue, 0, COUNT // QUEUES) for queue in range(QUEUES)]


@pytest.mark.compat
def test_a_stream_has_every_message_once_and_its_group_follows(spark: SparkSession, live: Live, tmp_path: Path) -> None:
    topic = "streamed"
    live.send(topic, range(100))
    live.make_group("followers")
    stream = spark.readStream.format("rocketmq").option("namesrv", live.namesrv).options(**live.keys)
    stream = stream.options(subscribe=topic, columns=IDS, maxOffsetsPerTrigger="60", commitGroup="followers")
    output, checkpoint = str(tmp_path / "rows"), str(tmp_path / "checkpoint")

    def run() -> None:
        writer = stream.load().writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(output)
        assert query.awaitTermination(120)

    run()
    live.send(topic, range(100, 250))
    run()
    rows = spark.read.parquet(output).collect()
    assert Counter((row.queueId, row.queueOffset) for row in rows) == Counter(
        (number % QUEUES, number // QUEUES) for number in range(250)
    )
    # What the group is told comes with the question for the next batch, so that the last one is told by the next run.
    run()
    after = live.load(spark, subscribe=topic, columns=IDS, startingOffsets="group", group="followers").collect()
    assert after == []
    live.send(topic, range(4, 8))
    after = live.load(spark, subscribe=topic, columns=IDS, startingOffsets="group", group="followers").collect()
    assert len(after) == 4


@pytest.mark.compat
def test_a_stream_begins_at_a_time_and_finds_new_queues_of_a_pattern(
    spark: SparkSession, live: Live, tmp_path: Path
) -> None:
    if live.keys:
        pytest.skip("this user may not list topics")
    live.send("timed-a", range(40))
    wait_until(lambda: live.load(spark, subscribe="timed-a").count() == 40, seconds=20)
    begin = str(time.time_ns() // 1_000_000 + 1)
    time.sleep(0.01)
    options = {"subscribePattern": "timed-.*", "startingTimestamp": begin, "columns": IDS}
    stream = spark.readStream.format("rocketmq").option("namesrv", live.namesrv).options(**options).load()
    rows: list[Row] = []
    query = stream.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    with_checkpoint = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = with_checkpoint.start()
    try:
        wait_until(lambda: running.lastProgress is not None, seconds=60)
        live.send("timed-a", range(40, 50))
        wait_until(lambda: len(rows) == 10, seconds=60)
        live.send("timed-b", range(12))
        wait_until(lambda: len(rows) == 22, seconds=90)
    finally:
        running.stop()
    assert Counter(row.topic for row in rows) == {"timed-a": 10, "timed-b": 12}


def test_a_topic_without_messages_has_no_rows(spark: SparkSession, ember: Served) -> None:
    command = [sys.executable, "-m", "embermq", "--namesrv", ember.namesrv, "topic", "create", "silent"]
    subprocess.run(command, check=True, capture_output=True)
    live = Live(ember.namesrv, ember.data)
    assert live.load(spark, subscribe="silent").collect() == []
    named = {"startingOffsets": '{"silent": {"broker-a": {"3": 0}}}', "subscribe": "silent"}
    assert live.load(spark, **named).collect() == []
    named["startingOffsets"] = '{"silent": {"broker-a": {"99": 0}}}'
    assert "names queue 99 of topic 'silent'" in message_of(spark, lambda: live.load(spark, **named))
    wait_until(lambda: "silent" in (ember.data / "config" / "topics.json").read_text())
    assert live.load_files(spark, subscribe="silent").collect() == []


def test_the_whole_log_is_streamed_through_the_broker(spark: SparkSession, ember: Served, tmp_path: Path) -> None:
    live = Live(ember.namesrv, ember.data)
    live.send("whole-log", range(50))
    stream = spark.readStream.format("rocketmq").option("namesrv", ember.namesrv).option("columns", IDS).load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    assert writer.trigger(availableNow=True).start(str(tmp_path / "rows")).awaitTermination(120)
    found = spark.read.parquet(str(tmp_path / "rows")).where("topic = 'whole-log'").collect()
    assert len({(row.queueId, row.queueOffset) for row in found}) == len(found) == 50


def test_a_stream_outlives_its_broker(spark: SparkSession, tmp_path: Path) -> None:
    """The broker is killed while the stream runs, and comes back: nothing is lost, nothing is there twice."""
    rows: list[Row] = []
    with serving(tmp_path) as served:
        live = Live(served.namesrv, served.data)
        live.send("outlived", range(100))
        addresses = {"listen": served.broker, "namesrv_listen": served.namesrv}
        stream = spark.readStream.format("rocketmq").option("namesrv", served.namesrv)
        frame = stream.options(subscribe="outlived", columns=IDS, maxOffsetsPerTrigger="7").load()
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        wait_until(lambda: len(rows) >= 20, seconds=60)
        served.process.kill()
        served.process.wait()
    try:
        with serving(tmp_path, **addresses):
            live.send("outlived", range(100, 150))
            wait_until(lambda: len(rows) >= 150, seconds=90)
            assert query.isActive, query.exception()
            query.stop()
    finally:
        query.stop()
    assert Counter((row.queueId, row.queueOffset) for row in rows) == Counter(
        (number % QUEUES, number // QUEUES) for number in range(150)
    )


def test_a_batch_whose_broker_stays_away_fails_and_says_where(spark: SparkSession, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        live = Live(served.namesrv, served.data)
        live.send("cut-off", range(COUNT))
        options = {"subscribe": "cut-off", "columns": IDS, "splitSize": "4k", "timeout": "1s"}
        rows = live.load(spark, **options).toLocalIterator()
        assert next(rows).topic == "cut-off"
        served.process.kill()
        served.process.wait()
        with pytest.raises(Exception, match=rf"broker {served.broker}: .+ could not be read: no connection"):
            list(rows)


def test_a_broker_that_stays_away_fails_the_stream_with_its_address(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[Row] = []
    with serving(tmp_path) as served:
        Live(served.namesrv, served.data).send("abandoned", range(100))
        stream = spark.readStream.format("rocketmq").option("namesrv", served.namesrv).option("timeout", "1s")
        frame = stream.options(subscribe="abandoned", columns=IDS, maxOffsetsPerTrigger="7").load()
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        wait_until(lambda: len(rows) >= 7, seconds=60)
        served.process.kill()
        served.process.wait()
        wait_until(lambda: not query.isActive, seconds=60)
    assert f"broker {served.broker}: " in str(query.exception())
    assert "could not be read" in str(query.exception())
    places = [(row.queueId, row.queueOffset) for row in rows]
    assert len(places) == len(set(places))


def message_of(spark: SparkSession, load: Callable[[], DataFrame]) -> str:
    with pytest.raises(Exception) as caught:
        load().collect()
    return str(caught.value)


def test_what_is_wrong_is_said(spark: SparkSession, ember: Served, tmp_path: Path) -> None:
    live = Live(ember.namesrv, ember.data)
    assert "no topic 'nothing'" in message_of(spark, lambda: live.load(spark, subscribe="nothing"))
    nobody = Live("127.0.0.1:9", tmp_path)
    assert "broker 127.0.0.1:9: the route of topic 'x' could not be read" in message_of(
        spark, lambda: nobody.load(spark, subscribe="x")
    )
    assert "brokerName names stores of path" in message_of(
        spark, lambda: live.load(spark, subscribe="x", brokerName="a")
    )
    live.send("bounded", range(8))
    offsets = json.dumps({"bounded": {"broker-a": {"0": 7}}})
    assert "topic 'bounded', queue 0: offset 7, which startingOffsets says" in message_of(
        spark, lambda: live.load(spark, subscribe="bounded", startingOffsets=offsets)
    )
