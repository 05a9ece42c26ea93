"""Staged batches through the client, at one broker and at two."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq import AsyncClient, Message
from embermq.client.outgoing import prepare
from embermq.client.staging import merge_plans
from embermq.errors import IllegalMessage, MessageNotFound, NotPermitted
from embermq.model.staged import Plan
from tests.crash.served import ServerProcess
from tests.e2e.conftest import Served, serving
from tests.free_ports import free_port

TIMEOUT = 20.0


async def stage(mq: AsyncClient, job: str, task: str, topic: str, bodies: list[bytes]) -> Plan:
    writer = mq.staging(job, timeout=TIMEOUT).writer(task)
    for number, body in enumerate(bodies):
        await writer.add(prepare(Message(topic, body, tags="eu", keys=[f"k{number}"]), ""))
    return await writer.finish()


async def read(mq: AsyncClient, topic: str) -> Counter[bytes]:
    return Counter([message.body async for message in mq.read(topic)])


def bodies_of(count: int, *, size: int = 10) -> list[bytes]:
    return [(b"%d" % number).ljust(size, b".") for number in range(count)]


def test_what_many_workers_staged_is_published_at_once(ember: Served) -> None:
    bodies = bodies_of(3000, size=2000)  # more than one chunk

    async def run() -> None:
        async with AsyncClient(ember.namesrv) as mq:
            plans = [await stage(mq, "many", f"task-{part}", "staged-many", bodies[part::3]) for part in range(3)]
            assert await read(mq, "staged-many") == Counter()
            staging = mq.staging("many", timeout=TIMEOUT)
            assert await staging.publish(0, merge_plans(plans), ["staged-many"])
            assert not await staging.publish(0, merge_plans(plans), ["staged-many"])
            assert await read(mq, "staged-many") == Counter(bodies)

    asyncio.run(run())


def test_a_batch_that_is_written_again_is_published_once_and_not_kept(ember: Served) -> None:
    async def run() -> None:
        async with AsyncClient(ember.namesrv) as mq:
            staging = mq.staging("again", timeout=TIMEOUT)
            for attempt in range(3):
                plan = await stage(mq, "again", f"attempt-{attempt}", "staged-again", [b"1", b"2"])
                assert await staging.publish(5, plan, ["staged-again"]) == (attempt == 0)
            assert await read(mq, "staged-again") == Counter([b"1", b"2"])

    asyncio.run(run())
    assert list((ember.data / "staged" / "again").glob("*.chunks")) == []


def test_what_was_discarded_cannot_be_published(ember: Served) -> None:
    async def run() -> None:
        async with AsyncClient(ember.namesrv) as mq:
            staging = mq.staging("dropped", timeout=TIMEOUT)
            plan = await stage(mq, "dropped", "task", "staged-dropped", [b"1"])
            await staging.discard(plan, ["staged-dropped"])
            with pytest.raises(MessageNotFound, match="write the batch again"):
                await staging.publish(0, plan, ["staged-dropped"])

    asyncio.run(run())


def test_what_a_broker_refuses_says_why(ember: Served) -> None:
    async def run() -> None:
        async with AsyncClient(ember.namesrv) as mq:
            with pytest.raises(NotPermitted, match="belongs to the broker"):
                await stage(mq, "refused", "task", "SCHEDULE_TOPIC_XXXX", [b"1"])
            writer = mq.staging("refused", timeout=TIMEOUT).writer("task")
            await writer.add(prepare(Message("staged-x", b"1", properties={"TIMER_DELIVER_MS": "9" * 13}), ""))
            with pytest.raises(IllegalMessage, match="further away than"):
                await writer.finish()

    asyncio.run(run())


def test_an_empty_batch_is_nothing_to_publish(ember: Served) -> None:
    async def run() -> None:
        async with AsyncClient(ember.namesrv) as mq:
            assert not await mq.staging("empty", timeout=TIMEOUT).publish(0, {}, [])

    asyncio.run(run())


@pytest.fixture
def two_brokers(tmp_path: Path) -> Iterator[tuple[str, list[ServerProcess]]]:
    """The address of a name server, and two brokers that it knows."""
    folder = tmp_path / "second"
    folder.mkdir()
    with serving(tmp_path) as first:
        config, port = folder / "ember.toml", free_port()
        config.write_text(
            f'[server]\nport = {port}\nlisten = "127.0.0.1"\nhttp_port = -1\nstore_path = "{folder}/data"\n'
            '[broker]\nname = "broker-b"\nregister_interval_ms = 1000\n[store]\ndurability = "async"\n'
        )
        with ServerProcess(folder, "broker", "-c", str(config), "-n", first.namesrv) as second:
            yield first.namesrv, [second]


def test_a_batch_at_two_brokers_is_there_once_whoever_goes_away(two_brokers: tuple[str, list[ServerProcess]]) -> None:
    """The first broker has published when the writer dies; it comes back and divides the batch otherwise."""
    namesrv, (second,) = two_brokers
    bodies = bodies_of(40)

    async def run() -> None:
        async with AsyncClient(namesrv, timeout=TIMEOUT) as mq:
            await _until_two_brokers(mq)
            plan = await stage(mq, "two", "first", "both", bodies)
            assert sorted(plan) == ["broker-a", "broker-b"]
            second.kill()  # so that publishing stops after the first broker
            with pytest.raises(Exception, match="broker-b"):
                await mq.staging("two", timeout=1.0).publish(0, plan, ["both"])
            await asyncio.to_thread(second.start)
        async with AsyncClient(namesrv, timeout=TIMEOUT) as mq:
            await _until_two_brokers(mq)
            again = await stage(mq, "two", "second", "both", bodies[::-1])
            staging = mq.staging("two", timeout=TIMEOUT)
            assert await staging.publish(0, again, ["both"])
            assert not await staging.publish(0, again, ["both"])
            assert await read(mq, "both") == Counter(bodies)

    asyncio.run(run())


async def _until_two_brokers(mq: AsyncClient) -> None:
    """Wait until the name server tells of both; a new topic is then made at both."""
    deadline = asyncio.get_running_loop().time() + TIMEOUT
    while len({queue.broker for queue in (await mq._routes.find_writable("TBW102", refresh=True)).write_queues}) < 2:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)
