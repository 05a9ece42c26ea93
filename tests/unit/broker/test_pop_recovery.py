"""What a broker knows of pops after it was killed, or after RocketMQ had the directory."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.lenient_json import parse_lenient
from embermq.format.tables import decode_offsets
from embermq.model.pop import REVIVE_GROUP, Checkpoint, Delivery, retry_topic_of, revive_topic_of
from tests.conftest import Golden
from tests.unit.broker.brokers import until, with_broker
from tests.unit.broker.peers import SteppedClock
from tests.unit.broker.popping import GROUP, TOPIC, PopClient

ON_DISK = {"durability": "sync"}


async def revive(broker: Broker, clock: SteppedClock) -> None:
    """Let the timer bring what is due by now, and what is not acknowledged come back."""

    def is_idle() -> bool:
        assert broker.timers is not None
        broker.timers.wake()
        due = broker.timers.timers.next_time()
        return not broker.timers.timers.behind and (due is None or due > clock.now_ms())

    await until(is_idle)
    await broker.pops.revival.round()


async def pass_time(broker: Broker, clock: SteppedClock, *, steps: int) -> None:
    """Let so many times three seconds go by."""
    for _ in range(steps):
        clock.advance(ms=3_000)
        await revive(broker, clock)


def test_what_was_popped_before_a_crash_is_not_given_to_others(tmp_path: Path) -> None:
    async def pop(broker: Broker) -> None:
        client = PopClient(broker)
        for number in range(4):
            await client.send(TOPIC, b"%d" % number)
        await client.pop(maxMsgNums=1)
        broker.pops.progress.settle()
        broker.offsets.save()
        assert len(await client.pop(maxMsgNums=2)) == 2
        shutil.copytree(tmp_path / "first", tmp_path / "crashed")

    async def look(broker: Broker) -> None:
        assert broker.offsets.find(TOPIC, GROUP, 0) == 3
        assert [each.offset for each in await PopClient(broker).pop()] == [3]

    with_broker(tmp_path / "first", pop, **ON_DISK)
    with_broker(tmp_path / "crashed", look, **ON_DISK)


def test_a_clean_stop_leaves_offsets_behind_all_that_was_popped(tmp_path: Path) -> None:
    """RocketMQ, which goes on with the directory, knows no other way to tell."""

    async def pop(broker: Broker) -> None:
        client = PopClient(broker)
        for number in range(4):
            await client.send(TOPIC, b"%d" % number)
        await client.pop()

    with_broker(tmp_path, pop, durability="async", flush_interval_ms=60_000)
    saved = decode_offsets((tmp_path / "config" / "consumerOffset.json").read_bytes())
    assert saved.offsets[TOPIC, GROUP][0] == 4


def test_offsets_that_rocketmq_saved_are_moved_by_newer_checkpoints_alone(tmp_path: Path) -> None:
    async def pop(broker: Broker) -> None:
        client = PopClient(broker)
        for number in range(4):
            await client.send(TOPIC, b"%d" % number)
        await client.pop()

    path = tmp_path / "config" / "consumerOffset.json"
    with_broker(tmp_path, pop)
    members = parse_lenient(path.read_text())
    assert isinstance(members, dict)
    assert members.pop("logPosition") > 0
    members["offsetTable"]["orders@billing"]["0"] = 1  # an operator sent the group back, and RocketMQ saved it
    path.write_text(json.dumps(members))
    found: list[int | None] = []

    async def look(broker: Broker) -> None:
        found.append(broker.offsets.find(TOPIC, GROUP, 0))

    with_broker(tmp_path, look)
    os.utime(path, (0, 0))  # as if all checkpoints came after it
    with_broker(tmp_path, look)
    assert found == [1, 4]


def test_what_was_not_acknowledged_comes_again_and_what_was_does_not(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def pop(broker: Broker) -> None:
        client = PopClient(broker)
        for number in range(4):
            await client.send(TOPIC, b"%d" % number)
        messages = await client.pop()
        await client.ack_batch(messages[:2])

    async def look(broker: Broker) -> None:
        client = PopClient(broker)
        await pass_time(broker, clock, steps=4)
        found = await client.pop()
        assert [(each.body, each.retries, each.topic) for each in found] == [
            (body, 1, retry_topic_of(TOPIC, GROUP)) for body in (b"2", b"3")
        ]
        assert (await client.ack_batch(found)).code == 0
        await pass_time(broker, clock, steps=6)
        assert await client.pop() == []

    with_broker(tmp_path, pop, clock=clock)
    with_broker(tmp_path, look, clock=clock)


def test_what_was_revived_is_not_revived_again_after_a_crash(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def pop(broker: Broker) -> None:
        client = PopClient(broker)
        await client.send(TOPIC, b"once more")
        await client.pop()
        await pass_time(broker, clock, steps=4)
        assert broker.store.offsets(retry_topic_of(TOPIC, GROUP), queue=0)[1] == 1
        shutil.copytree(tmp_path / "first", tmp_path / "crashed")  # the progress was not saved

    async def look(broker: Broker) -> None:
        await pass_time(broker, clock, steps=3)
        assert broker.store.offsets(retry_topic_of(TOPIC, GROUP), queue=0)[1] == 1

    with_broker(tmp_path / "first", pop, clock=clock, **ON_DISK)
    with_broker(tmp_path / "crashed", look, clock=clock, **ON_DISK)


@pytest.mark.parametrize("gone", ["topic", "group"])
def test_what_belongs_to_nobody_is_not_revived(tmp_path: Path, gone: str) -> None:
    clock = SteppedClock()

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await client.send(TOPIC, b"nobody's")
        await client.pop()
        if gone == "topic":
            broker.topics.delete(TOPIC)
        else:
            broker.groups.delete(GROUP)
        await pass_time(broker, clock, steps=4)
        assert broker.topics.find(retry_topic_of(TOPIC, GROUP)) is None
        assert [queue.pending for queue in broker.pops.revival.figures()] == [0] * 8

    with_broker(tmp_path, work, clock=clock)


def test_a_message_whose_properties_leave_no_room_for_a_handle_comes_again_all_the_same(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        for body, size in ((b"full", 32_600), (b"fuller", 32_650), (b"usual", 10)):
            assert (await client.send(TOPIC, body, large="x" * size)).code == 0
        assert len(await client.pop()) == 3
        await pass_time(broker, clock, steps=4)
        found = [each for _ in range(3) for each in await client.pop()]
        assert sorted((each.body, each.retries) for each in found) == [(b"full", 1), (b"fuller", 1), (b"usual", 1)]
        for each in found:
            assert (await client.ack(each)).code == 0
        await pass_time(broker, clock, steps=6)
        assert await client.pop() == []

    with_broker(tmp_path, work, clock=clock)


def test_what_cannot_be_revived_keeps_nothing_else_waiting(tmp_path: Path) -> None:
    """A checkpoint of RocketMQ's, say, whose retry topic can have no name."""
    clock, long = SteppedClock(), "g" * 250

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await client.send(TOPIC, b"comes again")
        broker.groups.read(long)
        bad = Checkpoint(Delivery(TOPIC, long, 0, 0, clock.now_ms(), "broker-a"), (0,), 1_000)
        await broker.puts.put([broker.pops.log.checkpoint(bad, 0)])
        await client.pop()
        await pass_time(broker, clock, steps=8)
        (found,) = await client.pop(invisibleTime=600_000)
        assert (found.body, found.retries) == (b"comes again", 1)
        assert [queue.pending for queue in broker.pops.revival.figures()] == [1]  # it is tried again
        broker.groups.delete(long)
        clock.advance(ms=60_000)
        await revive(broker, clock)
        assert [queue.pending for queue in broker.pops.revival.figures()] == [0]

    with_broker(tmp_path, work, clock=clock, settings=BrokerSettings(revive_queues=1))


def test_messages_of_a_topic_that_is_made_again_are_not_taken_for_those_of_the_old_one(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await client.send(TOPIC, b"old")
        await client.pop()
        broker.topics.delete(TOPIC)
        clock.advance(ms=100)
        for body in (b"new", b"popped, and not acknowledged"):
            await client.send(TOPIC, body)
        first, _ = await client.pop()
        assert first.body == b"new"
        assert (await client.ack(first)).code == 0
        await pass_time(broker, clock, steps=5)
        assert [each.body for each in await client.pop()] == [b"popped, and not acknowledged"]

    with_broker(tmp_path, work, clock=clock)


def test_a_directory_of_rocketmq_is_continued(golden: Golden) -> None:
    """RocketMQ stopped with pops that were neither acknowledged nor revived."""
    clock = SteppedClock(1_794_776_100_000)
    topic, retry = revive_topic_of("DefaultCluster"), retry_topic_of("PopTopic", "GID_pop")
    path = golden.store("pop")

    async def work(broker: Broker) -> None:
        assert broker.pops.log.queues == 2
        before = broker.store.offsets(retry, queue=0)[1]
        for _ in range(6):
            clock.advance(ms=5_000)
            await revive(broker, clock)
        assert [queue.pending for queue in broker.pops.revival.figures()] == [0, 0]
        ends = [broker.store.offsets(topic, queue=queue)[1] for queue in range(2)]
        done = [broker.offsets.find(topic, REVIVE_GROUP, queue) for queue in range(2)]
        assert [end - 1 for end in ends] == done
        client = PopClient(broker, topic="PopTopic", group="GID_pop")
        assert broker.store.offsets(retry, queue=0)[1] >= before
        assert await client.pop()

    with_broker(path, work, clock=clock, **sizes_of(path))


def sizes_of(path: Path) -> dict[str, int]:
    """The file sizes that a directory was made with."""
    log = next((path / "commitlog").iterdir()).stat().st_size
    queue = next((path / "consumequeue" / "PopTopic" / "0").iterdir()).stat().st_size
    return {"log_file_size": log, "queue_file_size": queue}


def test_what_is_delivered_again_is_with_nobody(tmp_path: Path) -> None:
    clock = SteppedClock()

    async def work(broker: Broker) -> None:
        client = PopClient(broker)
        await client.send(TOPIC, b"0")
        assert len(await client.pop(invisibleTime=2_000)) == 1
        await client.send(TOPIC, b"1")
        assert await client.pop() == []
        clock.advance(ms=5_000)
        await revive(broker, clock)
        assert sorted(each.body for each in await client.pop()) == [b"0", b"1"]

    with_broker(tmp_path, work, clock=clock, settings=BrokerSettings(limits_popped=True, max_popped=1))
