"""The readers of streams, asked as Spark asks them, over stores that go on. No Spark runs here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow

from embermq import Message, Store, open_store
from embermq.errors import DataLoss, SettingsError, TopicNotFound
from embermq.model.topic import TopicConfig
from embermq_spark.compat import fit_stream
from embermq_spark.options import ReadOptions
from embermq_spark.schema import read_schema
from embermq_spark.streams import make_stream_reader
from tests.conftest import Golden

QUEUES = 4


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "data", durability="async") as opened:
        yield opened


def put(store: Store, topic: str, count: int, *, size: int = 10, begin: int = 0) -> None:
    for number in range(begin, begin + count):
        store.put(Message(topic, f"{number}".encode().ljust(size, b".")), queue=number % QUEUES)


class Asked:
    """A stream as Spark uses it: batch after batch."""

    def __init__(self, path: Path, version: str = "4.3.0", **options: str) -> None:
        self.options = ReadOptions.parse({"path": str(path), "columns": "topic,queueId,queueOffset", **options})
        stream = make_stream_reader(self.options, read_schema(self.options))
        self.reader: DataSourceStreamReader = fit_stream(stream, version)
        self.at: dict[str, Any] = self.reader.initialOffset()

    def end_now(self) -> None:
        """As `Trigger.AvailableNow` does."""
        assert isinstance(self.reader, SupportsTriggerAvailableNow)
        self.reader.prepareForTriggerAvailableNow()

    def next(self) -> list[tuple[str, int, int]]:
        """The rows of the next batch; none if there is no batch."""
        begin, self.at = self.at, self.reader.latestOffset(self.at, self.reader.getDefaultReadLimit())
        return self.read(begin, self.at)

    def read(self, begin: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int, int]]:
        rows = []
        for piece in self.reader.partitions(begin, end):
            for batch in self.reader.read(piece):
                rows += [(row["topic"], row["queueId"], row["queueOffset"]) for row in batch.to_pylist()]
        return rows


class AskedByOld(Asked):
    """As Spark 4.1 uses it, which says nothing of where a batch begins until its end is told."""

    def __init__(self, path: Path, **options: str) -> None:
        super().__init__(path, "4.1.4", **options)

    def next(self) -> list[tuple[str, int, int]]:
        begin, self.at = self.at, self.reader.latestOffset()  # type: ignore[call-arg]
        return self.read(begin, self.at) if begin != self.at else []


def counts_of(rows: list[tuple[str, int, int]]) -> list[int]:
    return [sum(1 for row in rows if row[1] == queue) for queue in range(QUEUES)]


@pytest.mark.parametrize("options", [{}, {"subscribe": "orders"}, {"subscribePattern": "ord.*"}])
def test_every_message_is_in_one_batch(store: Store, options: dict[str, str]) -> None:
    put(store, "orders", 10)
    stream = Asked(store.path, **options)
    first = stream.next()
    assert stream.next() == []
    put(store, "orders", 7, begin=10)
    second = stream.next()
    assert len(first) == 10
    assert len(second) == 7
    assert len({*first, *second}) == 17


@pytest.mark.parametrize("options", [{}, {"subscribe": "orders"}])
def test_a_batch_that_is_read_again_is_the_same(store: Store, options: dict[str, str]) -> None:
    put(store, "orders", 10)
    stream = Asked(store.path, **options)
    begin = stream.at
    first = stream.next()
    put(store, "orders", 5, begin=10)
    again = Asked(store.path, **options)
    assert again.read(begin, stream.at) == first


def test_offsets_are_by_topic_broker_and_queue_or_positions_of_the_log(store: Store) -> None:
    put(store, "orders", 5)
    assert Asked(store.path, subscribe="orders", startingoffsets="latest").at == {
        "orders": {"data": {"0": 2, "1": 1, "2": 1, "3": 1}}
    }
    assert Asked(store.path, brokername="broker-a").at == {"log": {"broker-a": 0}}
    report = Asked(store.path, subscribe="orders").reader.reportLatestOffset()
    assert report == {"orders": {"data": {"0": 2, "1": 1, "2": 1, "3": 1}}}


def test_a_limit_of_messages_is_spread_over_the_queues(store: Store) -> None:
    put(store, "orders", 40)
    stream = Asked(store.path, subscribe="orders", maxoffsetspertrigger="10")
    sizes = [counts_of(stream.next()) for _ in range(5)]
    assert list(map(sum, sizes)) == [10, 10, 10, 10, 0]
    assert all(min(each) >= 2 for each in sizes[:4])


def test_a_limit_of_messages_holds_for_the_log(store: Store) -> None:
    put(store, "orders", 25)
    stream = Asked(store.path, maxoffsetspertrigger="10")
    assert [len(stream.next()) for _ in range(4)] == [10, 10, 5, 0]


@pytest.mark.parametrize("options", [{}, {"subscribe": "orders"}])
def test_a_limit_of_bytes_is_kept_and_everything_comes(store: Store, options: dict[str, str]) -> None:
    put(store, "orders", 40, size=1_000)
    stream = Asked(store.path, maxbytespertrigger="12000", **options)
    batches = []
    while batch := stream.next():
        batches.append(batch)
    assert len({row for batch in batches for row in batch}) == 40
    assert max(map(len, batches)) <= 12
    assert len(batches) <= 8


@pytest.mark.parametrize("options", [{}, {"subscribe": "orders"}])
def test_too_few_messages_wait(store: Store, options: dict[str, str]) -> None:
    put(store, "orders", 4)
    stream = Asked(store.path, minoffsetspertrigger="5", **options)
    begin = stream.at
    assert stream.next() == []
    assert stream.at == begin
    put(store, "orders", 1)
    assert len(stream.next()) == 5


@pytest.mark.parametrize("options", [{}, {"subscribe": "orders"}])
def test_they_do_not_wait_longer_than_they_may(store: Store, options: dict[str, str]) -> None:
    put(store, "orders", 4)
    stream = Asked(store.path, minoffsetspertrigger="5", maxtriggerdelay="0s", **options)
    assert len(stream.next()) == 4


@pytest.mark.parametrize("options", [{}, {"subscribe": "orders"}])
def test_a_stream_of_what_is_available_now_ends(store: Store, options: dict[str, str]) -> None:
    put(store, "orders", 10)
    stream = Asked(store.path, maxoffsetspertrigger="6", minoffsetspertrigger="6", **options)
    stream.reader.prepareForTriggerAvailableNow()
    put(store, "orders", 10, begin=10)
    assert [len(stream.next()) for _ in range(3)] == [6, 4, 0]


def test_spark_may_ask_for_everything_in_spite_of_limits(store: Store) -> None:
    put(store, "orders", 10)
    stream = Asked(store.path, subscribe="orders", maxoffsetspertrigger="1", minoffsetspertrigger="100")
    assert len(stream.read(stream.at, stream.reader.latestOffset(stream.at, ReadAllAvailable()))) == 10


def test_topics_that_are_made_while_the_stream_runs_are_read_from_their_beginning(store: Store) -> None:
    put(store, "orders-eu", 4)
    stream = Asked(store.path, subscribepattern="orders-.*", startingoffsets="latest")
    put(store, "orders-us", 4)
    put(store, "bills", 4)
    entered = stream.next()
    put(store, "orders-us", 4, begin=4)
    rows = entered + stream.next() + stream.next()
    assert sorted(rows) == [("orders-us", queue, offset) for queue in range(QUEUES) for offset in range(2)]


def test_a_topic_that_has_no_messages_yet_is_waited_for(store: Store) -> None:
    store.save_topic(TopicConfig("orders"))
    stream = Asked(store.path, subscribe="orders")
    assert stream.next() == []
    put(store, "orders", 8)
    assert len(stream.next() + stream.next()) == 8


def test_a_stream_can_begin_at_a_time(store: Store) -> None:
    put(store, "orders", 8)
    last = store.get("orders", queue=3, offset=1, limit=1)
    time_ms = round(next(iter(last)).store_time.timestamp() * 1000) + 1
    assert Asked(store.path, subscribe="orders", startingtimestamp=str(time_ms)).next() == []
    assert Asked(store.path, startingtimestamp=str(time_ms)).next() == []
    assert len(Asked(store.path, subscribe="orders", startingtimestamp="0").next()) == 8
    assert len(Asked(store.path, startingtimestamp="0").next()) == 8


def test_a_queue_that_is_gone_fails_the_stream_or_is_passed_over(store: Store, tmp_path: Path) -> None:
    put(store, "orders", 8)
    put(store, "bills", 8)
    stream = Asked(store.path, subscribepattern=".*")
    lenient = Asked(store.path, subscribepattern=".*", failondataloss="false")
    assert len(stream.next()) == len(lenient.next()) == 16
    shutil.rmtree(store.path / "consumequeue" / "orders" / "2")
    with pytest.raises(DataLoss, match="topic 'orders', queue 2: what follows offset 2 cannot be read: the queue is"):
        stream.next()
    put(store, "bills", 4)
    assert len(lenient.next()) == 4


def test_retention_that_overtakes_a_stream_is_told(tmp_path: Path) -> None:
    """RocketMQ's store without its first file, as deletion leaves it."""
    path = Golden(tmp_path).store("basic")
    streams = [Asked(path, **options) for options in ({"subscribe": "TopicAlpha"}, {})]
    lenient = [Asked(path, failondataloss="false", **options) for options in ({"subscribe": "TopicAlpha"}, {})]
    (path / "commitlog" / f"{0:020}").unlink()
    with pytest.raises(DataLoss, match=r"queue 0: offsets \[0, \d+\) cannot be read: .* was deleted before"):
        streams[0].next()
    with pytest.raises(DataLoss, match=r"positions \[0, 65536\) cannot be read: these files were deleted before"):
        streams[1].next()
    kept = [
        record
        for record in Golden(tmp_path).expected("basic")["commitLog"]["records"]
        if record["physicalOffset"] >= 65536
    ]
    assert len(lenient[0].next()) == sum(1 for record in kept if record["topic"] == "TopicAlpha")
    assert len(lenient[1].next()) == len(kept)


@pytest.mark.parametrize("is_ending", [False, True], ids=["goes on", "available now"])
def test_offsets_that_the_store_lost_fail_the_stream(store: Store, is_ending: bool) -> None:
    put(store, "orders", 8)
    stream, log = Asked(store.path, subscribe="orders"), Asked(store.path)
    if is_ending:
        stream.end_now()
        log.end_now()
    stream.at = {"orders": {"data": {"0": 2, "1": 2, "2": 9, "3": 2}}}
    with pytest.raises(DataLoss, match=r"queue 2: what follows offset 9 cannot be read: it has \[0, 2\)"):
        stream.next()
    log.at = {"log": {"data": 1 << 40}}
    with pytest.raises(DataLoss, match=r"what follows position 1099511627776 cannot be read: the log ends at"):
        log.next()


@pytest.mark.parametrize("is_ending", [False, True], ids=["goes on", "available now"])
def test_a_broker_or_queue_that_options_do_not_name_any_more_is_missed(store: Store, is_ending: bool) -> None:
    put(store, "orders", 8)
    put(store, "bills", 8)
    log, renamed, narrowed = (
        Asked(store.path),
        Asked(store.path, subscribe="bills"),
        Asked(store.path, subscribe="bills"),
    )
    log.at = {"log": {"broker-z": 0}}
    renamed.at = {"bills": {"broker-z": {"0": 2}}}
    narrowed.at = {"bills": {"data": {"0": 2}}, "orders": {"data": {"0": 2}}}
    for stream, said in (
        (log, "broker broker-z: the log from position 0 on cannot be read: no broker has this name now; there is data"),
        (renamed, "broker broker-z, topic 'bills', queue 0: .* no broker has this name now; there is data"),
        (narrowed, "topic 'orders', queue 0: .* options leave it out, and the checkpoint has it"),
    ):
        if is_ending:
            stream.end_now()
        with pytest.raises(DataLoss, match=said):
            stream.next()


def test_a_stream_of_what_is_available_now_may_begin_behind_that(store: Store) -> None:
    """Messages came between the two questions of Spark, where it ends and where it begins."""
    put(store, "orders", 8)
    for options in ({"subscribe": "orders"}, {}):
        stream = Asked(store.path, startingoffsets="latest", **options)
        stream.end_now()
        put(store, "orders", 4)
        stream.at = stream.reader.initialOffset()
        assert stream.next() == []


def test_a_checkpoint_of_the_other_kind_is_refused(store: Store) -> None:
    put(store, "orders", 1)
    by_queue, by_log = Asked(store.path, subscribe="orders"), Asked(store.path)
    by_queue.at, by_log.at = by_log.at, by_queue.at
    for stream in (by_queue, by_log):
        with pytest.raises(SettingsError, match="not of this kind of stream"):
            stream.next()


def test_a_topic_that_is_not_there_is_refused(store: Store) -> None:
    put(store, "orders", 1)
    with pytest.raises(TopicNotFound, match="no topic 'order'; the nearest name is 'orders'"):
        Asked(store.path, subscribe="order")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingoffsets": "latest"}, "option endingOffsets is for batches"),
        ({"endingtimestamp": "1"}, "option endingTimestamp is for batches"),
        ({"startingoffsets": '{"orders": {"data": {"0": 1}}}'}, "option startingOffsets: offsets of queues"),
        ({"commitgroup": "g", "namesrv": "127.0.0.1:1"}, "option commitGroup goes with subscribe"),
        ({"commitgroup": "g", "subscribe": "orders"}, "only a running broker changes offsets of groups"),
    ],
)
def test_options_that_streams_do_not_have_are_refused(store: Store, options: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Asked(store.path, **options)


@pytest.mark.parametrize("options", [{}, {"subscribePattern": "ord.*"}])
def test_spark_4_1_gets_all_that_is_there_once_new_queues_too(store: Store, options: dict[str, str]) -> None:
    put(store, "orders", 10)
    stream = AskedByOld(store.path, **options)
    rows = stream.next()
    assert len(rows) == 10
    assert stream.next() == []
    put(store, "orders", 7, begin=10)
    put(store, "orders-new", 5)
    begin = stream.at
    more = stream.next()
    assert stream.next() == []
    again = AskedByOld(store.path, **options)  # which no longer knows what it was asked before
    assert again.read(begin, stream.at) == more
    again.at = stream.at
    put(store, "orders-new", 3, begin=5)
    rows += more + again.next()
    assert len(rows) == len(set(rows)) == 25


def test_spark_4_1_is_told_of_loss(store: Store) -> None:
    put(store, "orders", 10)
    stream = AskedByOld(store.path, subscribe="orders", startingoffsets="latest")
    ahead = {"orders": {"data": {queue: end + 1 for queue, end in stream.at["orders"]["data"].items()}}}
    with pytest.raises(DataLoss, match="the topic was made anew, or the store lost its end"):
        stream.read(ahead, stream.at)


@pytest.mark.parametrize("option", ["maxoffsetspertrigger", "maxbytespertrigger", "minoffsetspertrigger"])
def test_spark_4_1_has_no_limits(store: Store, option: str) -> None:
    put(store, "orders", 1)
    with pytest.raises(SettingsError, match=r"need PySpark 4.2 or newer, and this is 4.1.4; leave them out"):
        AskedByOld(store.path, **{option: "5"})
