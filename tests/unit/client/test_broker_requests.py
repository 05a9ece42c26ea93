"""What brokers ask of a consumer, over a real connection to a broker that a test speaks for."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from embermq import AsyncClient, Delivery
from embermq.client.consumer import Consumer
from embermq.format.command import Command, make_request
from embermq.format.connection_body import encode_consumer_ids
from embermq.format.consume_status_body import decode_client_status
from embermq.format.heartbeat_body import decode_heartbeat
from embermq.format.json_fields import parse_fields
from embermq.format.offset_table_body import encode_offset_table
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode
from tests.unit.client.peer import Peer, Reply, a_peer, route_to, run
from tests.unit.client.test_incoming import a_record

QUEUE = BrokerQueue("broker-0", "orders", 0)


class Broker:
    """One broker with one queue of `orders`, in which a group has done everything before offset 100."""

    def __init__(self) -> None:
        self.members: set[str] = set()
        self.pulls: list[int] = []

    def say(self, request: Command) -> Reply | None:
        match request.code:
            case RequestCode.HEART_BEAT:
                self.members.add(decode_heartbeat(request.data).client_id)
            case RequestCode.GET_CONSUMER_LIST_BY_GROUP:
                return 0, {}, encode_consumer_ids(sorted(self.members))
            case RequestCode.QUERY_CONSUMER_OFFSET:
                return 0, {"offset": "100"}, b""
            case RequestCode.PULL_MESSAGE:
                self.pulls.append(int(request.fields["queueOffset"]))
                return None
        return 0, {}, b""


@contextlib.asynccontextmanager
async def a_member() -> AsyncIterator[tuple[Broker, Peer, Consumer]]:
    """A consumer whose first pull waits at the broker."""
    broker = Broker()
    async with a_peer(broker.say) as peer:

        def route(request: Command) -> Reply:
            return (0, {}, route_to(peer.address, queues=1)) if request.fields["topic"] == "orders" else (17, {}, b"")

        async with (
            a_peer(route) as names,
            AsyncClient(names.address) as mq,
            mq.consume("orders", group="billing") as consumer,
        ):
            await until(lambda: broker.pulls == [100])
            yield broker, peer, consumer


async def until(condition: object) -> None:
    assert callable(condition)
    while not condition():
        await asyncio.sleep(0.005)


async def ask(peer: Peer, code: int, fields: dict[str, str], body: bytes = b"") -> Command:
    return await peer.connections[-1].call(make_request(code, fields, body), timeout_s=15)


def test_a_reset_moves_the_reader_at_once_though_it_waits_elsewhere() -> None:
    async def work() -> None:
        async with a_member() as (broker, peer, _):
            fields = {"topic": "orders", "group": "billing", "timestamp": "0", "isForce": "true"}
            body = encode_offset_table({QUEUE: 7, BrokerQueue("elsewhere", "orders", 0): 9})
            for group in ("other", "billing"):
                request = make_request(RequestCode.RESET_CLIENT_OFFSET, {**fields, "group": group}, body, oneway=True)
                peer.connections[-1].send(request)
            await until(lambda: broker.pulls == [100, 7])

    run(work)


def test_members_that_come_and_go_are_looked_at_at_once() -> None:
    async def work() -> None:
        async with a_member() as (broker, peer, _):
            before = peer.codes().count(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
            broker.members.add("0.0.0.0@first")  # sorts before us, and there is one queue only
            notice = make_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "billing"}, oneway=True)
            peer.connections[-1].send(notice)
            await until(lambda: peer.codes().count(RequestCode.GET_CONSUMER_LIST_BY_GROUP) > before)
            await until(lambda: RequestCode.UPDATE_CONSUMER_OFFSET in peer.codes())  # what we did is told before we go
            commit = next(each for each in peer.asked if each.code == RequestCode.UPDATE_CONSUMER_OFFSET)
            assert commit.fields["commitOffset"] == "100"

    run(work)


def test_a_member_tells_how_far_it_is_and_what_it_reads() -> None:
    async def work() -> None:
        async with a_member() as (_, peer, _):
            status = await ask(peer, RequestCode.GET_STATUS_FROM_CLIENT, {"topic": "orders", "group": "billing"})
            assert decode_client_status(status.data) == {QUEUE: 100}
            info = await ask(peer, RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "billing"})
            fields = parse_fields(info.data, "info")
            assert [json.loads(key)["topic"] for key, _ in fields.items("mqTable")] == ["orders"]
            assert len(fields.find_list("subscriptionSet") or []) == 2

    run(work)


def test_an_operators_message_is_taken_out_of_turn_and_its_verdict_told() -> None:
    async def take(consumer: Consumer, verdicts: list[str]) -> None:
        for verdict in verdicts:
            (delivery,) = await consumer.take(1, 10)
            assert isinstance(delivery, Delivery)
            assert delivery.body == b"chosen"
            getattr(delivery, verdict)()

    async def work() -> None:
        async with a_member() as (_, peer, consumer):
            fields = {"consumerGroup": "billing", "brokerName": "broker-0"}
            taking = asyncio.create_task(take(consumer, ["ack", "give_back"]))
            results = []
            for _ in range(2):
                answer = await ask(peer, RequestCode.CONSUME_DIRECTLY, fields, a_record(b"chosen"))
                results.append(json.loads(answer.data)["consumeResult"])
            await taking
            assert results == ["CR_SUCCESS", "CR_LATER"]
            answer = await ask(peer, RequestCode.CONSUME_DIRECTLY, fields, b"nonsense")
            assert json.loads(answer.data)["consumeResult"] == "CR_THROW_EXCEPTION"
            assert RequestCode.CONSUMER_SEND_MSG_BACK not in peer.codes()

    run(work)


def test_what_we_do_not_know_is_answered_so() -> None:
    async def work() -> None:
        async with a_member() as (_, peer, _):
            assert (await ask(peer, 4711, {})).code == 3

    run(work)
