"""The Python client against a real server."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from embermq import AsyncClient, Client, Delivery, EmberError, Message, SendReceipt
from embermq.client.producer import SendStatus
from embermq.errors import BodyTooLarge, CallTimeout, ConnectionLost, IllegalMessage, IllegalTopic, TopicNotFound
from tests.builders import wait_until
from tests.e2e.conftest import Served, serving

QUIET_S = 2.0  # a loop that gets nothing for so long ends


def a_name(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


def run(work: Callable[[], object]) -> None:
    asyncio.run(asyncio.wait_for(work(), 60))  # type: ignore[arg-type]


async def collect(messages: AsyncIterator[object]) -> list[object]:
    return [message async for message in messages]


def receipts_of(outcomes: list[SendReceipt | EmberError]) -> list[SendReceipt]:
    return [outcome for outcome in outcomes if isinstance(outcome, SendReceipt)]


def test_a_message_comes_back_as_it_was_sent(ember: Served) -> None:
    topic = a_name("orders")
    with Client(ember.namesrv) as mq:
        receipt = mq.send(topic, b"hello", tags="eu", keys=["o-1", "o-2"], properties={"amount": "12"})
        (message,) = mq.read(topic)
    assert receipt.status is SendStatus.STORED
    assert (message.topic, message.queue, message.offset) == (topic, receipt.queue, receipt.offset)
    assert (message.body, message.tags, message.keys) == (b"hello", "eu", ("o-1", "o-2"))
    assert message.properties["amount"] == "12"
    assert message.properties["UNIQ_KEY"] == receipt.unique_key
    assert (message.message_id, message.position) == (receipt.message_id, receipt.position)


@pytest.mark.parametrize("size", [1, 4095, 4096, 100_000, 4 * 1024 * 1024])
def test_bodies_of_any_size_come_back_packed_or_not(ember: Served, size: int) -> None:
    topic = a_name("sizes")
    body = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    with Client(ember.namesrv, timeout=10) as mq:
        mq.send(topic, body)
        (message,) = mq.read(topic)
    assert message.body == body
    assert bool(message.sys_flag & 1) == (size >= 4096)


def test_what_cannot_be_sent_is_refused_here(ember: Served) -> None:
    with Client(ember.namesrv) as mq:
        with pytest.raises(BodyTooLarge):
            mq.send("orders", bytes(4 * 1024 * 1024 + 1))
        with pytest.raises(IllegalMessage, match="empty body"):
            mq.send("orders", b"")
        with pytest.raises(IllegalTopic):
            mq.send("or ders", b"x")
        with pytest.raises(IllegalMessage, match="further away than"):
            mq.send("orders", b"x", delay=timedelta(days=400))


def test_many_messages_have_a_receipt_or_an_error_each_in_their_order(ember: Served) -> None:
    topic = a_name("many")
    messages = [Message(topic, b"%d" % number, keys=[f"k{number}"]) for number in range(3000)]
    messages[1234] = Message("not a topic", b"x")
    with Client(ember.namesrv, timeout=10) as mq:
        outcomes = mq.send_many(messages)
        found = {(message.queue, message.offset): message.body for message in mq.read(topic)}
    assert isinstance(outcomes[1234], IllegalTopic)
    receipts = receipts_of(outcomes)
    assert len(receipts) == len(found) == 2999
    for message, outcome in zip(messages, outcomes, strict=True):
        if isinstance(outcome, SendReceipt):
            assert found[outcome.queue, outcome.offset] == message.body
    assert len({receipt.queue for receipt in receipts}) > 1
    assert len({receipt.unique_key for receipt in receipts}) == 2999


def test_messages_with_one_sharding_key_stay_in_order_in_one_queue(ember: Served) -> None:
    topic = a_name("shards")
    with Client(ember.namesrv) as mq:
        receipts = [mq.send(topic, b"%d" % number, sharding_key="customer-7") for number in range(20)]
        many = mq.send_many(Message(topic, b"x", properties={"__SHARDINGKEY": "customer-7"}) for _ in range(20))
    assert len({receipt.queue for receipt in [*receipts, *receipts_of(many)]}) == 1
    assert [receipt.offset for receipt in receipts] == list(range(20))


def test_a_delayed_message_comes_when_its_time_has_come(ember: Served) -> None:
    topic = a_name("later")
    with Client(ember.namesrv) as mq:
        mq.send(topic, b"now")
        sent = datetime.now(UTC)
        mq.send(topic, b"later", delay=timedelta(seconds=1))
        arrived = {}
        for message in mq.read(topic, follow=True):
            arrived[message.body] = message.store_time
            if len(arrived) == 2:
                break
    assert arrived[b"later"] - sent >= timedelta(seconds=1)
    assert arrived[b"now"] < arrived[b"later"]


def test_reading_goes_by_time_filter_queue_and_count(ember: Served) -> None:
    topic = a_name("read")
    with Client(ember.namesrv) as mq:
        for number in range(40):
            mq.send(topic, b"%d" % number, tags="eu" if number % 4 else "us")
        every = list(mq.read(topic, since=timedelta(minutes=1)))
        assert [int(message.body) for message in every] == list(range(40))  # merged by their times
        assert list(mq.read(topic, since=datetime.now(UTC) + timedelta(hours=1))) == []
        assert {message.body for message in mq.read(topic, filter="us")} == {b"%d" % n for n in range(0, 40, 4)}
        assert {message.queue for message in mq.read(topic, queues=[1])} == {1}
        assert [int(message.body) for message in mq.read(topic, last=5)] == [35, 36, 37, 38, 39]
        assert [int(message.body) for message in mq.read(topic, last=2, filter="us")] == [32, 36]
        with pytest.raises(IllegalMessage, match="has the queues"):
            list(mq.read(topic, queues=[99]))


def test_a_topic_that_is_not_there_is_named_with_the_nearest(ember: Served) -> None:
    topic = a_name("customers")
    with Client(ember.namesrv) as mq:
        mq.send(topic, b"x")
        with pytest.raises(TopicNotFound, match=topic):
            list(mq.read(topic[:-1] + "_"))
        with pytest.raises(TopicNotFound):
            next(iter(mq.consume("no-such-topic-at-all", group="g")))


def test_a_group_gets_every_message_once_and_goes_on_where_it_was(ember: Served) -> None:
    topic, group = a_name("orders"), a_name("billing")
    with Client(ember.namesrv) as mq:
        mq.send_many(Message(topic, b"%d" % number) for number in range(500))
        got = []
        for message in mq.consume(topic, group=group, timeout=QUIET_S):
            with message:
                got.append(int(message.body))
        assert sorted(got) == list(range(500))
        mq.send(topic, b"500")
        rest = []
        for message in mq.consume(topic, group=group, timeout=QUIET_S):
            with message:
                rest.append(int(message.body))
        assert rest == [500]


def test_a_new_group_begins_where_it_is_told(ember: Served) -> None:
    topic = a_name("starts")

    async def bodies(mq: AsyncClient, **options: object) -> list[bytes]:
        consumer = mq.consume(topic, group=a_name("g"), timeout=QUIET_S, **options)  # type: ignore[arg-type]
        async with consumer:
            await wait_for_queues(consumer)
            await mq.send(topic, b"new")
            found = []
            async for message in consumer:
                with message:
                    found.append(message.body)
        return found

    async def work() -> None:
        async with AsyncClient(ember.namesrv) as mq:
            await mq.send(topic, b"old")
            assert await bodies(mq, start="latest") == [b"new"]
            assert sorted(await bodies(mq, start="earliest")) == [b"new", b"new", b"old"]
            moment = datetime.now(UTC)
            assert await bodies(mq, start=moment) == [b"new"]

    run(work)


async def wait_for_queues(consumer: object, count: int = 4) -> None:
    """Until the consumer owns so many queues of its topic."""
    deadline = asyncio.get_running_loop().time() + 15
    while owned(consumer) < count:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)


def owned(consumer: object) -> int:
    membership = consumer._membership  # type: ignore[attr-defined]
    return sum(not queue.topic.startswith("%RETRY%") for queue in membership.progress)


def test_what_failed_comes_again_and_is_acked_only_once_it_worked(ember: Served) -> None:
    topic, group = a_name("fails"), a_name("billing")
    attempts: list[tuple[int, str, str]] = []

    async def work() -> None:
        async with AsyncClient(ember.namesrv) as mq:
            receipt = await mq.send(topic, b"fragile", keys=["k"])
            async for message in mq.consume(topic, group=group, timeout=10):
                attempts.append((message.attempt, message.topic, message.unique_key))
                if message.attempt == 1:
                    message.give_back(timedelta(seconds=1))
                    continue
                message.ack()
                break
            assert attempts == [(1, topic, receipt.unique_key), (2, topic, receipt.unique_key)]

    run(work)


def test_an_exception_gives_the_message_back_and_passes_on(ember: Served) -> None:
    topic, group = a_name("raises"), a_name("billing")
    with Client(ember.namesrv) as mq:
        mq.send(topic, b"poison")
        with pytest.raises(ZeroDivisionError):
            for message in mq.consume(topic, group=group, timeout=10):
                with message:
                    raise ZeroDivisionError
        dead = f"%RETRY%{group}"
        wait_until(lambda: any(True for _ in mq.read("SCHEDULE_TOPIC_XXXX")))
        assert list(mq.read(dead)) == []  # it waits for its time


def test_what_is_given_up_is_a_dead_letter(ember: Served) -> None:
    topic, group = a_name("dies"), a_name("billing")
    with Client(ember.namesrv) as mq:
        mq.send(topic, b"hopeless")
        for message in mq.consume(topic, group=group, timeout=QUIET_S):
            message.give_up()
        (dead,) = mq.read(f"%DLQ%{group}")
        assert dead.body == b"hopeless"


def test_what_nobody_acked_comes_again(ember: Served) -> None:
    topic, group = a_name("unacked"), a_name("billing")
    with Client(ember.namesrv) as mq:
        mq.send_many(Message(topic, b"%d" % number, queue=0) for number in range(10))
        for message in mq.consume(topic, group=group, timeout=QUIET_S):
            if int(message.body) < 4 or int(message.body) > 6:
                message.ack()
        again = []
        for message in mq.consume(topic, group=group, timeout=QUIET_S):
            with message:
                again.append(int(message.body))
    assert again == [4, 5, 6, 7, 8, 9]  # an offset can only stand before the first that is missing


def test_members_share_the_queues_and_take_over_from_each_other(ember: Served) -> None:
    topic, group = a_name("shared"), a_name("billing")

    async def drain(consumer: object, found: list[bytes]) -> None:
        async for message in consumer:  # type: ignore[attr-defined]
            with message:
                found.append(message.body)

    async def work() -> None:
        async with AsyncClient(ember.namesrv) as first, AsyncClient(ember.namesrv) as second:
            await first.send(topic, b"0")
            one, two = first.consume(topic, group=group), second.consume(topic, group=group)
            got: dict[str, list[bytes]] = {"one": [], "two": []}
            tasks = [asyncio.create_task(drain(one, got["one"]))]
            while not one._membership:
                await asyncio.sleep(0.01)
            await wait_for_queues(one, 4)
            tasks.append(asyncio.create_task(drain(two, got["two"])))
            while not two._membership:
                await asyncio.sleep(0.01)
            await wait_for_queues(two, 2)
            assert (owned(one), owned(two)) == (2, 2)
            sent = {b"%d" % number for number in range(200)}
            await first.send_many(Message(topic, body) for body in sent)
            while len(got["one"]) + len(got["two"]) < 200 or not got["two"]:
                await asyncio.sleep(0.01)
            assert set(got["one"]) | set(got["two"]) >= sent
            tasks[1].cancel()
            await asyncio.gather(tasks[1], return_exceptions=True)
            await two.close()
            await wait_for_queues(one, 4)  # at once, not with the next heartbeat
            tasks[0].cancel()
            await asyncio.gather(tasks[0], return_exceptions=True)
            await one.close()

    run(work)


def test_batches_are_committed_when_they_are_acked(ember: Served) -> None:
    topic, group = a_name("etl"), a_name("etl")

    async def work() -> None:
        async with AsyncClient(ember.namesrv) as mq:
            await mq.send_many(Message(topic, b"%d" % number) for number in range(1000))
            sizes = []
            async for batch in mq.consume(topic, group=group, timeout=QUIET_S).batches(max_items=300, max_wait=0.5):
                assert all(isinstance(each, Delivery) for each in batch)
                sizes.append(len(batch))
                await batch.ack()
                if sum(sizes) == 1000:
                    break
            assert max(sizes) <= 300
        async with AsyncClient(ember.namesrv) as mq:
            assert await collect(aiter(mq.consume(topic, group=group, timeout=QUIET_S))) == []

    run(work)


def test_the_sync_client_has_batches_too(ember: Served) -> None:
    topic, group = a_name("etl"), a_name("etl")
    with Client(ember.namesrv) as mq:
        mq.send_many(Message(topic, b"%d" % number) for number in range(100))
        bodies = []
        for batch in mq.consume(topic, group=group, timeout=QUIET_S).batches(max_items=64, max_wait=0.2):
            bodies += [int(each.body) for each in batch]
            batch.ack()
    assert sorted(bodies) == list(range(100))


def test_only_wanted_tags_come_to_a_group(ember: Served) -> None:
    topic, group = a_name("tags"), a_name("g")
    with Client(ember.namesrv) as mq:
        mq.send_many(Message(topic, b"%d" % n, tags=("eu", "us", "asia")[n % 3]) for n in range(60))
        got = []
        for message in mq.consume(topic, group=group, filter="eu || us", timeout=QUIET_S):
            with message:
                got.append(message.tags)
    assert sorted(got) == ["eu"] * 20 + ["us"] * 20  # type: ignore[type-var]


def test_a_client_of_one_thread_serves_many(ember: Served) -> None:
    topic = a_name("threads")
    with Client(ember.namesrv) as mq:
        receipts: list[SendReceipt] = []
        threads = [threading.Thread(target=lambda: receipts.append(mq.send(topic, b"x"))) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len({receipt.message_id for receipt in receipts}) == 16


def test_a_child_process_goes_on_with_connections_of_its_own(ember: Served) -> None:
    topic = a_name("forks")
    with Client(ember.namesrv) as mq:
        mq.send(topic, b"parent")
        child = os.fork()
        if child == 0:  # nothing of the test may run in the child
            status = 1
            try:
                mq.send(topic, b"child")
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        mq.send(topic, b"parent again")
        found = list(mq.read(topic))
    assert sorted(message.body for message in found) == [b"child", b"parent", b"parent again"]
    assert len({message.properties["UNIQ_KEY"] for message in found}) == 3


def test_nobody_at_the_address_is_an_error_in_time() -> None:
    with (
        Client("127.0.0.1:1", timeout=1.0) as mq,
        pytest.raises((ConnectionLost, CallTimeout), match=r"127\.0\.0\.1:1"),
    ):
        mq.send("orders", b"x")


def test_a_name_server_that_is_away_is_passed_over(ember: Served) -> None:
    with Client(f"127.0.0.1:1;{ember.namesrv}") as mq:
        assert mq.send(a_name("orders"), b"x").offset == 0


def test_a_send_waits_for_a_server_that_is_being_restarted(tmp_path: Path) -> None:
    with serving(tmp_path) as first, Client(first.namesrv, timeout=20) as mq:
        mq.send(a_name("known"), b"x")
        assert first.stop() == 0
        outcome: list[object] = []
        sender = threading.Thread(target=lambda: outcome.append(mq.send(a_name("unknown"), b"y")))
        sender.start()
        with serving(tmp_path, listen=first.broker, namesrv_listen=first.namesrv):
            sender.join(20)
            assert [receipt.offset for receipt in outcome] == [0]  # type: ignore[attr-defined]


def test_sends_and_groups_outlive_a_restart_of_the_server(tmp_path: Path) -> None:
    topic, group = a_name("orders"), a_name("billing")
    got: list[bytes] = []
    is_done = threading.Event()
    with serving(tmp_path, durability="sync") as first:
        mq = Client(first.namesrv, timeout=15)

        def consume() -> None:
            for message in mq.consume(topic, group=group):
                with message:
                    got.append(message.body)
                if message.body == b"after":
                    break
            is_done.set()

        with mq:
            mq.send(topic, b"before")
            thread = threading.Thread(target=consume)
            thread.start()
            wait_until(lambda: got == [b"before"])
            first.process.send_signal(signal.SIGTERM)
            first.process.wait(20)
            with serving(tmp_path, listen=first.broker, namesrv_listen=first.namesrv, durability="sync"):
                mq.send(topic, b"after")
                assert is_done.wait(30)
                thread.join()
    assert got[0] == b"before" and got[-1] == b"after"


def test_nothing_that_was_acknowledged_is_lost_when_the_server_is_killed(tmp_path: Path) -> None:
    topic, group = a_name("orders"), a_name("billing")
    acknowledged: set[bytes] = set()
    got: list[bytes] = []

    async def produce(mq: AsyncClient, stop: asyncio.Event) -> None:
        while not stop.is_set():
            body = b"%d" % len(acknowledged)
            await mq.send(topic, body, timeout=30)
            acknowledged.add(body)

    async def consume(mq: AsyncClient) -> None:
        async for message in mq.consume(topic, group=group):
            async with message:
                got.append(message.body)

    async def reach(count: int) -> None:
        while len(acknowledged) < count or not acknowledged <= set(got):
            await asyncio.sleep(0.01)

    async def work() -> None:
        stop = asyncio.Event()
        with serving(tmp_path, durability="sync") as first:
            async with AsyncClient(first.namesrv) as producer, AsyncClient(first.namesrv) as consumer:
                tasks = [asyncio.create_task(produce(producer, stop))]
                await asyncio.sleep(0)
                while not acknowledged:
                    await asyncio.sleep(0.01)
                tasks.append(asyncio.create_task(consume(consumer)))
                await reach(100)
                first.process.kill()
                first.process.wait()
                before = len(acknowledged)
                with serving(tmp_path, listen=first.broker, namesrv_listen=first.namesrv, durability="sync"):
                    while len(acknowledged) < before + 100:
                        await asyncio.sleep(0.01)
                    stop.set()
                    await tasks[0]
                    await reach(before + 100)
                    tasks[1].cancel()
                    await asyncio.gather(tasks[1], return_exceptions=True)

    run(work)
    assert acknowledged <= set(got)
