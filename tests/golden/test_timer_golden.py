"""RocketMQ's timer files: read, written again byte for byte; and what waits in its store comes when it is due."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from embermq.broker.broker import Broker
from embermq.format.timer_check import decode_timer_check, encode_timer_page
from embermq.format.timer_metrics import decode_timer_metrics, encode_timer_metrics
from embermq.format.timer_slot import TIMER_SLOT, WHEEL_SIZE, TimerSlot, encode_timer_slot
from embermq.format.timer_unit import TimerUnit, decode_timer_unit, encode_timer_unit
from embermq.model.version import DataVersion
from tests.builders import ManualClock
from tests.conftest import Golden
from tests.unit.broker.brokers import until, with_broker

STORE_SIZES = {"log_file_size": 65_536, "queue_file_size": 2_000, "index_slots": 50, "index_entries": 200}


@dataclass
class TimerStore:
    path: Path
    expected: dict[str, Any]


@pytest.fixture
def store(golden: Golden) -> TimerStore:
    return TimerStore(golden.store("timer"), golden.expected("timer")["timer"])


def test_units_are_read_and_written(store: TimerStore) -> None:
    data = (store.path / "timerlog" / "0".zfill(20)).read_bytes()
    found = []
    for each in store.expected["log"]:
        unit = decode_timer_unit(data, each["pos"], each["pos"])
        assert unit == TimerUnit(
            each["prevPos"],
            each["magic"],
            each["writeTime"],
            each["delayedTime"],
            each["offsetPy"],
            each["sizePy"],
            each["topicHash"],
            each["reserved"],
        )
        found.append(encode_timer_unit(unit))
    assert b"".join(found).ljust(len(data), b"\0") == data
    assert decode_timer_unit(data, 52 * len(found), 52 * len(found)) is None


def test_slots_are_read_and_written(store: TimerStore) -> None:
    data = (store.path / "timerwheel").read_bytes()
    assert len(data) == store.expected["wheelFileSize"] == WHEEL_SIZE
    slots = {
        number: TimerSlot._make(fields) for number, fields in enumerate(TIMER_SLOT.iter_unpack(data)) if any(fields)
    }
    assert slots == {
        each["slot"]: TimerSlot(each["time"], each["firstPos"], each["lastPos"], each["num"], each["magic"])
        for each in store.expected["slots"]
    }
    made = bytearray(WHEEL_SIZE)
    for number, slot in slots.items():
        made[number * 32 : number * 32 + 32] = encode_timer_slot(slot)
    assert made == data


def test_the_checkpoint_is_read_and_written(store: TimerStore) -> None:
    page = (store.path / "config" / "timercheck").read_bytes()
    check, expected = decode_timer_check(page), store.expected["timercheck"]
    assert check[:4] == tuple(
        expected[name]
        for name in ("lastReadTimeMs", "lastTimerLogFlushPos", "lastTimerQueueOffset", "masterTimerQueueOffset")
    )
    version = expected["dataVersion"]
    assert check.version == DataVersion(version["stateVersion"], version["counter"], version["timestamp"])
    assert encode_timer_page(check) == page


def test_the_metrics_are_read_and_written(store: TimerStore) -> None:
    data = (store.path / "config" / "timermetrics").read_bytes()
    metrics = decode_timer_metrics(data)
    assert {topic: each.messages for topic, each in metrics.waiting.items()} == {"TimerTopic": 4}
    assert encode_timer_metrics(metrics) == data


@pytest.mark.parametrize("lost", [None, "timerwheel", "timerlog/" + "0" * 20])
def test_messages_that_wait_in_a_store_of_rocketmq_come_when_they_are_due(store: TimerStore, lost: str | None) -> None:
    read_time = store.expected["timercheck"]["lastReadTimeMs"]
    clock = ManualClock(read_time + 5_000)
    waiting = [slot["time"] * 1000 for slot in store.expected["slots"] if slot["time"] * 1000 >= read_time]
    if lost is not None:
        (store.path / lost).unlink()

    async def work(broker: Broker) -> None:
        assert broker.timers is not None
        timers = broker.timers.timers
        await until(lambda: timers.behind == 0)
        assert timers.waiting.counts == {"TimerTopic": 4}
        before = {queue: broker.store.offsets("TimerTopic", queue=queue)[1] for queue in (0, 1)}
        came = []
        while (due := timers.next_time()) is not None:
            clock.time_ms = due - 1
            assert timers.next_slot() is None
            clock.time_ms = due
            broker.timers.wake()
            await until(lambda: timers.behind == 0 and timers.next_time() != clock.time_ms)
        for queue, offset in before.items():
            came += [
                (message.properties["TIMER_OUT_MS"], message.properties["UNIQ_KEY"][-4:])
                for message in broker.store.get("TimerTopic", queue=queue, offset=offset)
            ]
        assert timers.waiting.counts == {"TimerTopic": 0}
        # The first of the two in the slot an hour ahead was cancelled.
        assert sorted(came) == sorted(
            [(str(waiting[0]), "0007"), (str(waiting[1]), "0008"), (str(waiting[2]), "0009"), (str(waiting[3]), "000A")]
        )

    with_broker(store.path, work, clock=clock, **STORE_SIZES)
