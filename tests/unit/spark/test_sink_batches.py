"""Rows that are encoded together are the messages that rows one by one become."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from embermq.client.outgoing import choose_queue, prepare
from embermq.client.staging import CHUNK_SIZE
from embermq.errors import IllegalMessage
from embermq.format.staged import StagedMessage, iter_staged
from embermq.format.wire_json import BrokerQueue
from embermq_spark.sink_batches import Encoded, encode_rows, split_topics
from embermq_spark.sink_columns import SinkColumns, iter_messages

ONE = [BrokerQueue("a", "t", queue) for queue in range(4)]
TWO = [BrokerQueue(broker, "t", queue) for broker in ("b", "a") for queue in (2, 0, 1)]
TEXT = pa.string()
TYPES = {
    "body": pa.binary(),
    "topic": TEXT,
    "tags": TEXT,
    "keys": TEXT,
    "properties": pa.map_(TEXT, TEXT),
    "queueId": pa.int32(),
    "shardingKey": TEXT,
    "deliverAt": pa.timestamp("us", tz="UTC"),
}
COLUMNS = SinkColumns(**dict(zip(SinkColumns.__dataclass_fields__, range(7), strict=False)))
USUAL: dict[str, tuple[Any, ...]] = {
    "topic": ("t",),
    "tags": (None, "", "eu", "ä"),
    "keys": (None, "", "k1", "k1 k2"),
    "properties": (None, [], [("a", "1")], [("ä", "ö"), ("b", "2")]),
    "queueId": (None, 0, 2),
    "shardingKey": (None, "", "customer-1", "ä"),
}


def a_batch(rows: list[dict[str, Any]], **types: Any) -> pa.RecordBatch:
    names = [name for name in TYPES if name != "deliverAt"]
    kinds = TYPES | types
    return pa.record_batch([pa.array([row.get(name) for row in rows], kinds[name]) for name in names], names)


def some_rows(random: Random, count: int, **unusual: Any) -> list[dict[str, Any]]:
    rows = [
        {name: random.choice(values) for name, values in USUAL.items()} | {"body": b"%d" % number}
        for number in range(count)
    ]
    rows[random.randrange(count)] |= unusual
    return rows


def by_broker(encoded: list[Encoded]) -> dict[str, list[StagedMessage]]:
    found: dict[str, list[StagedMessage]] = {}
    for target, data, count in encoded:
        messages = [message._replace(born_time=0) for message in iter_staged(data)]
        assert len(messages) == count
        found.setdefault(target.broker, []).extend(messages)
    return found


def one_by_one(batch: pa.RecordBatch, queues: list[BrokerQueue], turn: int) -> dict[str, list[StagedMessage]]:
    found: dict[str, list[StagedMessage]] = {}
    for number, message in enumerate(iter_messages(batch, COLUMNS, topic=None)):
        outgoing = prepare(message, "")
        queue = choose_queue(outgoing, queues, turn + number)
        staged = StagedMessage(queue.queue, 0, 0, 0, outgoing.body, outgoing.properties)
        found.setdefault(queue.broker, []).append(staged)
    return found


@pytest.mark.parametrize("queues", [ONE, TWO], ids=["one broker", "two"])
@pytest.mark.parametrize("seed", range(20))
def test_both_ways_come_to_the_same(seed: int, queues: list[BrokerQueue]) -> None:
    random = Random(seed)
    batch = a_batch(some_rows(random, 50)).slice(random.randrange(5))
    topics = split_topics(batch, COLUMNS, topic=None)
    assert topics is not None
    encoded = encode_rows(topics[0], queues, seed)
    assert encoded is not None
    assert by_broker(encoded) == one_by_one(batch, queues, seed)


def test_keys_may_be_a_list() -> None:
    keys = [["a", "b"], [], None, ["c"]]
    batch = a_batch([{"body": b"x", "topic": "t", "keys": each} for each in keys], keys=pa.list_(TEXT))
    topics = split_topics(batch, COLUMNS, topic=None)
    assert topics is not None
    encoded = encode_rows(topics[0], ONE, 0)
    assert encoded is not None
    assert by_broker(encoded) == one_by_one(batch, ONE, 0)


def test_topics_are_told_apart_and_keep_their_order() -> None:
    batch = a_batch([{"body": b"%d" % number, "topic": f"t{number % 3}"} for number in range(10)])
    topics = split_topics(batch, COLUMNS, topic=None)
    assert topics is not None
    assert {rows.topic: rows.bodies.to_pylist() for rows in topics} == {
        f"t{part}": [b"%d" % number for number in range(part, 10, 3)] for part in range(3)
    }


def test_no_piece_is_larger_than_a_chunk() -> None:
    batch = a_batch([{"body": b"x" * 4000, "topic": "t"} for _ in range(1000)])
    topics = split_topics(batch, COLUMNS, topic=None)
    assert topics is not None
    encoded = encode_rows(topics[0], ONE, 0)
    assert encoded is not None
    assert sum(each.messages for each in encoded) == 1000
    assert all(CHUNK_SIZE - 5000 < len(each.data) <= CHUNK_SIZE for each in encoded[:-1])


@pytest.mark.parametrize(
    "unusual",
    [
        {"body": None},
        {"body": b""},
        {"body": b"x" * 4096},  # is packed
        {"topic": None},
        {"topic": "no/topic"},
        {"tags": "a\x01b"},
        {"keys": "a\x02b"},
        {"keys": " a"},
        {"keys": "a  b"},
        {"keys": "a\tb"},
        {"keys": "a\u2003b"},
        {"properties": [("a", None)]},
        {"properties": [("a", "")]},
        {"properties": [("", "a")]},
        {"properties": [("KEYS", "k")]},
        {"properties": [("DELAY", "3")]},
        {"properties": [("__RMQ.TRANSIENT.a", "b")]},
        {"properties": [("a", "b\x02c")]},
        {"properties": [("a", "b" * 40_000)]},
        {"shardingKey": "a\x01b"},
    ],
    ids=str,
)
def test_a_batch_with_an_unusual_row_is_taken_row_by_row(unusual: dict[str, Any]) -> None:
    assert split_topics(a_batch(some_rows(Random(1), 20, **unusual)), COLUMNS, topic=None) is None


def test_a_row_for_a_queue_that_there_is_not_is_left_to_its_error() -> None:
    batch = a_batch(some_rows(Random(1), 20, queueId=9))
    topics = split_topics(batch, COLUMNS, topic=None)
    assert topics is not None
    assert encode_rows(topics[0], ONE, 0) is None
    with pytest.raises(IllegalMessage, match="no queue 9"):
        one_by_one(batch, ONE, 0)
