"""Requests about offsets: of groups and of queues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq import Message
from embermq.format.lenient_json import parse_lenient
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.group import GroupConfig
from tests.unit.broker.consuming import Consuming, a_consuming
from tests.unit.broker.peers import SteppedClock

QUEUE = {"topic": "orders", "queueId": 0}
GROUP = {**QUEUE, "consumerGroup": "g"}


@pytest.fixture
def consuming(tmp_path: Path) -> Iterator[Consuming]:
    with a_consuming(tmp_path / "s") as consuming:
        consuming.make_topic("orders")
        consuming.groups.save(GroupConfig("g"))
        yield consuming


def put(consuming: Consuming, count: int, *, topic: str = "orders", size: int = 10) -> None:
    """Messages in queue 0, each a second younger than the one before."""
    for _ in range(count):
        consuming.store.put(Message(topic, bytes(size), queue=0))
        consuming.clock.advance(ms=1000)


def test_a_committed_offset_is_what_the_group_gets(consuming: Consuming) -> None:
    assert consuming.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**GROUP, "commitOffset": 7}).code == 0
    answer = consuming.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP)
    assert (answer.code, answer.fields) == (0, {"offset": "7"})


def test_a_group_without_an_offset_is_told_so(consuming: Consuming) -> None:
    answer = consuming.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP)
    assert (answer.code, answer.fields) == (ResponseCode.QUERY_NOT_FOUND, {})


def test_a_new_group_reads_a_young_queue_from_its_start(consuming: Consuming) -> None:
    put(consuming, 3)
    assert consuming.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP).fields == {"offset": "0"}
    refused = consuming.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**GROUP, "setZeroIfNotFound": "false"})
    assert refused.code == ResponseCode.QUERY_NOT_FOUND
    other = consuming.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**GROUP, "queueId": 1})
    assert other.code == ResponseCode.QUERY_NOT_FOUND  # nothing was sent to this one yet


def test_a_new_group_starts_where_it_wants_once_the_first_message_is_far_behind(consuming: Consuming) -> None:
    consuming.young_bytes = 5_000
    put(consuming, 1)
    put(consuming, 3, topic="bills", size=1_000)
    assert consuming.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP).code == 0
    put(consuming, 3, topic="bills", size=1_000)
    assert consuming.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP).code == ResponseCode.QUERY_NOT_FOUND


def test_a_new_group_starts_where_it_wants_once_the_first_message_has_expired(tmp_path: Path) -> None:
    with a_consuming(tmp_path / "s") as consuming:
        consuming.make_topic("orders")
        put(consuming, 200, size=2_000)
        consuming.clock.advance(hours=100)
        assert consuming.store.clean() > 0
        assert consuming.store.offsets("orders", queue=0)[0] > 0
        assert consuming.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP).code == ResponseCode.QUERY_NOT_FOUND


def test_a_negative_commit_is_taken_for_nothing(consuming: Consuming) -> None:
    assert consuming.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**GROUP, "commitOffset": -1}).code == 0
    assert consuming.offsets.find("orders", "g", 0) is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"consumerGroup": "unknown"}, ResponseCode.GROUP_NOT_EXIST),
        ({"topic": "unknown"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"commitOffset": ""}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": "seven"}, ResponseCode.INVALID_PARAMETER),
        ({"commitOffset": 2**63}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": ""}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": -1}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": 2**31}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_a_commit_that_makes_no_sense_is_refused(
    consuming: Consuming, change: dict[str, object], code: ResponseCode
) -> None:
    answer = consuming.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**GROUP, "commitOffset": 7, **change})
    assert answer.code == code
    assert consuming.offsets.table().offsets == {}
    assert consuming.groups.find("unknown") is None


def test_a_queue_that_the_topic_has_no_more_can_be_committed_to_its_end(consuming: Consuming) -> None:
    consuming.offsets.commit("orders", "g", 1, 7)
    consuming.make_topic("orders", queues=1)
    assert consuming.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**GROUP, "queueId": 1, "commitOffset": 8}).code == 0
    assert consuming.offsets.find("orders", "g", 1) == 8


def test_a_commit_of_before_a_reset_is_answered_but_counts_for_nothing(consuming: Consuming) -> None:
    consuming.offsets.reset("orders", "g", 0, 2)
    answer = consuming.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**GROUP, "commitOffset": 7})
    assert (answer.code, answer.remark) == (0, "Offset has been previously reset")
    assert consuming.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP).fields == {"offset": "2"}


def test_the_first_and_the_next_offset_of_a_queue(consuming: Consuming) -> None:
    assert consuming.ask(RequestCode.GET_MAX_OFFSET, QUEUE).fields == {"offset": "0"}
    put(consuming, 5)
    assert consuming.ask(RequestCode.GET_MAX_OFFSET, QUEUE).fields == {"offset": "5"}
    assert consuming.ask(RequestCode.GET_MIN_OFFSET, QUEUE).fields == {"offset": "0"}
    assert consuming.ask(RequestCode.GET_MAX_OFFSET, {**QUEUE, "topic": "unknown"}).fields == {"offset": "0"}


def test_offsets_by_time(consuming: Consuming) -> None:
    begin = consuming.clock.now_ms()
    put(consuming, 5)

    def search(time_ms: int, boundary: str | None = None) -> str:
        fields = {**QUEUE, "timestamp": time_ms, **({"boundaryType": boundary} if boundary else {})}
        return consuming.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, fields).fields["offset"]

    assert [search(begin - 1), search(begin), search(begin + 1500), search(begin + 9000)] == ["0", "0", "2", "5"]
    assert [search(begin + 1500, "LOWER"), search(begin + 1500, "upper")] == ["2", "1"]
    assert [search(begin + 9000, "UPPER"), search(begin - 1, "UPPER")] == ["4", "0"]
    assert [search(2**63 - 1), search(-1), search(0)] == ["5", "5", "0"]


def test_the_time_of_the_first_message(consuming: Consuming) -> None:
    assert consuming.ask(RequestCode.GET_EARLIEST_STORE_TIME, QUEUE).fields == {"timestamp": "-1"}
    begin = consuming.clock.now_ms()
    put(consuming, 2)
    assert consuming.ask(RequestCode.GET_EARLIEST_STORE_TIME, QUEUE).fields == {"timestamp": str(begin)}


def test_all_offsets_for_a_copy_of_the_broker(consuming: Consuming) -> None:
    consuming.offsets.commit("orders", "g", 0, 7)
    consuming.offsets.commit("orders", "g", 1, 8)
    body = consuming.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).data
    assert body.endswith(b'"groupTopicMap":{"g":["orders"]},"offsetTable":{"orders@g":{0:7,1:8}}}')
    assert parse_lenient(body.decode())


def test_the_progress_of_delays_for_a_copy_of_the_broker(consuming: Consuming) -> None:
    body = consuming.ask(RequestCode.GET_ALL_DELAY_OFFSET).data
    assert body == b'{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":2},"offsetTable":{1:5}}'


def test_a_group_is_given_the_offsets_of_another(consuming: Consuming) -> None:
    consuming.make_topic("bills")
    for topic in ("orders", "bills", "deleted"):
        consuming.offsets.commit(topic, "g", 0, 7)
    fields = {"srcGroup": "g", "destGroup": "h", "topic": "orders", "offline": "true"}
    assert consuming.ask(RequestCode.CLONE_GROUP_OFFSET, fields).code == 0
    assert consuming.offsets.topics_of("h") == {"orders"}
    consuming.ask(RequestCode.CLONE_GROUP_OFFSET, {"srcGroup": "g", "destGroup": "i"})
    assert consuming.offsets.topics_of("i") == {"orders", "bills"}


def test_what_a_group_on_line_does_not_read_is_cloned_only_as_if_it_were_off_line(consuming: Consuming) -> None:
    consuming.offsets.commit("orders", "g", 0, 7)
    consuming.join("g", "one", {"bills": "*"})
    fields = {"srcGroup": "g", "destGroup": "h", "topic": "orders"}
    consuming.ask(RequestCode.CLONE_GROUP_OFFSET, {**fields, "offline": "false"})
    assert consuming.offsets.topics_of("h") == set()
    consuming.ask(RequestCode.CLONE_GROUP_OFFSET, {**fields, "offline": "true"})
    assert consuming.offsets.topics_of("h") == {"orders"}


def test_offsets_and_groups_survive_a_restart(tmp_path: Path) -> None:
    clock = SteppedClock()
    with a_consuming(tmp_path / "s", clock) as consuming:
        consuming.make_topic("orders")
        consuming.join("g", "one")
        consuming.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**GROUP, "commitOffset": 7})
    with a_consuming(tmp_path / "s", clock) as again:
        assert again.ask(RequestCode.QUERY_CONSUMER_OFFSET, GROUP).fields == {"offset": "7"}
        assert again.groups.find("g") == GroupConfig("g")
        assert again.topics.find("%RETRY%g") is not None
    saved = json.loads((tmp_path / "s/config/subscriptionGroup.json").read_text())
    assert "g" in saved["subscriptionGroupTable"]
