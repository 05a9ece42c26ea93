"""Messages that are given back: delivered again after a delay, with their identity, or as dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.command import Command
from embermq.model.codes import ResponseCode
from embermq.model.group import GroupConfig
from embermq.model.message import StoredMessage
from tests.builders import ManualClock
from tests.unit.broker.brokers import Client, send_fields, until, with_broker

LEVELS = {"delay_levels": "1s 1s 1s 1s 1s"}


def all_of(broker: Broker, topic: str) -> list[StoredMessage]:
    return list(broker.store.get(topic, queue=0, offset=0, limit=100)) if broker.topics.find(topic) else []


async def give_back(client: Client, message: StoredMessage, **fields: str) -> Command:
    values = {"offset": str(message.position), "group": "billing", "delayLevel": "0", "originTopic": "orders", **fields}
    return await client.ask(36, values)


async def a_sent_message(client: Client) -> StoredMessage:
    answer = await client.send(body=b"x", TAGS="t", KEYS="k1 k2", UNIQ_KEY="ID", mine="kept")
    message = client.broker.store.find(answer.fields["msgId"])
    assert message is not None
    return message


def test_a_message_is_retried_with_its_identity_until_it_is_dead(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        message = original = await a_sent_message(client)
        for times in (1, 2):
            assert (await give_back(client, message, maxReconsumeTimes="2")).code == 0
            clock.advance(ms=1_000)
            await until(lambda times=times: len(all_of(broker, "%RETRY%billing")) == times)
            message = all_of(broker, "%RETRY%billing")[-1]
            assert message.reconsume_times == times
            assert message.properties["RETRY_TOPIC"] == "orders"
            assert message.properties["ORIGIN_MESSAGE_ID"] == original.message_id
        assert (await give_back(client, message, maxReconsumeTimes="2")).code == 0
        await until(lambda: all_of(broker, "%DLQ%billing"))
        (dead,) = all_of(broker, "%DLQ%billing")
        assert dead.reconsume_times == 3
        for copy in (message, dead):
            assert (copy.body, copy.tags, copy.keys, copy.born_time) == (b"x", "t", ("k1", "k2"), original.born_time)
            assert {"UNIQ_KEY": "ID", "mine": "kept"}.items() <= copy.properties.items()

    with_broker(tmp_path / "store", work, clock=clock, **LEVELS)


@pytest.mark.parametrize(("fields", "delay"), [({}, "3"), ({"delayLevel": "2"}, "2"), ({"delayLevel": "99"}, "5")])
def test_the_level_is_the_clients_or_grows_with_the_times(tmp_path: Path, fields: dict[str, str], delay: str) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await give_back(client, await a_sent_message(client), **fields)
        (parked,) = broker.store.get("SCHEDULE_TOPIC_XXXX", queue=int(delay) - 1, offset=0)
        assert (parked.properties["DELAY"], parked.properties["REAL_TOPIC"]) == (delay, "%RETRY%billing")

    with_broker(tmp_path / "store", work, **LEVELS)


def test_a_negative_level_means_dead_at_once(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await give_back(client, await a_sent_message(client), delayLevel="-1")
        await until(lambda: all_of(broker, "%DLQ%billing"))

    with_broker(tmp_path / "store", work, **LEVELS)


def test_the_limit_of_the_group_counts_when_the_client_gives_none(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        broker.groups.save(GroupConfig("billing", max_retries=0))
        await give_back(client, await a_sent_message(client))
        await until(lambda: all_of(broker, "%DLQ%billing"))

    with_broker(tmp_path / "store", work, **LEVELS)


def test_a_group_without_retry_queues_keeps_nothing(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        broker.groups.save(GroupConfig("billing", retry_queues=0))
        assert (await give_back(client, await a_sent_message(client))).code == 0
        assert broker.topics.find("%RETRY%billing") is None

    with_broker(tmp_path / "store", work, **LEVELS)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"offset": "1"}, ResponseCode.QUERY_NOT_FOUND),
        ({"offset": "999999999"}, ResponseCode.QUERY_NOT_FOUND),
        ({"offset": "-1"}, ResponseCode.QUERY_NOT_FOUND),
        ({"offset": ""}, ResponseCode.INVALID_PARAMETER),
        ({"group": "a b"}, ResponseCode.INVALID_PARAMETER),
        ({"originTopic": "another"}, ResponseCode.QUERY_NOT_FOUND),
    ],
)
def test_only_a_message_that_is_there_can_be_given_back(tmp_path: Path, fields: dict[str, str], code: int) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        answer = await give_back(client, await a_sent_message(client), **fields)
        assert answer.code == code and answer.remark

    with_broker(tmp_path / "store", work, **LEVELS)


def test_an_unknown_group_is_refused_where_groups_are_not_made(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        assert (await give_back(client, await a_sent_message(client))).code == ResponseCode.GROUP_NOT_EXIST

    with_broker(tmp_path / "store", work, settings=BrokerSettings(auto_create_groups=False))


def test_a_message_sent_to_a_retry_topic_too_often_is_a_dead_letter(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        fields = {**send_fields("%RETRY%billing", DELAY="3", UNIQ_KEY="I"), "j": "3", "l": "2"}
        assert (await client.ask(310, fields, b"x")).code == 0
        (dead,) = all_of(broker, "%DLQ%billing")
        assert (dead.reconsume_times, dead.properties["DELAY"]) == (3, "-1")
        assert (await client.ask(310, {**fields, "j": "2"}, b"y")).code == 0
        clock.advance(ms=1_000)
        await until(lambda: [each.body for each in all_of(broker, "%RETRY%billing")] == [b"y"])

    with_broker(tmp_path / "store", work, clock=clock, **LEVELS)


@pytest.mark.parametrize(
    ("topic", "group"),
    [
        ("%RETRY%my_team_my_orders", "my_team"),  # of what it popped
        ("%RETRY%my_team", "my_team"),
        ("%RETRY%my_team_elsewhere", "my_team_elsewhere"),  # no such topic
        ("%RETRY%other_my_orders", "other_my_orders"),  # no such group
    ],
)
def test_a_retry_topic_belongs_to_a_group_that_there_is(tmp_path: Path, topic: str, group: str) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        broker.groups.save(GroupConfig("my_team"))
        broker.topics.ensure("my_orders")
        too_often = {**send_fields(topic, UNIQ_KEY="I"), "j": "3", "l": "2"}
        assert (await client.ask(310, too_often, b"x")).code == 0
        assert [each.body for each in all_of(broker, f"%DLQ%{group}")] == [b"x"]
        assert {name for name in broker.groups.table().groups if "_" in name and name.islower()} == {"my_team", group}

    with_broker(tmp_path / "store", work)
