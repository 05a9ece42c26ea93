"""Acks and changed invisible times: what is stored of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.format.command import make_request
from embermq.format.pop_records import decode_ack, decode_checkpoint
from embermq.format.record import Record
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.properties import TAGS
from embermq.model.topic import TIMER_TOPIC
from tests.unit.broker.brokers import with_broker
from tests.unit.broker.popping import TOPIC, PopClient, Popped

ACK = RequestCode.ACK_MESSAGE


def parked(broker: Broker) -> list[tuple[str, Record]]:
    """What waits in the timer's topic, each with its tag."""
    entries = broker.store.entries(TIMER_TOPIC, queue=0, offset=0, limit=99)
    records = [broker.store.read_record(entry.position) for entry in entries]
    return [(record.property_map()[TAGS], record) for record in records]


async def popped(client: PopClient, count: int) -> list[Popped]:
    for number in range(count):
        await client.send(client.topic, b"message %d" % number, queue=0)
    return await client.pop()


def test_an_ack_is_stored_for_when_its_message_is_due(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        messages = await popped(client, 3)
        assert (await client.ack(messages[1])).code == 0
        (_, checkpoint), (tag, record) = parked(broker)
        due = decode_checkpoint(checkpoint.body).revive_time
        assert tag == "ack"
        assert record.property_map()["TIMER_DELIVER_MS"] == str(due)
        ack = decode_ack(record.body, broker="nobody")
        assert (ack.delivery, ack.offsets) == (decode_checkpoint(checkpoint.body).delivery, (1,))

    with_broker(tmp_path, work)


def test_acks_of_one_read_are_one_record(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        messages = await popped(client, 5)
        requests = [make_request(ACK, client.ack_fields(message)) for message in messages]
        client.tell(*requests)
        assert [(await client.answer_to(request)).code for request in requests] == [0] * 5
        (_, _), (tag, record) = parked(broker)
        assert tag == "bAck"
        assert decode_ack(record.body, broker="nobody").offsets == (0, 1, 2, 3, 4)

    with_broker(tmp_path, work)


def test_a_batch_of_acks_leaves_out_what_its_queue_does_not_have(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        messages = await popped(client, 2)
        beyond = messages[0]._replace(offset=77)
        assert (await client.ack_batch([*messages, beyond])).code == 0
        assert [tag for tag, _ in parked(broker)] == ["ck", "ack", "ack"]
        assert (await client.ack_batch([])).code == ResponseCode.NO_MESSAGE

    with_broker(tmp_path, work)


def test_a_changed_time_is_a_checkpoint_of_its_own_and_an_ack_for_the_old_one(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        (message,) = await popped(client, 1)
        answer = await client.change(message, 3_000)
        assert (answer.code, answer.fields["invisibleTime"]) == (0, "3000")
        _, (tag, changed), (last_tag, last) = parked(broker)
        assert (tag, last_tag) == ("ck", "ack")
        checkpoint = decode_checkpoint(changed.body)
        assert checkpoint.offsets == (0,)
        assert str(checkpoint.delivery.pop_time) == answer.fields["popTime"]
        assert int(message.handle.split(" ")[1]) == decode_ack(last.body, broker="nobody").delivery.pop_time

    with_broker(tmp_path, work)


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"extraInfo": "rubbish"}, ResponseCode.INVALID_PARAMETER, "send POP_CK as it came"),
        ({"extraInfo": ""}, ResponseCode.INVALID_PARAMETER, "extraInfo"),
        ({"topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST, "nowhere"),
        ({"queueId": 44}, ResponseCode.MESSAGE_ILLEGAL, "no queue 44"),
        ({"queueId": -1}, ResponseCode.MESSAGE_ILLEGAL, "no queue -1"),
        ({"offset": 2}, ResponseCode.NO_MESSAGE, "holds [0, 1)"),
        ({"offset": -1}, ResponseCode.NO_MESSAGE, "holds [0, 1)"),
        ({"extraInfo": "0 1 2 8 0 broker-a 0 0"}, ResponseCode.MESSAGE_ILLEGAL, "revive queue 8 of 8"),
        ({"extraInfo": "0 99999999999999 2 1 0 broker-a 0 0"}, ResponseCode.MESSAGE_ILLEGAL, "a time that no pop"),
        ({"extraInfo": "0 1 99999999999999 1 0 broker-a 0 0"}, ResponseCode.MESSAGE_ILLEGAL, "a time that no pop"),
    ],
)
def test_a_forged_ack_is_refused(tmp_path: Path, changes: dict[str, object], code: int, said: str) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        (message,) = await popped(client, 1)
        answer = await client.ack(message, **changes)
        assert answer.code == code
        assert said in (answer.remark or "")
        assert len(parked(broker)) == 1

    with_broker(tmp_path, work)


def test_a_batch_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        answer = await PopClient(broker).ask(RequestCode.BATCH_ACK_MESSAGE, body=b"rubbish")
        assert answer.code != 0
        assert answer.remark

    with_broker(tmp_path, work)


@pytest.mark.parametrize("time_ms", [-1, 3 * 24 * 3600 * 1000 + 1])
def test_a_time_that_no_timer_reaches_is_refused_with_the_limit(tmp_path: Path, time_ms: int) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        (message,) = await popped(client, 1)
        answer = await client.change(message, time_ms)
        assert (answer.code, "259200000" in (answer.remark or "")) == (ResponseCode.INVALID_PARAMETER, True)

    with_broker(tmp_path, work)


def test_an_ack_after_the_time_is_accepted_as_rocketmq_does(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await popped(client, 1)
        fields = {"consumerGroup": client.group, "topic": TOPIC, "queueId": "0", "offset": "0"}
        answer = await client.ask(ACK, {**fields, "extraInfo": "0 1000 1000 3 0 broker-a 0 0"})
        assert answer.code == 0

    with_broker(tmp_path, work)
