"""Topics: made, changed, deleted, listed, and what their queues hold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from embermq import Message
from embermq.format.assignment_body import RequestMode
from embermq.format.cluster_body import decode_topic_list
from embermq.format.mapping_json import MappingTable
from embermq.format.topic_body import (
    QueueStats,
    TopicStats,
    decode_topic,
    decode_topic_stats,
    decode_topic_table,
    encode_topic,
    encode_topic_configs,
    encode_topic_stats,
    encode_topic_table,
)
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.topic import SYSTEM_TOPICS, TopicConfig
from embermq.model.version import DataVersion
from tests.unit.broker.administering import Administering, an_administering
from tests.unit.broker.golden_wire import exchanges

UPDATE = RequestCode.UPDATE_AND_CREATE_TOPIC
DELETE = RequestCode.DELETE_TOPIC_IN_BROKER


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Administering]:
    with an_administering(tmp_path) as broker:
        yield broker


def update_fields(name: str = "orders", **fields: object) -> dict[str, object]:
    return {
        "topic": name,
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
        **fields,
    }


@pytest.mark.parametrize("name", ["mqadmin-updateTopic", "mqadmin-updateTopic-broker", "mqadmin-updateTopicPerm"])
def test_what_mqadmin_sends_makes_the_topic(broker: Administering, name: str) -> None:
    ((request, golden),) = exchanges(name, UPDATE)
    assert broker.answer(request).code == golden.code == 0
    made = broker.topics.read(request.fields["topic"])
    assert str(made.read_queues) == request.fields["readQueueNums"]
    assert str(made.write_queues) == request.fields["writeQueueNums"]
    assert str(int(made.permission)) == request.fields["perm"]
    assert made.order == (request.fields["order"] == "true")
    assert ",".join(f"+{key}={value}" for key, value in made.attributes.items()) == request.fields["attributes"]


def test_a_topic_is_changed_and_the_name_servers_are_told(broker: Administering) -> None:
    told: list[Sequence[TopicConfig]] = []
    broker.topics.listeners.append(told.append)
    assert broker.ask(UPDATE, update_fields()).code == 0
    assert broker.ask(UPDATE, update_fields(readQueueNums=8, writeQueueNums=8, order="true", topicSysFlag=1)).code == 0
    changed = broker.topics.read("orders")
    assert changed == TopicConfig("orders", read_queues=8, write_queues=8, order=True, sys_flag=1)
    assert [[config.write_queues for config in configs] for configs in told] == [[4], [8]]


def test_what_is_the_same_is_not_written_again(broker: Administering) -> None:
    broker.ask(UPDATE, update_fields())
    version = broker.topics.table().version
    assert broker.ask(UPDATE, update_fields()).code == 0
    assert broker.topics.table().version == version


@pytest.mark.parametrize(
    "name",
    ["TBW102", "SCHEDULE_TOPIC_XXXX", "rmq_sys_anything", "broker-a", "DefaultCluster", "DefaultCluster_REPLY_TOPIC"],
)
def test_system_topics_are_neither_made_nor_deleted(broker: Administering, name: str) -> None:
    broker.topics.make_system_topics()
    before = broker.topics.table()
    for answer in (broker.ask(UPDATE, update_fields(name)), broker.ask(DELETE, {"topic": name})):
        assert answer.code == ResponseCode.INVALID_PARAMETER
        assert "belongs to the system" in (answer.remark or "")
    assert broker.topics.table() is before


@pytest.mark.parametrize("name", ["../../etc", "a b", "a/b", "ö", "x" * 128, ".", "a\0b"])
@pytest.mark.parametrize("code", [UPDATE, DELETE])
def test_a_name_that_cannot_be_is_refused_before_anything_else(
    broker: Administering, tmp_path: Path, name: str, code: RequestCode
) -> None:
    before = broker.topics.table()
    answer = broker.ask(code, {**update_fields(name), "perm": "nonsense"})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "illegal topic" in (answer.remark or "")
    assert broker.topics.table() is before
    assert not (tmp_path / "consumequeue").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("readQueueNums", "-1"),
        ("readQueueNums", "many"),
        ("writeQueueNums", "65537"),
        ("writeQueueNums", ""),
        ("perm", "8"),
        ("perm", "-1"),
        ("topicFilterType", "BOTH"),
    ],
)
def test_numbers_that_cannot_be(broker: Administering, field: str, value: str) -> None:
    answer = broker.ask(UPDATE, update_fields(**{field: value}))
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert field in (answer.remark or "")
    assert broker.topics.find("orders") is None


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ("queue.type=BatchCQ", "+name=value sets one"),
        ("+queue.type", "+name=value sets one"),
        ("+queue.type=Other", "is none of SimpleCQ, BatchCQ"),
        ("+no.such=1", "there is no such attribute"),
        ("+reserve.time=long", "is no number"),
        ("+reserve.time=-2", "is no number"),
        ("-message.type", "it is not set"),
        ("+message.type=FIFO,+message.type=DELAY", "it is there twice"),
        ("+message.type=FIFO,-message.type", "set and taken away"),
    ],
)
def test_attributes_that_cannot_be(broker: Administering, attributes: str, reason: str) -> None:
    answer = broker.ask(UPDATE, update_fields(attributes=attributes))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert reason in (answer.remark or "")
    assert broker.topics.find("orders") is None


def test_attributes_are_set_changed_and_taken_away(broker: Administering) -> None:
    def attributes_after(text: str) -> dict[str, str]:
        answer = broker.ask(UPDATE, update_fields(attributes=text))
        assert answer.code == 0, answer.remark
        return dict(broker.topics.read("orders").attributes)

    assert attributes_after("+queue.type=BatchCQ,+message.type=NORMAL") == {
        "queue.type": "BatchCQ",
        "message.type": "NORMAL",
    }
    assert attributes_after("") == {"queue.type": "BatchCQ", "message.type": "NORMAL"}
    assert attributes_after("+message.type=FIFO")["message.type"] == "FIFO"
    assert attributes_after("-message.type") == {"queue.type": "BatchCQ"}
    assert attributes_after("+queue.type=BatchCQ") == {"queue.type": "BatchCQ"}
    assert attributes_after("+reserve.time=3600")["reserve.time"] == "3600"
    assert attributes_after("+reserve.time=-1")["reserve.time"] == "-1"


@pytest.mark.parametrize("change", ["+queue.type=SimpleCQ", "-queue.type", "+cleanup.policy=COMPACTION"])
def test_some_attributes_are_fixed(broker: Administering, change: str) -> None:
    broker.ask(UPDATE, update_fields(attributes="+queue.type=BatchCQ"))
    answer = broker.ask(UPDATE, update_fields(attributes=change))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "fixed when the topic is made" in (answer.remark or "")


def test_a_topic_of_mixed_messages_is_refused(broker: Administering) -> None:
    answer = broker.ask(UPDATE, update_fields(attributes="+message.type=MIXED"))
    assert answer.code == ResponseCode.INVALID_PARAMETER


def test_many_topics_at_once(broker: Administering) -> None:
    topics = [TopicConfig(f"t{number}", attributes={"+message.type": "FIFO"}) for number in range(3)]
    assert broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=encode_topic_configs(topics)).code == 0
    assert [broker.topics.read(f"t{number}").attributes["message.type"] for number in range(3)] == ["FIFO"] * 3


@pytest.mark.parametrize("bad", [TopicConfig("a b"), TopicConfig("TBW102"), TopicConfig("x", permission=9)])
def test_many_topics_are_made_together_or_not_at_all(broker: Administering, bad: TopicConfig) -> None:
    body = encode_topic_configs([TopicConfig("good"), bad])
    assert broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body).code == ResponseCode.INVALID_PARAMETER
    assert broker.topics.find("good") is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"topicConfigList":[1]}', b"\xff"])
def test_a_body_that_is_no_list_of_topics(broker: Administering, body: bytes) -> None:
    answer = broker.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, body=body)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "body" in (answer.remark or "")


@pytest.mark.parametrize("name", ["mqadmin-topicStatus", "mqadmin-statsAll", "mqadmin-consumerProgress-all"])
def test_a_topic_is_shown_as_rocketmq_shows_it(broker: Administering, name: str) -> None:
    for request, golden in exchanges(name, RequestCode.GET_TOPIC_CONFIG):
        broker.topics.save(decode_topic(golden.data))
        answer = broker.answer(request)
        assert (answer.code, answer.data) == (golden.code, golden.data)
        assert encode_topic(decode_topic(golden.data)) == golden.data


@pytest.mark.parametrize("code", [RequestCode.GET_TOPIC_CONFIG, RequestCode.GET_TOPIC_STATS])
def test_a_topic_that_is_missing_is_told_with_the_nearest(broker: Administering, code: RequestCode) -> None:
    broker.make_topic("orders")
    answer = broker.ask(code, {"topic": "order"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "the nearest name is 'orders'" in (answer.remark or "")


def test_what_queues_hold_is_written_as_rocketmq_writes_it() -> None:
    ((_, golden),) = exchanges("mqadmin-topicStatus", RequestCode.GET_TOPIC_STATS)
    stats = decode_topic_stats(golden.data)
    assert len(stats.queues) == 2
    assert encode_topic_stats(stats) == golden.data


def test_what_queues_hold(broker: Administering) -> None:
    broker.topics.save(TopicConfig("orders", read_queues=3, write_queues=2))
    broker.store.put_many([Message("orders", b"x", queue=0)] * 5)
    first = broker.clock.now_ms()
    broker.clock.advance(ms=700)
    broker.store.put(Message("orders", b"x", queue=1))
    broker.statistics.count_put("orders", 0, 6, 600)
    for _ in range(10):
        broker.clock.advance(ms=1000)
        broker.statistics.sample()
    answer = broker.ask(RequestCode.GET_TOPIC_STATS, {"topic": "orders"})
    assert decode_topic_stats(answer.data) == TopicStats(
        {
            BrokerQueue("broker-a", "orders", 0): QueueStats(0, 5, first),
            BrokerQueue("broker-a", "orders", 1): QueueStats(0, 1, first + 700),
            BrokerQueue("broker-a", "orders", 2): QueueStats(0, 0, 0),
        },
        0.6,
    )


def test_all_topics_are_listed_as_rocketmq_lists_them() -> None:
    for _, golden in exchanges("slave-sync", RequestCode.GET_ALL_TOPIC_CONFIG):
        table = decode_topic_table(golden.data)
        mapping = json.loads(golden.data)["mappingDataVersion"]
        version = DataVersion(mapping["stateVersion"], mapping["counter"], mapping["timestamp"])
        static = MappingTable(version, {})
        assert encode_topic_table(table.version, table.topics.values(), static) == golden.data


def test_without_pages_everything_comes_at_once(broker: Administering) -> None:
    broker.topics.make_system_topics()
    answer = broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    assert decode_topic_table(answer.data) == broker.topics.table()
    assert answer.fields == {}


def test_pages_follow_the_alphabet(broker: Administering) -> None:
    names = [f"topic-{number:02}" for number in range(25)]
    broker.topics.save(*map(TopicConfig, reversed(names)))
    version = broker.topics.table().version
    told = {"counter": version.counter, "stateVersion": version.state_version, "timestamp": version.timestamp}
    found: list[str] = []
    while len(found) < 25:
        fields = {"topicSeq": len(found), "maxTopicNum": 10, "dataVersion": json.dumps(told)}
        answer = broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG, fields)
        assert answer.fields["totalTopicNum"] == "25"
        page = list(decode_topic_table(answer.data).topics)
        assert 0 < len(page) <= 10
        found += page
    assert found == names


def test_a_changed_table_is_read_from_its_beginning(broker: Administering) -> None:
    broker.topics.save(TopicConfig("a"), TopicConfig("b"))
    old = json.dumps({"counter": 0, "stateVersion": 0, "timestamp": 0})
    answer = broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG, {"topicSeq": 1, "maxTopicNum": 1, "dataVersion": old})
    assert list(decode_topic_table(answer.data).topics) == ["a"]


@pytest.mark.parametrize("fields", [{"topicSeq": "x"}, {"topicSeq": "1", "dataVersion": "{"}])
def test_nonsense_in_the_fields_of_a_page(broker: Administering, fields: dict[str, str]) -> None:
    assert broker.ask(RequestCode.GET_ALL_TOPIC_CONFIG, fields).code == ResponseCode.INVALID_PARAMETER


def test_system_topics_are_listed(broker: Administering) -> None:
    answer = broker.ask(RequestCode.GET_SYSTEM_TOPICS_FROM_BROKER)
    assert set(decode_topic_list(answer.data)) == SYSTEM_TOPICS | broker.topics.system_names()


def test_a_deleted_topic_is_gone_with_all_that_was_known_of_it(broker: Administering) -> None:
    for name in ("orders", "others", "%RETRY%billing_orders", "%RETRY%billing"):
        broker.make_topic(name)
        broker.store.put(Message(name, b"x", queue=0))
        broker.offsets.commit(name, "billing", 0, 1)
        broker.statistics.count_put(name, 0, 1, 1)
    broker.modes.set(RequestMode("orders", "billing", "POP"))
    assert broker.ask(DELETE, {"topic": "orders"}).code == 0
    left = {"others", "%RETRY%billing"}
    assert set(broker.store.topics()) == left
    assert {name for name in ("orders", *left) if broker.store.queues(name)} == left
    assert broker.offsets.topics_of("billing") == left
    assert broker.statistics.minute("TOPIC_PUT_NUMS", "orders") is None
    assert broker.statistics.minute("TOPIC_PUT_NUMS", "others") is not None
    assert broker.modes.find("orders", "billing") is None


def test_what_mqadmin_deletes_may_be_gone_already(broker: Administering) -> None:
    for recording in ("mqadmin-deleteTopic", "mqadmin-deleteSubGroup"):
        for request, golden in exchanges(recording, DELETE):
            assert broker.answer(request).code == golden.code == 0
