"""SQL92 filters of consumers: in the pull, in heartbeats, while a pull waits, and when they make no sense."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.command import Command, make_request
from embermq.format.heartbeat_body import Consumes, Heartbeat, encode_heartbeat
from embermq.format.record import decode_record
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.subscription import Subscribed
from tests.unit.broker.brokers import Client, pull_fields, until, with_broker

SQL = {"expressionType": "SQL92"}


def numbers(answer: Command) -> list[int]:
    """The property `a` of all messages in an answer."""
    data, found = memoryview(answer.data), []
    while data:
        record = decode_record(data, 0, check_position=False)
        found.append(int(record.property_map()["a"]))
        data = data[record.size :]
    return found


async def send_some(broker: Broker, count: int = 20) -> None:
    client = Client(broker)
    for number in range(count):
        await client.send(body=b"%d" % number, a=str(number), UNIQ_KEY=f"ID{number}")


async def subscribe(client: Client, expression: str, *, version: int = 1, group: str = "billing") -> None:
    wanted = Subscribed("orders", expression, "SQL92", version=version)
    heartbeat = Heartbeat("c1", consumers=(Consumes(group, (wanted,)),))
    answer = await client.ask(RequestCode.HEART_BEAT, body=encode_heartbeat(heartbeat))
    assert answer.code == 0


def test_a_pull_with_a_filter_gets_what_matches_and_goes_past_the_rest(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        await send_some(broker)
        client = Client(broker)
        answer = await client.pull(subscription="a BETWEEN 5 AND 9 OR a = 17", **SQL)
        assert (answer.code, numbers(answer)) == (0, [5, 6, 7, 8, 9, 17])
        assert answer.fields["nextBeginOffset"] == "20"
        nothing = await client.pull(subscription="a > 100", **SQL)
        assert (nothing.code, nothing.fields["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "20")
        again = await client.pull(subscription="a > 100", **SQL)
        assert again.code == nothing.code

    with_broker(tmp_path / "store", work)


def test_the_filter_of_a_heartbeat_counts_for_pulls_without_one(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        await send_some(broker)
        client = Client(broker)
        await subscribe(client, "a IN ('3', '4')")
        answer = await client.pull(sysFlag="0", subVersion="1")
        assert numbers(answer) == [3, 4]
        newer = await client.pull(sysFlag="0", subVersion="2")
        assert newer.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        await subscribe(client, "a > 17", version=2)
        assert numbers(await client.pull(sysFlag="0", subVersion="2")) == [18, 19]

    with_broker(tmp_path / "store", work)


def test_a_pull_waits_for_a_message_that_it_wants(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client, sender = Client(broker), Client(broker)
        await send_some(broker, 1)
        fields = pull_fields(offset=1, sysFlag="6", suspendTimeoutMillis="20000", subscription="a > 10", **SQL)
        request = make_request(RequestCode.PULL_MESSAGE, fields)
        client.tell(request)
        for number in (1, 2, 3):
            await sender.send(a=str(number))
            await asyncio.sleep(0.01)
        assert client.peer.sent == []
        assert len(broker.polls) == 1
        await sender.send(a="11")
        answer = await client.answer_to(request)
        assert (numbers(answer), answer.fields["nextBeginOffset"]) == ([11], "5")

    with_broker(tmp_path / "store", work)


@pytest.mark.parametrize(
    ("expression", "said"),
    [("a >", "expected"), ("a LIKE 'x%'", "LIKE"), ("a = 'x", "expected"), ("x" * 70_000, "limit 65536")],
)
def test_what_cannot_be_read_is_refused_wherever_it_comes_from(tmp_path: Path, expression: str, said: str) -> None:
    async def work(broker: Broker) -> None:
        await send_some(broker, 1)
        client = Client(broker)
        body = (
            f'{{"clientId":"c","group":"g","subscriptionData":{{"expressionType":"SQL92","subString":"{expression}"}}}}'
        )
        for answer in (
            await client.pull(subscription=expression, **SQL),
            await client.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode()),
        ):
            assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
            assert answer.remark and said in answer.remark
        await subscribe(client, expression)
        assert (await client.pull(sysFlag="0")).code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert broker.filters.find("orders", "billing") is None

    with_broker(tmp_path / "store", work)


def test_filters_that_are_switched_off_or_unknown_are_refused(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        await send_some(broker, 1)
        client = Client(broker)
        assert (await client.pull(subscription="a > 1", **SQL)).code == ResponseCode.SYSTEM_ERROR
        body = b'{"subscriptionData":{"expressionType":"SQL92","subString":"a > 1"}}'
        assert (await client.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body)).code == ResponseCode.SYSTEM_ERROR
        unknown = await client.pull(subscription="a > 1", expressionType="XPATH")
        assert unknown.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    with_broker(tmp_path / "store", work, settings=BrokerSettings(sql_filters=False))


def test_filters_outlive_their_group_and_the_broker_and_set_bits_in_extended_queues(tmp_path: Path) -> None:
    settings = BrokerSettings(filter_bits=True)

    async def before(broker: Broker) -> None:
        client = Client(broker)
        await subscribe(client, "a > 17")
        entry = broker.filters.find("orders", "billing")
        assert entry is not None and not entry.is_dead
        client.peer.close()
        broker.connection_closed(client.peer)
        await until(lambda: (found := broker.filters.find("orders", "billing")) is not None and found.is_dead)

    async def after(broker: Broker) -> None:
        await send_some(broker)
        queue = broker.store.find_queue("orders", 0)
        assert queue is not None
        entry = broker.filters.find("orders", "billing")
        assert entry is not None and entry.is_dead
        wanted = broker.filters.shape.map_of(entry.positions)
        maps = [extended.bits for at in range(20) if (extended := queue.read_extended(at)) is not None]  # type: ignore[union-attr]
        assert maps == [bytes(14)] * 18 + [wanted] * 2
        client = Client(broker)
        await subscribe(client, "a > 17", version=2)
        assert not broker.filters.find("orders", "billing").is_dead  # type: ignore[union-attr]
        assert numbers(await client.pull(sysFlag="0", subVersion="2")) == [18, 19]

    for work in (before, after):
        with_broker(tmp_path / "store", work, settings=settings, extended_queues=True)
