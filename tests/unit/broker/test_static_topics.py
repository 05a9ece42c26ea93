"""Static topics: requests for their queues reach the queues that these are made of, here or at another broker."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.command import Command
from embermq.format.mapping_json import encode_mapping
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.queue_mapping import QueueMapping, QueuePart
from embermq.store.queue_mappings import MAPPINGS_FILE
from tests.unit.broker.brokers import Client, bodies, open_broker, with_broker

TOPIC = "orders"


def mapping(broker: str, *parts: QueuePart, epoch: int = 1) -> QueueMapping:
    """Static queue 7, and 8 which lies in queue 1 of broker-a."""
    return QueueMapping(TOPIC, broker, epoch, 9, {7: parts, 8: (QueuePart("broker-a", 1),)})


async def set_mapping(client: Client, wanted: QueueMapping) -> Command:
    fields = {
        "topic": TOPIC, "defaultTopic": "TBW102", "readQueueNums": "2", "writeQueueNums": "2", "perm": "6",
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    }  # fmt: skip
    return await client.ask(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, fields, encode_mapping(wanted))


@contextlib.asynccontextmanager
async def two_brokers(path: Path) -> AsyncIterator[tuple[Client, Client]]:
    """A client of each of two brokers, which can ask each other."""
    async with (
        open_broker(path / "a", settings=BrokerSettings(name="broker-a")) as first,
        open_broker(path / "b", settings=BrokerSettings(name="broker-b")) as second,
    ):
        clients = {"broker-a": Client(first), "broker-b": Client(second)}

        async def forward(topic: str, broker: str, request: Command) -> Command:
            assert topic == TOPIC
            return await clients[broker].ask(request.code, dict(request.fields), request.data)

        first.static_topics.forward = second.static_topics.forward = forward
        yield clients["broker-a"], clients["broker-b"]


async def offset_of(client: Client, code: int, queue: int, **fields: str) -> int:
    answer = await client.ask(code, {"topic": TOPIC, "queueId": str(queue), **fields})
    assert answer.code == 0, answer
    return int(answer.fields["offset"])


async def pulled(client: Client, offset: int, *, queue: int = 7) -> tuple[list[bytes], int]:
    """The bodies that a pull gives, and where it is to go on."""
    answer = await client.pull(TOPIC, offset, queue=queue)
    return bodies(answer), int(answer.fields["nextBeginOffset"])


async def move(first: Client, second: Client) -> None:
    """Static queue 7, with three messages in queue 0 of broker-a, goes on in queue 1 of broker-b at offset 10."""
    parts = (QueuePart("broker-a", 0, end=3), QueuePart("broker-b", 1, generation=1, static_begin=10))
    for client, broker in ((first, "broker-a"), (second, "broker-b")):
        assert (await set_mapping(client, mapping(broker, *parts, epoch=2))).code == 0


def test_a_static_queue_lies_in_another(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        assert (await set_mapping(client, mapping("broker-a", QueuePart("broker-a", 0)))).code == 0
        sent = [await client.send(TOPIC, b"%d" % number, queue=8, UNIQ_KEY="k") for number in range(3)]
        assert {each.fields["queueId"] for each in sent} == {"8"}
        assert [each.fields["queueOffset"] for each in sent] == ["0", "1", "2"]
        assert broker.store.offsets(TOPIC, queue=1) == (0, 3)
        assert await pulled(client, 0, queue=8) == ([b"0", b"1", b"2"], 3)
        assert await offset_of(client, RequestCode.GET_MAX_OFFSET, 8) == 3
        assert await offset_of(client, RequestCode.GET_MAX_OFFSET, 1, lo="false") == 3
        refused = await client.send(TOPIC, b"x", queue=0)
        assert refused.code == ResponseCode.NOT_LEADER_FOR_QUEUE and "route" in (refused.remark or "")

    with_broker(tmp_path, work, settings=BrokerSettings(name="broker-a"))


def test_a_queue_goes_on_at_another_broker(tmp_path: Path) -> None:
    async def work() -> None:
        async with two_brokers(tmp_path) as (first, second):
            await set_mapping(first, mapping("broker-a", QueuePart("broker-a", 0)))
            for number in range(3):
                await first.send(TOPIC, b"%d" % number, queue=7)
            await move(first, second)
            assert (await first.send(TOPIC, b"x", queue=7)).code == ResponseCode.NOT_LEADER_FOR_QUEUE
            sent = await second.send(TOPIC, b"3", queue=7)
            assert (sent.fields["queueId"], sent.fields["queueOffset"]) == ("7", "10")
            assert await pulled(second, 1) == ([b"1", b"2"], 3)
            assert await pulled(second, 3) == ([b"3"], 11)
            assert await offset_of(second, RequestCode.GET_MIN_OFFSET, 7) == 0
            assert await offset_of(second, RequestCode.GET_MAX_OFFSET, 7) == 11
            assert await offset_of(second, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, 7, timestamp="0") == 0

    asyncio.run(work())


def test_a_group_keeps_its_offset_when_a_queue_moves(tmp_path: Path) -> None:
    async def work() -> None:
        async with two_brokers(tmp_path) as (first, second):
            for client in (first, second):
                client.broker.groups.read("billing")
            await set_mapping(first, mapping("broker-a", QueuePart("broker-a", 0)))
            for number in range(3):
                await first.send(TOPIC, b"%d" % number, queue=7)
            await commit(first, 2)
            await move(first, second)
            assert await offset_of(second, RequestCode.QUERY_CONSUMER_OFFSET, 7, consumerGroup="billing") == 2
            await commit(second, 3)  # at the end of the first part, which another broker has
            assert first.broker.offsets.find(TOPIC, "billing", 0) == 3
            await commit(second, 10)
            assert second.broker.offsets.find(TOPIC, "billing", 1) == 0
            assert await offset_of(second, RequestCode.QUERY_CONSUMER_OFFSET, 7, consumerGroup="billing") == 10

    asyncio.run(work())


async def commit(client: Client, offset: int) -> None:
    fields = {"consumerGroup": "billing", "topic": TOPIC, "queueId": "7", "commitOffset": str(offset)}
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == 0


def test_a_part_that_nobody_can_reach_is_an_error_and_not_an_end(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        parts = (QueuePart("broker-z", 0, end=3), QueuePart("broker-a", 0, generation=1, static_begin=10))
        await set_mapping(client, mapping("broker-a", *parts))
        answer = await client.pull(TOPIC, 0, queue=7)
        assert answer.code == ResponseCode.SYSTEM_ERROR and "broker-z" in (answer.remark or "")
        assert (await client.pull(TOPIC, 10, queue=7)).code == ResponseCode.PULL_NOT_FOUND

    with_broker(tmp_path, work, settings=BrokerSettings(name="broker-a"))


def test_static_topics_outlive_a_restart_and_go_with_their_topic(tmp_path: Path) -> None:
    async def make(broker: Broker) -> None:
        await set_mapping(Client(broker), mapping("broker-a", QueuePart("broker-a", 0)))

    async def delete(broker: Broker) -> None:
        client = Client(broker)
        assert broker.topics.is_static(TOPIC)
        shown = await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": TOPIC, "lo": "true"})
        assert b'"hostedQueues":{7:[{"bname":"broker-a"' in shown.data
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})
        assert not broker.topics.is_static(TOPIC)

    settings = BrokerSettings(name="broker-a")
    with_broker(tmp_path, make, settings=settings)
    assert (tmp_path / "config" / MAPPINGS_FILE).exists()
    with_broker(tmp_path, delete, settings=settings)


def test_mappings_of_other_brokers_and_older_ones_are_refused(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        assert (await set_mapping(client, mapping("broker-z", QueuePart("broker-a", 0)))).code == 29
        await set_mapping(client, mapping("broker-a", QueuePart("broker-a", 0), epoch=5))
        older = await set_mapping(client, mapping("broker-a", QueuePart("broker-a", 0), epoch=4))
        assert older.code == 29 and "epoch" in (older.remark or "")

    with_broker(tmp_path, work, settings=BrokerSettings(name="broker-a"))
