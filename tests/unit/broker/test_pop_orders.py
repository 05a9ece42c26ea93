"""Ordered pops: blocked queues, acks in any order, and what comes again."""

from __future__ import annotations

from pathlib import Path

from embermq.broker.broker import Broker
from embermq.format.command import make_request
from embermq.format.order_json import decode_orders
from embermq.format.tables import decode_offsets
from embermq.model.codes import RequestCode, ResponseCode
from tests.unit.broker.brokers import until, with_broker
from tests.unit.broker.peers import SteppedClock
from tests.unit.broker.popping import GROUP, TOPIC, PopClient, Popped


async def ordered(client: PopClient, count: int) -> None:
    for number in range(count):
        await client.send(client.topic, b"message %d" % number, queue=0)


async def pop(client: PopClient, **changes: object) -> list[Popped]:
    return await client.pop(order="true", **changes)


def offsets(messages: list[Popped]) -> list[int]:
    return [message.offset for message in messages]


def test_a_queue_is_blocked_until_everything_popped_is_done(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await ordered(client, 4)
        messages = await pop(client, maxMsgNums=2)
        assert offsets(messages) == [0, 1]
        assert await pop(client) == []
        assert (await client.ack(messages[0])).code == 0
        assert await pop(client) == []
        assert (await client.ack(messages[1])).code == 0
        assert offsets(await pop(client)) == [2, 3]
        assert broker.offsets.find(TOPIC, GROUP, 0) == 2

    with_broker(tmp_path, work)


def test_what_is_not_done_comes_again_when_its_time_is_up_and_what_is_done_does_not(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await ordered(client, 4)
        messages = await pop(client, maxMsgNums=3)
        await client.ack(messages[1])
        clock.advance(ms=8_000)
        answer = await client.ask(RequestCode.POP_MESSAGE, client.fields(order="true"))
        assert answer.fields["msgOffsetInfo"] == "0 0 0,2,3"
        assert answer.fields["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0 qo0%2 1;0 0 0"

    with_broker(tmp_path, work, clock=clock)


def test_the_same_attempt_gets_the_same_messages_again(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await ordered(client, 2)
        first = await pop(client, attemptId="a1")
        assert await pop(client, attemptId="a2") == []
        assert offsets(await pop(client, attemptId="a1")) == offsets(first) == [0, 1]

    with_broker(tmp_path, work)


def test_a_changed_time_frees_the_queue_earlier(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await ordered(client, 1)
        (message,) = await pop(client)
        clock.advance(ms=1_000)
        answer = await client.change(message, 500)
        assert answer.code == 0
        assert (answer.fields["reviveQid"], answer.fields["invisibleTime"]) == ("999", "1500")
        clock.advance(ms=501)
        assert offsets(await pop(client)) == [0]

    with_broker(tmp_path, work, clock=clock)


def test_a_waiting_pop_gets_what_an_ack_or_the_time_frees(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await ordered(client, 2)
        (message,) = await pop(client, maxMsgNums=1)
        by_ack, by_time = (
            make_request(RequestCode.POP_MESSAGE, client.fields(order="true", pollTime=60_000, maxMsgNums=1))
            for _ in range(2)
        )
        client.tell(by_ack)
        await client.ack(message)
        assert (await client.answer_to(by_ack)).fields["msgOffsetInfo"] == "0 0 1"
        client.tell(by_time)
        clock.advance(ms=8_001)
        assert (await client.answer_to(by_time)).fields["msgOffsetInfo"] == "0 0 1"

    with_broker(tmp_path, work, clock=clock)


def test_acks_of_older_pops_count_for_nothing(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await ordered(client, 1)
        (old,) = await pop(client)
        clock.advance(ms=8_001)
        (new,) = await pop(client)
        assert (await client.ack(old)).code == 0
        assert broker.offsets.find(TOPIC, GROUP, 0) == 0
        assert (await client.ack(new)).code == 0
        assert broker.offsets.find(TOPIC, GROUP, 0) == 1

    with_broker(tmp_path, work, clock=clock)


def test_an_ack_for_a_message_that_was_not_popped_is_refused(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await ordered(client, 3)
        (message,) = await pop(client, maxMsgNums=1)
        answer = await client.ack(message._replace(offset=2))
        assert (answer.code, "pop again" in (answer.remark or "")) == (ResponseCode.MESSAGE_ILLEGAL, True)

    with_broker(tmp_path, work)


def test_an_ordered_queue_is_still_blocked_after_a_crash(tmp_path: Path) -> None:
    """What the answer promised is in the files when the client has it."""

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await ordered(client, 3)
        first, second, _ = await pop(client)
        await client.ack(second)
        await client.ack(first)
        config = broker.store.path / "config"
        saved = decode_orders((config / "consumerOrderInfo.json").read_bytes())
        assert saved[TOPIC, GROUP, 0].open_offsets() == [2]
        assert decode_offsets((config / "consumerOffset.json").read_bytes()).offsets[TOPIC, GROUP][0] == 2

    with_broker(tmp_path, work, durability="sync")


def test_a_notification_knows_of_blocked_queues(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await ordered(client, 2)
        (message,) = await pop(client, maxMsgNums=1)
        fields = client.fields(order="true")
        assert (await client.ask(RequestCode.NOTIFICATION, fields)).fields["hasMsg"] == "false"
        await client.ack(message)
        assert (await client.ask(RequestCode.NOTIFICATION, fields)).fields["hasMsg"] == "true"

    with_broker(tmp_path, work)


def test_a_batch_of_acks_moves_an_ordered_queue(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await ordered(client, 3)
        assert (await client.ack_batch(await pop(client))).code == 0
        await until(lambda: broker.offsets.find(TOPIC, GROUP, 0) == 3)

    with_broker(tmp_path, work, durability="sync")
