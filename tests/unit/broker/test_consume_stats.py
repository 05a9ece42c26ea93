"""How far groups are, who reads what, and what a queue holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq import Message
from embermq.format.consume_stats_body import QueueProgress, decode_consume_stats
from embermq.format.lenient_json import parse_lenient
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.hashing import java_hash
from tests.unit.broker.consuming import BROKER, Consuming, a_consuming

BEGIN_MS = 1_700_000_000_000


@pytest.fixture
def consuming(tmp_path: Path) -> Iterator[Consuming]:
    """Five messages in queue 0 of orders, one a second; the group has consumed three and fetched four."""
    with a_consuming(tmp_path / "s") as consuming:
        consuming.make_topic("orders")
        for number in range(5):
            consuming.store.put(Message("orders", b"x", tags=f"tag{number % 2}", queue=0))
            consuming.clock.advance(ms=1000)
        consuming.groups.read("g")
        consuming.offsets.commit("orders", "g", 0, 3)
        consuming.offsets.note_pull("orders", "g", 0, 4)
        yield consuming


def queue(number: int, topic: str = "orders") -> BrokerQueue:
    return BrokerQueue(BROKER, topic, number)


def progress(consuming: Consuming, **fields: object) -> dict[BrokerQueue, QueueProgress]:
    answer = consuming.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", **fields})
    assert answer.code == 0
    return dict(decode_consume_stats(answer.data).queues)


def test_how_far_a_group_is(consuming: Consuming) -> None:
    expected = {queue(0): QueueProgress(5, 3, 4, BEGIN_MS + 2000), queue(1): QueueProgress(0, 0, 0, 0)}
    assert progress(consuming) == expected
    assert progress(consuming, topic="orders") == expected
    assert progress(consuming, topicList="orders;unknown") == expected
    assert progress(consuming, topic="unknown") == {}


def test_topics_that_its_members_do_not_read_any_more_are_left_out(consuming: Consuming) -> None:
    consuming.make_topic("bills")
    consuming.offsets.commit("bills", "g", 0, 1)
    assert set(progress(consuming)) == {queue(0), queue(1), queue(0, "bills"), queue(1, "bills")}
    consuming.join("g", "one", {"bills": "*"})
    assert set(progress(consuming)) == {queue(0, "bills"), queue(1, "bills")}


def test_the_rate_is_that_of_the_last_minute(consuming: Consuming) -> None:
    consuming.statistics.count_get("orders", 0, "g", 30, 3000)
    for _ in range(10):
        consuming.clock.advance(ms=1000)
        consuming.statistics.sample()
    answer = consuming.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"})
    minute = consuming.statistics.minute("GROUP_GET_NUMS", "orders@g")
    assert minute is not None
    assert decode_consume_stats(answer.data).rate == minute.rate > 0


def test_how_far_all_groups_are(consuming: Consuming) -> None:
    consuming.make_topic("ordered", order=True)
    consuming.groups.read("h")
    consuming.offsets.commit("ordered", "h", 0, 0)
    answer = consuming.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    body = parse_lenient(answer.data.decode())
    assert isinstance(body, dict)
    assert (body["brokerAddr"], body["totalDiff"], body["totalInflightDiff"]) == ("127.0.0.1:10911", 2, 1)
    groups = {name: stats for group in body["consumeStatsList"] for name, stats in group.items()}
    assert len(groups["g"]) == len(groups["h"]) == 1
    ordered = parse_lenient(consuming.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "true"}).data.decode())
    assert isinstance(ordered, dict)
    groups = {name: stats for group in ordered["consumeStatsList"] for name, stats in group.items()}
    assert (len(groups["g"]), len(groups["h"])) == (0, 1)


def test_who_reads_a_topic_and_what_a_group_reads(consuming: Consuming) -> None:
    consuming.join("online", "one", {"orders": "*"})
    groups = json.loads(consuming.ask(RequestCode.QUERY_TOPIC_CONSUMERS, {"topic": "orders"}).data)
    assert groups == {"groupList": ["g", "online"]}  # and no group that is named like the topic
    topics = json.loads(consuming.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "g"}).data)
    assert topics == {"topicList": ["orders"]}
    topics = json.loads(consuming.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "online"}).data)
    assert topics == {"topicList": ["orders"]}


def test_what_a_group_wants_of_a_topic(consuming: Consuming) -> None:
    consuming.join("g", "one", {"orders": "tag1"}, version=4)
    fields = {"group": "g", "topic": "orders"}
    found = json.loads(consuming.ask(RequestCode.QUERY_SUBSCRIPTION, fields).data)
    assert (found["group"], found["topic"]) == ("g", "orders")
    assert (found["subscriptionData"]["subString"], found["subscriptionData"]["subVersion"]) == ("tag1", 4)
    nothing = consuming.ask(RequestCode.QUERY_SUBSCRIPTION, {"group": "g", "topic": "bills"})
    assert json.loads(nothing.data) == {"group": "g", "topic": "bills"}


def test_when_messages_were_stored_and_consumed(consuming: Consuming) -> None:
    answer = consuming.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"group": "g", "topic": "orders"})
    used, unused = json.loads(answer.data)["consumeTimeSpanSet"]
    assert used["messageQueue"] == {"brokerName": BROKER, "queueId": 0, "topic": "orders"}
    assert (used["minTimeStamp"], used["maxTimeStamp"]) == (BEGIN_MS, BEGIN_MS + 4000)
    assert (used["consumeTimeStamp"], used["delayTime"]) == (BEGIN_MS + 2000, 2000)
    assert used["minTimeStampStr"].endswith(":000")
    assert (unused["minTimeStamp"], unused["maxTimeStamp"], unused["delayTime"]) == (-1, -1, 0)
    unknown = consuming.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"group": "g", "topic": "unknown"})
    assert unknown.code == ResponseCode.TOPIC_NOT_EXIST


def test_the_smallest_offset_of_all_groups(consuming: Consuming) -> None:
    consuming.offsets.commit("orders", "slow", 0, 1)
    consuming.offsets.commit("orders", "fast", 0, 5)

    def correct(**fields: str) -> bytes:
        return consuming.ask(RequestCode.QUERY_CORRECTION_OFFSET, {"topic": "orders", **fields}).data

    assert correct(compareGroup="fast") == b'{"correctionOffsets":{0:1}}'
    assert correct(compareGroup="fast", filterGroups="slow,other") == b'{"correctionOffsets":{0:3}}'
    assert correct(compareGroup="slow", filterGroups="slow") == b'{"correctionOffsets":{0:9223372036854775807}}'
    assert consuming.offsets.find("orders", "slow", 0) == 1  # nobody lost anything by being left out


def test_what_a_queue_holds(consuming: Consuming) -> None:
    fields = {"topic": "orders", "queueId": 0, "index": 1, "count": 2}
    found = json.loads(consuming.ask(RequestCode.QUERY_CONSUME_QUEUE, fields).data)
    assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 5)
    assert [entry["tagsCode"] for entry in found["queueData"]] == [java_hash("tag1"), java_hash("tag0")]
    message = consuming.store.get("orders", queue=0, offset=1, limit=1)[0]
    first = found["queueData"][0]
    assert (first["physicOffset"], first["physicSize"]) == (message.position, message.size)


def test_what_a_group_wants_of_a_queue(consuming: Consuming) -> None:
    fields = {"topic": "orders", "queueId": 0, "index": 0, "count": 3, "consumerGroup": "g"}
    offline = json.loads(consuming.ask(RequestCode.QUERY_CONSUME_QUEUE, fields).data)
    assert offline["filterData"] == "g@orders is not online!"
    consuming.join("g", "one", {"orders": "tag0"})
    online = json.loads(consuming.ask(RequestCode.QUERY_CONSUME_QUEUE, fields).data)
    assert [entry["eval"] for entry in online["queueData"]] == [True, False, True]
    assert online["subscriptionData"]["subString"] == "tag0"


def test_a_queue_that_is_not_there_and_an_offset_that_is_not_there(consuming: Consuming) -> None:
    missing = consuming.ask(RequestCode.QUERY_CONSUME_QUEUE, {"topic": "orders", "queueId": 7, "index": 0, "count": 1})
    assert missing.code == ResponseCode.SYSTEM_ERROR
    beyond = consuming.ask(RequestCode.QUERY_CONSUME_QUEUE, {"topic": "orders", "queueId": 0, "index": 9, "count": 1})
    assert beyond.code == 0
    assert beyond.remark is not None
    assert "[0, 5)" in beyond.remark
