"""Reports, each beside a plain Python answer to the same question, from what RocketMQ wrote and its decoder read."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from embermq import Client, Message, open_store
from embermq.model.topic import TopicConfig
from tests.e2e.conftest import Served
from tests.spark.golden_rows import GoldenStores, milliseconds_of
from tests.spark.report_oracles import copies, given_back, out_of_order, put_off, records_of, unfinished

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

END_OF_TIME = datetime(2100, 1, 1, tzinfo=UTC)


def rows_of(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in frame.collect()]


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[Any]]]:
    """A store with what producers do wrong: hot keys, messages sent twice, sharding keys in several queues."""
    path = tmp_path_factory.mktemp("reports") / "store"
    random.seed(7)
    with open_store(path, durability="async") as store:
        messages = [
            Message(
                random.choice(("orders", "bills")), b"x" * random.randrange(300),
                keys=random.choices(["a", "b", "c", f"k{number}"], [8, 4, 2, 1], k=random.choice((1, 1, 2))),
                queue=random.choices(range(4), [9, 3, 2, 1])[0],
                properties={"__SHARDINGKEY": random.choice("xyz")} if number % 3 else {},
            )
            for number in range(600)
        ]  # fmt: skip
        receipts = store.put_many(messages)
        kept = list(zip(messages, receipts, strict=True))
    yield path, kept


def test_skew(spark: SparkSession, orders: tuple[Path, list[Any]]) -> None:
    from embermq_spark import reports

    path, kept = orders
    counts = Counter((receipt.topic, receipt.queue) for _, receipt in kept)
    topics = Counter(receipt.topic for _, receipt in kept)
    queues = Counter(topic for topic, _ in counts)
    expected = {
        (topic, queue, count, round(count / topics[topic], 4), round(count / (topics[topic] / queues[topic]), 2))
        for (topic, queue), count in counts.items()
    }
    found = rows_of(reports.skew(spark, path=path), "topic", "queueId", "messages", "share", "timesMean")
    assert set(found) == expected
    assert [row[2] for row in found] == sorted(counts.values(), reverse=True)


def test_skew_counts_bytes_as_rocketmq_does(spark: SparkSession, stores: GoldenStores) -> None:
    from embermq_spark import reports

    sizes: Counter[tuple[str, int]] = Counter()
    for facts in records_of(stores, "retry-dlq"):
        if facts["topic"] != "SCHEDULE_TOPIC_XXXX":
            sizes[facts["topic"], facts["queueId"]] += facts["totalSize"]
    found = reports.skew(spark, path=stores.paths["retry-dlq"])
    sized = {(topic, queue): size for topic, queue, size in rows_of(found, "topic", "queueId", "bytes") if size}
    assert sized == dict(sizes)


def test_queues_that_have_none_of_their_topics_messages_count(spark: SparkSession, tmp_path: Path) -> None:
    from embermq_spark import reports

    with open_store(tmp_path / "store", durability="async", reserve_bytes=0) as store:
        for topic in ("narrow", "empty"):
            store.save_topic(TopicConfig(topic, read_queues=4, write_queues=4))
        store.put_many([Message("narrow", b"x", queue=2) for _ in range(12)])
    found = reports.skew(spark, path=tmp_path / "store")
    assert rows_of(found, "topic", "queueId", "messages", "share", "timesMean") == [
        ("narrow", 2, 12, 1.0, 4.0),
        *(("narrow", queue, 0, 0.0, 0.0) for queue in (0, 1, 3)),
    ]
    assert [row for row in rows_of(found, "messages", "bytes") if not all(row)] == [(0, 0)] * 3
    of_one = reports.skew(spark, path=tmp_path / "store", assign='{"narrow": {"store": [1, 2]}}')
    assert rows_of(of_one, "queueId", "messages", "timesMean") == [(2, 12, 2.0), (1, 0, 0.0)]


def test_hot_keys(spark: SparkSession, orders: tuple[Path, list[Any]]) -> None:
    from embermq_spark import reports

    path, kept = orders
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for message, _ in kept:
        counts[message.topic, "key"].update(set(message.keys))
        counts[message.topic, "shardingKey"].update(message.properties.values())
    expected = [
        (topic, kind, key, count)
        for (topic, kind), found in sorted(counts.items())
        for key, count in sorted(found.items(), key=lambda item: (-item[1], item[0]))[:5]
    ]
    assert rows_of(reports.hot_keys(spark, top=5, path=path), "topic", "kind", "key", "messages") == expected


def test_duplicates(spark: SparkSession, stores: GoldenStores) -> None:
    from embermq_spark import reports

    found = rows_of(reports.duplicates(spark, path=stores.paths["batch"]), "topic", "uniqKey", "copies")
    assert found == sorted(copies(records_of(stores, "batch")), key=lambda row: (-row[2], *row[:2]))
    assert found


def test_order(spark: SparkSession, orders: tuple[Path, list[Any]]) -> None:
    from embermq_spark import reports

    path, kept = orders
    before: dict[tuple[str, str], Any] = {}
    expected = []
    for message, receipt in sorted(kept, key=lambda pair: pair[1].position):
        for key in message.properties.values():
            last = before.get((message.topic, key))
            if last is not None and last.queue != receipt.queue:
                expected.append((message.topic, key, "queue", receipt.queue, receipt.offset, last.queue, last.offset))
            before[message.topic, key] = receipt
    names = ("topic", "shardingKey", "kind", "queueId", "queueOffset", "beforeQueue", "beforeOffset")
    assert sorted(rows_of(reports.order(spark, path=path), *names)) == sorted(expected)
    assert expected


def test_messages_in_order_are_not_reported(spark: SparkSession, stores: GoldenStores) -> None:
    from embermq_spark import reports

    found = rows_of(
        reports.order(spark, path=stores.paths["ordered"]), "topic", "shardingKey", "queueId", "queueOffset"
    )
    assert set(found) == out_of_order(records_of(stores, "ordered"))


def test_dead_letters(spark: SparkSession, stores: GoldenStores) -> None:
    from embermq_spark import reports

    expected = given_back(records_of(stores, "retry-dlq"), "RetryTopic", "GID_retry")
    names = ("group", "state", "originTopic", "uniqKey", "retries", "deadOffset", "originQueue", "originOffset")
    found = rows_of(reports.dlq(spark, path=stores.paths["retry-dlq"]), *names)
    assert set(found) == expected
    assert len(found) == len(expected) > 0


@pytest.mark.parametrize("name", ["delay", "timer", "retry-dlq"])
def test_delays(spark: SparkSession, stores: GoldenStores, name: str) -> None:
    from embermq_spark import reports

    expected = put_off(records_of(stores, name))
    frame = reports.delay(spark, at=END_OF_TIME, path=stores.paths[name])
    found = rows_of(frame, "topic", "uniqKey", "reconsumeTimes", "state", "due", "lateMs")
    assert all((row[3] == "cancelled") == (row[5] is None) for row in found)
    assert {row[:3]: (row[3], milliseconds_of(row[4])) for row in found} == expected
    assert len(found) == len(expected) > 0


def test_messages_whose_time_has_not_come_wait(spark: SparkSession, stores: GoldenStores) -> None:
    from embermq_spark import reports

    frame = reports.delay(spark, at=datetime(2000, 1, 1, tzinfo=UTC), path=stores.paths["delay"])
    states = Counter(row[0] for row in rows_of(frame, "state"))
    assert states.keys() == {"waiting", "delivered"}


def test_transactions(spark: SparkSession, stores: GoldenStores) -> None:
    from embermq_spark import reports

    expected = unfinished(stores.expected("transaction"), records_of(stores, "transaction"))
    found = rows_of(reports.transactions(spark, path=stores.paths["transaction"]), "state", "uniqKey", "queueOffset")
    assert set(found) == expected
    assert len(found) == len(expected) > 0


def test_lag(spark: SparkSession, stores: GoldenStores) -> None:
    from embermq_spark import reports

    name = "retry-dlq"
    expected_store = stores.expected(name)
    ends: Counter[tuple[str, int]] = Counter()
    stored: dict[tuple[str, int, int], int] = {}
    for facts in records_of(stores, name):
        place = facts["topic"], facts["queueId"]
        ends[place] = max(ends[place], facts["queueOffset"] + 1)
        stored[*place, facts["queueOffset"]] = facts["storeTimestamp"]
    # As if the group had not consumed the last message of each queue.
    offsets = {
        (*key.split("@"), int(queue)): max(offset - 1, 0)
        for key, queues in expected_store["config"]["consumerOffset.json"]["offsetTable"].items()
        for queue, offset in queues.items()
    }
    path = stores.paths[name]
    rewrite_offsets(path, offsets)
    rows = reports.lag(spark, path=path).collect()
    found = {
        (row.topic, row.group, row.queueId): (row.offset, row.endOffset, row.lag, row.lagMs is None) for row in rows
    }
    assert found == {
        (topic, group, queue): (
            offset,
            ends[topic, queue] or offset,
            max(ends[topic, queue] - offset, 0),
            ends[topic, queue] <= offset,
        )
        for (topic, group, queue), offset in offsets.items()
    }
    for row in rows:
        if row.lag:
            age = milliseconds_of(row.at) - stored[row.topic, row.queueId, row.offset]
            assert abs(row.lagMs - max(age, 0)) <= 1
    assert any(row.lag for row in rows)


def rewrite_offsets(path: Path, offsets: dict[tuple[str, str, int], int]) -> None:
    import json

    table: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, group, queue), offset in offsets.items():
        table[f"{topic}@{group}"][str(queue)] = offset
    (path / "config" / "consumerOffset.json").write_text(json.dumps({"offsetTable": table}))


def test_lag_is_kept_and_its_history_told(spark: SparkSession, stores: GoldenStores, tmp_path: Path) -> None:
    from embermq_spark import reports

    for _ in range(2):
        reports.keep_lag(reports.lag(spark, path=stores.paths["ordered"]), str(tmp_path / "lags"))
    sums: Counter[tuple[str, str]] = Counter()
    for row in reports.lag(spark, path=stores.paths["ordered"]).collect():
        sums[row.group, row.topic] += row.lag
    found = rows_of(reports.lag_history(spark, str(tmp_path / "lags")), "at", "group", "topic", "lag")
    assert [row[1:] for row in found] == [(*place, total) for place, total in sorted(sums.items())] * 2
    first, last = sorted({row[0] for row in found})
    folder, until = str(tmp_path / "lags"), int(last.timestamp() * 1000)  # not behind it
    assert {row.at for row in reports.lag_history(spark, folder, endingTimestamp=until).collect()} == {first}
    assert {row.at for row in reports.lag_history(spark, folder, startingTimestamp=until).collect()} == {last}
    group, topic = next(iter(sums))
    for choice in ({"subscribe": topic}, {"group": group}):
        assert reports.lag_history(spark, folder, **choice).count() == len(found)
    for choice in ({"subscribe": "none"}, {"group": "none"}):
        assert reports.lag_history(spark, folder, **choice).count() == 0


def context(*fields: object) -> bytes:
    return "\x01".join(map(str, fields)).encode() + b"\x02"


def test_traces(spark: SparkSession, ember: Served) -> None:
    from embermq_spark import reports

    now = 1_700_000_000_000
    with Client(ember.namesrv) as client:
        ids = [client.send("report-traced", b"x").unique_key for _ in range(20)]
        traces = [
            context("Pub", now + number, "R", "pg", "report-traced", key, "", key, "h", 1, number + 2, 0, "O", "true")
            + context("SubBefore", now + 5 * number, "R", "cg", f"r{number}", key, number % 2, key)
            + context("SubAfter", f"r{number}", key, 3 * number, "false" if number == 4 else "true", key, 0, now, "cg")
            for number, key in enumerate(ids)
        ]
        # Repeated, as by a client that did not hear the answer; one message that never arrived; and what is no trace.
        traces.append(traces[3])
        traces.append(context("Pub", now, "R", "pg", "report-traced", "lost", "", "", "h", 1, 9, 0, "false"))
        traces.append(b"junk\x02Pub\x01\x02SubAfter\x01x\x02")
        for body in traces:
            client.send("report-traces", body)
    options = {"namesrv": ember.namesrv, "subscribe": "report-traced", "trace_topic": "report-traces"}
    rows = reports.trace(spark, **options).collect()
    found = {row.id: row for row in rows}
    assert len(rows) == len(found) == len(ids) + 1
    columns = {"columns": "uniqKey,storeTimestamp", "subscribe": "report-traced", "namesrv": ember.namesrv}
    messages = spark.read.format("rocketmq").options(**columns).load().collect()
    stored = {row.uniqKey: milliseconds_of(row.storeTimestamp) for row in messages}
    assert stored.keys() == set(ids)
    for number, key in enumerate(ids):
        row = found[key]
        told = row.producerGroup, row.sendMs, row.consumerGroup, row.retries, row.consumedInMs, row.isConsumed
        assert told == ("pg", number + 2, "cg", number % 2, 3 * number, number != 4)
        assert row.storedAfterMs == stored[key] - now - number
        assert row.waitedMs == now + 5 * number - stored[key]
    assert (found["lost"].isSent, found["lost"].consumerGroup, found["lost"].stored) == (False, None, None)
    latency = {row.consumerGroup: row for row in reports.trace_latency(spark, **options).collect()}
    assert (latency["cg"].messages, latency["cg"].consumesFailed, latency["cg"].sendMsP50) == (20, 1, 11.5)
    assert latency[None].sendsFailed == 1
