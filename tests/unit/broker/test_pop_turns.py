"""Pops and acks of one turn of the event loop are one put: all of them are stored, or none is."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.command import Command, make_request
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.topic import TIMER_TOPIC
from tests.unit.broker.brokers import until, with_broker
from tests.unit.broker.popping import GROUP, TOPIC, PopClient, popped_of

POP, ACK = RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE


async def fill(client: PopClient, count: int, **properties: str) -> None:
    for number in range(count):
        await client.send(client.topic, b"message %d" % number, **properties)


def offsets(answer: Command) -> list[int]:
    return [each.offset for each in popped_of(answer, TOPIC, GROUP)]


async def refuse_puts(broker: Broker) -> None:
    broker.store.change(reserve_bytes=2**62)
    await until(lambda: not broker.store.state().writable)


async def take_puts(broker: Broker) -> None:
    broker.store.change(reserve_bytes=0)
    await until(lambda: broker.store.state().writable)


@pytest.mark.parametrize("durability", ["async", "sync"])
def test_pops_of_one_turn_get_different_messages_and_are_stored_together(tmp_path: Path, durability: str) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 6)
        (message,) = await client.pop(maxMsgNums=1)
        puts = broker.store.state().puts.batches
        pops = [make_request(POP, client.fields(maxMsgNums=2)) for _ in range(2)]
        ack = make_request(ACK, client.ack_fields(message))
        client.tell(pops[0], ack, pops[1])
        assert [offsets(await client.answer_to(pop)) for pop in pops] == [[1, 2], [3, 4]]
        assert (await client.answer_to(ack)).code == 0
        assert broker.store.state().puts.batches == puts + 1
        assert broker.store.offsets(TIMER_TOPIC, queue=0)[1] == 4
        assert client.peer.owed == 0

    with_broker(tmp_path, work, durability=durability)


def test_what_was_popped_while_nothing_could_be_stored_is_popped_again(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 6)
        first = await client.pop(maxMsgNums=1)
        assert [each.offset for each in first] == [0]
        await refuse_puts(broker)
        pops = [make_request(POP, client.fields(maxMsgNums=2)) for _ in range(2)]
        ack = make_request(ACK, client.ack_fields(first[0]))
        client.tell(*pops, ack)
        answers = [await client.answer_to(each) for each in (*pops, ack)]
        assert {answer.code for answer in answers} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert all("reserve_bytes" in (answer.remark or "") for answer in answers)
        await take_puts(broker)
        assert [each.offset for each in await client.pop(maxMsgNums=3)] == [1, 2, 3]
        assert [each.offset for each in await client.pop()] == [4, 5]

    with_broker(tmp_path, work)


def test_what_was_passed_over_behind_a_pop_that_failed_is_looked_at_again(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 2, TAGS="a")
        await fill(client, 2, TAGS="b")
        await refuse_puts(broker)
        pops = [make_request(POP, client.fields(exp="a")) for _ in range(2)]
        client.tell(*pops)  # the second one finds nothing, and passes over the others
        codes = [(await client.answer_to(pop)).code for pop in pops]
        assert codes == [ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.POLLING_TIMEOUT]
        await take_puts(broker)
        assert [each.offset for each in await client.pop()] == [0, 1, 2, 3]

    with_broker(tmp_path, work)


def test_messages_of_a_pop_that_failed_do_not_count_as_open(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 4)
        await refuse_puts(broker)
        assert (await client.ask(POP, client.fields(maxMsgNums=2))).code == ResponseCode.SERVICE_NOT_AVAILABLE
        await take_puts(broker)
        assert len(await client.pop(maxMsgNums=2)) == 2
        assert await client.pop(maxMsgNums=2) == []

    with_broker(tmp_path, work, settings=BrokerSettings(limits_popped=True, max_popped=2))


def test_what_a_turn_brought_before_the_broker_stops_is_stored_and_answered(tmp_path: Path) -> None:
    told: list[PopClient] = []

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await fill(client, 3)
        client.tell(make_request(POP, client.fields()))
        told.append(client)

    with_broker(tmp_path, work)
    assert offsets(told[0].peer.sent[-1]) == [0, 1, 2]
