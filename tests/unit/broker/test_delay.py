"""Delayed messages: never early, in order, once; and after a restart where they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.format.tables import decode_delays
from embermq.model.topic import SCHEDULE_TOPIC
from tests.builders import ManualClock
from tests.unit.broker.brokers import Client, until, with_broker

LEVELS = {"delay_levels": "1s 5s 1m"}


def bodies(broker: Broker, topic: str = "orders", queue: int = 0) -> list[bytes]:
    return [message.body for message in broker.store.get(topic, queue=queue, offset=0, limit=1000)]


async def arrive(broker: Broker, expected: list[bytes], **place: object) -> None:
    await until(lambda: bodies(broker, **place) == expected)  # type: ignore[arg-type]


def test_a_message_comes_when_it_is_due_and_not_before(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        answer = await client.send(queue=2, body=b"later", DELAY="2", TAGS="t", KEYS="k", UNIQ_KEY="ID", mine="kept")
        assert (answer.code, answer.fields["queueId"]) == (0, "2")
        await client.send(queue=2, body=b"now")
        await arrive(broker, [b"now"], queue=2)
        (parked,) = broker.store.get(SCHEDULE_TOPIC, queue=1, offset=0)
        assert broker.store.find(answer.fields["msgId"]) == parked
        clock.advance(ms=4_999)
        await client.send(queue=2, body=b"meanwhile")
        await arrive(broker, [b"now", b"meanwhile"], queue=2)
        clock.advance(ms=1)
        await arrive(broker, [b"now", b"meanwhile", b"later"], queue=2)
        delivered = broker.store.get("orders", queue=2, offset=2)[0]
        assert (delivered.tags, delivered.keys, delivered.flag) == ("t", ("k",), parked.flag)
        assert delivered.born_time == parked.born_time
        assert {"UNIQ_KEY": "ID", "mine": "kept"}.items() <= delivered.properties.items()
        assert delivered.store_time_ms == clock.now_ms()

    with_broker(tmp_path / "store", work, clock=clock, **LEVELS)


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_many_messages_come_once_each_and_in_order(tmp_path: Path, durability: str) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        for number in range(150):
            await client.send(body=b"%d" % number, DELAY="1")
        clock.advance(ms=1_000)
        await arrive(broker, [b"%d" % number for number in range(150)])
        assert broker.delays.table().offsets == {1: 150}

    with_broker(tmp_path / "store", work, clock=clock, durability=durability, **LEVELS)


def test_levels_beyond_the_last_are_the_last(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        await Client(broker).send(DELAY="99")
        assert len(broker.store.get(SCHEDULE_TOPIC, queue=2, offset=0)) == 1

    with_broker(tmp_path / "store", work, **LEVELS)


@pytest.mark.parametrize("level", ["0", "-1", "x", "1.5"])
def test_what_is_no_level_delays_nothing(tmp_path: Path, level: str) -> None:
    async def work(broker: Broker) -> None:
        await Client(broker).send(DELAY=level)
        assert bodies(broker) == [b"hello"]

    with_broker(tmp_path / "store", work, **LEVELS)


def test_progress_survives_a_restart_and_nothing_comes_twice(tmp_path: Path) -> None:
    clock = ManualClock()

    async def before(broker: Broker) -> None:
        client = Client(broker)
        await client.send(body=b"first", DELAY="1")
        clock.advance(ms=1_000)
        await arrive(broker, [b"first"])
        await client.send(body=b"second", DELAY="1")

    async def after(broker: Broker) -> None:
        clock.advance(ms=1_000)
        await arrive(broker, [b"first", b"second"])

    with_broker(tmp_path / "store", before, clock=clock, **LEVELS)
    assert decode_delays((tmp_path / "store/config/delayOffset.json").read_bytes()).offsets == {1: 1}
    with_broker(tmp_path / "store", after, clock=clock, **LEVELS)


def test_a_clock_set_back_does_not_hold_messages_for_longer_than_their_level(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        await Client(broker).send(body=b"x", DELAY="1")
        clock.advance(hours=-5)
        await arrive(broker, [b"x"])

    with_broker(tmp_path / "store", work, clock=clock, **LEVELS)


def test_a_message_of_a_deleted_topic_does_not_stop_the_others(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send("doomed", DELAY="1")
        await client.send("orders", b"fine", DELAY="1")
        broker.topics.delete("doomed")
        clock.advance(ms=1_000)
        await arrive(broker, [b"fine"])
        assert broker.topics.find("doomed") is None

    with_broker(tmp_path / "store", work, clock=clock, **LEVELS)
