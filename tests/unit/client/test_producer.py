"""Sending, with brokers that are busy, away or refuse: real sockets, told answers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from embermq import AsyncClient, Message
from embermq.client.producer import BATCH_SIZE, SendReceipt, SendStatus
from embermq.errors import CallTimeout, IllegalMessage, NotPermitted, Refused, TopicNotFound
from embermq.format.batch import iter_batch
from embermq.format.command import Command
from embermq.model.codes import RequestCode, ResponseCode
from tests.unit.client.peer import Peer, Reply, Say, a_peer, route_to, run, stored

SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


@contextlib.asynccontextmanager
async def a_cluster(*says: Say, timeout: float = 3.0) -> AsyncIterator[tuple[AsyncClient, list[Peer]]]:
    """A client, and a broker for each of `says`."""
    async with contextlib.AsyncExitStack() as stack:
        brokers = [await stack.enter_async_context(a_peer(say)) for say in says]
        route = route_to(*(broker.address for broker in brokers))
        names = await stack.enter_async_context(a_peer(lambda request: (0, {}, route)))
        client = await stack.enter_async_context(AsyncClient(names.address, timeout=timeout))
        yield client, brokers


def stored_batch(request: Command) -> Reply:
    count = len(list(iter_batch(request.data))) if request.code == RequestCode.SEND_BATCH_MESSAGE else 1
    code, fields, body = stored(request)
    return code, {**fields, "msgId": ",".join(["7F00000100002A9F0000000000000400"] * count)}, body


def failing(times: int, code: int) -> Say:
    """A broker that refuses so often, then stores."""
    left = [times]

    def say(request: Command) -> Reply:
        left[0] -= 1
        return (code, {}, b"") if left[0] >= 0 else stored_batch(request)

    return say


def test_a_receipt_tells_where_the_message_went() -> None:
    async def work() -> None:
        async with a_cluster(stored_batch) as (mq, (broker,)):
            receipt = await mq.send("orders", b"x", queue=2)
            assert receipt[:5] == ("orders", "broker-0", 2, 7, "7F00000100002A9F0000000000000400")
            assert receipt.position == 0x400
            assert broker.asked[0].fields["e"] == "2"

    run(work)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY])
def test_a_busy_broker_is_asked_again(code: int) -> None:
    async def work() -> None:
        async with a_cluster(failing(3, code)) as (mq, (broker,)):
            await mq.send("orders", b"x")
            assert broker.codes() == [RequestCode.SEND_MESSAGE_V2] * 4
            keys = {request.fields["i"] for request in broker.asked}
            assert len(keys) == 1  # the same message, so that a second copy can be told

    run(work)


def test_a_broker_that_stays_busy_is_an_error_in_time() -> None:
    async def work() -> None:
        async with a_cluster(lambda request: (2, {}, b"")) as (mq, _):
            with pytest.raises(Refused, match="because"):
                await mq.send("orders", b"x", timeout=0.5)

    run(work)


def test_a_refusal_is_not_tried_again() -> None:
    async def work() -> None:
        async with a_cluster(lambda request: (16, {}, b"")) as (mq, (broker,)):
            with pytest.raises(NotPermitted, match="because"):
                await mq.send("orders", b"x")
            assert len(broker.asked) == 1

    run(work)


def test_silence_is_a_timeout() -> None:
    async def work() -> None:
        async with a_cluster(lambda request: None) as (mq, _):
            with pytest.raises(CallTimeout):
                await mq.send("orders", b"x", timeout=0.2)

    run(work)


def test_another_broker_takes_what_one_cannot() -> None:
    async def work() -> None:
        async with a_cluster(lambda request: (2, {}, b""), stored_batch) as (mq, _):
            for _ in range(6):
                assert (await mq.send("orders", b"x")).broker == "broker-1"

    run(work)


def test_a_fixed_queue_is_not_moved() -> None:
    async def work() -> None:
        async with a_cluster(failing(2, 2)) as (mq, (broker,)):
            await mq.send("orders", b"x", queue=3)
            await mq.send("orders", b"x", sharding_key="k")
            assert {request.fields["e"] for request in broker.asked[:3]} == {"3"}

    run(work)


@pytest.mark.parametrize("status", [s for s in SendStatus if s is not SendStatus.STORED])
def test_what_is_stored_but_less_safe_says_so(status: SendStatus) -> None:
    async def work() -> None:
        async with a_cluster(lambda request: (status, *stored(request)[1:])) as (mq, (broker,)):
            assert (await mq.send("orders", b"x")).status is status
            assert len(broker.asked) == 1  # another try would store it twice

    run(work)


def test_an_answer_that_makes_no_sense_is_an_error() -> None:
    async def work() -> None:
        async with a_cluster(lambda request: (0, {}, b"")) as (mq, _):
            with pytest.raises(IllegalMessage, match="no sense"):
                await mq.send("orders", b"x")

    run(work)


def test_many_go_in_batches_of_a_size_and_large_ones_alone() -> None:
    async def work() -> None:
        async with a_cluster(stored_batch) as (mq, (broker,)):
            bodies = [bytes([number + 1]) * 300_000 for number in range(20)] + [b"z" * (BATCH_SIZE + 1)]
            outcomes = await mq.send_many([Message("orders", body, queue=0) for body in bodies], timeout=10)
            assert all(isinstance(outcome, SendReceipt) for outcome in outcomes)
            sends = [request for request in broker.asked if request.code in SENDS]
            assert [request.code for request in sends].count(RequestCode.SEND_MESSAGE_V2) == 1
            sizes = [len(request.data) for request in sends]
            assert max(sizes) <= BATCH_SIZE

    run(work)


def test_one_bad_batch_does_not_take_the_others_with_it() -> None:
    def say(request: Command) -> Reply:
        return (16, {}, b"") if request.fields["e"] == "1" else stored_batch(request)

    async def work() -> None:
        async with a_cluster(say) as (mq, _):
            outcomes = await mq.send_many([Message("orders", b"%d" % n, queue=n % 2) for n in range(10)])
            for number, outcome in enumerate(outcomes):
                assert isinstance(outcome, NotPermitted if number % 2 else SendReceipt)

    run(work)


def test_a_batch_whose_answer_has_too_few_ids_is_an_error() -> None:
    async def work() -> None:
        async with a_cluster(lambda request: (0, {**stored(request)[1], "msgId": "00"}, b"")) as (mq, _):
            outcomes = await mq.send_many([Message("orders", b"x", queue=0)] * 3)
            assert [type(outcome) for outcome in outcomes] == [Refused] * 3

    run(work)


def test_a_topic_that_nobody_makes_is_missing() -> None:
    async def work() -> None:
        async with a_peer(lambda request: (17, {}, b"")) as names, AsyncClient(names.address) as mq:
            with pytest.raises(TopicNotFound):
                await mq.send("orders", b"x")
            outcomes = await mq.send_many([Message("orders", b"x")] * 2)
            assert [type(outcome) for outcome in outcomes] == [TopicNotFound] * 2
            assert await mq.send_many([]) == []

    run(work)
