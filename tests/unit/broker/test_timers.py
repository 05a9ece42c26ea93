"""Messages for any time: never early, in order, once; recalled, rolled, and after a restart where they were."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.recall_handle import RecallHandle, decode_recall_handle, encode_recall_handle
from embermq.format.timer_check import decode_timer_check
from embermq.model.codes import ResponseCode
from embermq.model.topic import TIMER_TOPIC
from tests.builders import ManualClock
from tests.unit.broker.brokers import Client, send_fields, until, with_broker


def bodies(broker: Broker, topic: str = "orders", queue: int = 0) -> list[bytes]:
    return [message.body for message in broker.store.get(topic, queue=queue, offset=0, limit=1000)]


async def arrive(broker: Broker, expected: list[bytes], topic: str = "orders", queue: int = 0) -> None:
    wake(broker)
    await until(lambda: bodies(broker, topic, queue) == expected)


def wake(broker: Broker) -> None:
    """The clock was moved; nobody sleeps until a second has passed."""
    assert broker.timers is not None
    broker.timers.wake()


def waiting(broker: Broker) -> Mapping[str, int]:
    assert broker.timers is not None
    return broker.timers.timers.waiting.counts


async def enqueued(broker: Broker) -> None:
    """Until everything that is in the timer's topic is in its wheel."""
    assert broker.timers is not None
    timers = broker.timers.timers
    await until(lambda: timers.queue_offset == broker.store.offsets(TIMER_TOPIC, queue=0)[1])


def a_clock() -> ManualClock:
    clock = ManualClock()
    clock.advance(ms=-(clock.now_ms() % 1000))  # at the beginning of a step
    return clock


@pytest.mark.parametrize(
    ("name", "value"),
    [("TIMER_DELAY_MS", "4500"), ("TIMER_DELAY_SEC", "5"), ("TIMER_DELIVER_MS", "+4700")],
)
def test_a_message_comes_when_it_is_due_and_not_before(tmp_path: Path, name: str, value: str) -> None:
    clock = a_clock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        time = str(clock.now_ms() + int(value)) if value.startswith("+") else value
        fields = {"TAGS": "t", "KEYS": "k", "UNIQ_KEY": "ID", "mine": "kept", name: time}
        answer = await client.send(queue=2, body=b"later", **fields)
        assert (answer.code, answer.fields["queueId"]) == (0, "2")
        (parked,) = broker.store.get(TIMER_TOPIC, queue=0, offset=0)
        assert broker.store.find(answer.fields["msgId"]) == parked
        await enqueued(broker)
        clock.advance(ms=4_999)
        await client.send(queue=2, body=b"meanwhile")
        await arrive(broker, [b"meanwhile"], queue=2)
        clock.advance(ms=1)
        await arrive(broker, [b"meanwhile", b"later"], queue=2)
        delivered = broker.store.get("orders", queue=2, offset=1)[0]
        assert (delivered.tags, delivered.keys, delivered.born_time) == ("t", ("k",), parked.born_time)
        assert {"UNIQ_KEY": "ID", "mine": "kept", name: time}.items() <= delivered.properties.items()
        assert delivered.store_time_ms == clock.now_ms()

    with_broker(tmp_path / "store", work, clock=clock)


@pytest.mark.parametrize("has_kernels", [False, True])
@pytest.mark.parametrize("size", [32_450, 32_540, 32_580])
def test_a_message_whose_properties_leave_no_room_for_times_comes_all_the_same(
    tmp_path: Path, size: int, has_kernels: bool
) -> None:
    clock = a_clock()

    async def work(broker: Broker) -> None:
        if has_kernels:
            assert broker.timers is not None
            broker.timers.use_kernels()
        for body in (b"first", b"second"):
            answer = await Client(broker).send(body=body, large="x" * size, TIMER_DELAY_SEC="3")
            assert answer.code == 0, answer.remark
        await enqueued(broker)
        clock.advance(ms=3_000)
        await arrive(broker, [b"first", b"second"])
        (delivered, _) = broker.store.get("orders", queue=0, offset=0)
        assert delivered.properties["large"] == "x" * size

    with_broker(tmp_path / "store", work, clock=clock)


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_many_messages_come_once_each_and_in_order(tmp_path: Path, durability: str) -> None:
    clock = a_clock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        for number in range(300):
            await client.send(body=b"%d" % number, TIMER_DELAY_SEC="3")
        await until(lambda: waiting(broker) == {"orders": 300})
        clock.advance(ms=3_000)
        await arrive(broker, [b"%d" % number for number in range(300)])
        await until(lambda: waiting(broker) == {"orders": 0})

    settings = BrokerSettings(timer_file_size=1040)
    with_broker(tmp_path / "store", work, clock=clock, settings=settings, durability=durability)


@pytest.mark.parametrize("asked", [{"TIMER_DELIVER_MS": "5"}, {"TIMER_DELAY_MS": "-3"}, {"TIMER_DELAY_SEC": "0"}])
def test_a_time_that_has_passed_is_now(tmp_path: Path, asked: dict[str, str]) -> None:
    async def work(broker: Broker) -> None:
        answer = await Client(broker).send(**asked)
        assert answer.code == 0 and "recallHandle" not in answer.fields
        assert bodies(broker) == [b"hello"]

    with_broker(tmp_path / "store", work)


@pytest.mark.parametrize(
    ("delay", "code"), [("60", 0), ("61", 13), ("9999999999999999", 13), ("soon", 13), ("9" * 30, 13)]
)
def test_a_time_beyond_the_limit_is_refused_with_the_limit(tmp_path: Path, delay: str, code: int) -> None:
    async def work(broker: Broker) -> None:
        answer = await Client(broker).send(TIMER_DELAY_SEC=delay)
        assert answer.code == code
        if delay == "61":
            assert "60 s (timer_max_delay_s)" in (answer.remark or "")

    with_broker(tmp_path / "store", work, clock=a_clock(), settings=BrokerSettings(timer_max_delay_s=60))


def test_without_timers_a_time_is_refused_and_a_level_is_not(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        assert (await client.send(TIMER_DELAY_SEC="5")).code == 3
        assert (await client.send(TIMER_DELAY_SEC="5", DELAY="1")).code == 0
        assert broker.topics.find(TIMER_TOPIC) is None

    with_broker(tmp_path / "store", work, settings=BrokerSettings(timers=False))


def test_a_slot_takes_so_many_messages_and_no_more(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        for _ in range(2):
            assert (await client.send(TIMER_DELAY_SEC="5")).code == 0
            await enqueued(broker)
        refusal = await client.send(TIMER_DELAY_SEC="5")
        assert refusal.code == 13 and "limit 2" in (refusal.remark or "")
        assert (await client.send(TIMER_DELAY_SEC="6")).code == 0

    with_broker(tmp_path / "store", work, clock=a_clock(), settings=BrokerSettings(timer_slot_limit=2))


def test_a_recalled_message_never_comes(tmp_path: Path) -> None:
    clock = a_clock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        sent = [
            await client.send(body=b"%d" % number, TIMER_DELAY_SEC="4", UNIQ_KEY=f"U{number}") for number in range(3)
        ]
        handle = sent[1].fields["recallHandle"]
        assert decode_recall_handle(handle)[:2] == ("orders", "broker-a")
        answer = await client.ask(370, {"topic": "orders", "recallHandle": handle, "producerGroup": "p"})
        assert (answer.code, answer.fields) == (0, {"msgId": "U1"})
        await enqueued(broker)
        assert waiting(broker) == {"orders": 2}
        clock.advance(ms=4_000)
        await arrive(broker, [b"0", b"2"])

    with_broker(tmp_path / "store", work, clock=clock)


def test_a_recall_that_cannot_be_is_refused_and_says_why(tmp_path: Path) -> None:
    clock = a_clock()
    now = clock.now_ms()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send()

        async def refusal(handle: str, topic: str = "orders") -> tuple[int, str]:
            answer = await client.ask(370, {"topic": topic, "recallHandle": handle})
            return answer.code, answer.remark or ""

        good = RecallHandle("orders", "broker-a", now + 5_000, "U")
        for handle, word in (
            ("nonsense", "cannot be read"),
            (encode_recall_handle(good._replace(topic="other")), "topic"),
            (encode_recall_handle(good._replace(broker="broker-b")), "broker"),
            (encode_recall_handle(good._replace(time_ms=now)), "due"),
            (encode_recall_handle(good._replace(time_ms=now + 10**12)), "limit"),
        ):
            code, remark = await refusal(handle)
            assert code == 604 and word in remark
        assert (await refusal(encode_recall_handle(good), topic="none"))[0] == 17
        code, remark = await refusal(encode_recall_handle(good._replace(unique_key="U\x02TAGS\x01x")))
        assert code == ResponseCode.MESSAGE_ILLEGAL and "0x02" in remark
        fields = {"topic": "orders", "recallHandle": encode_recall_handle(good), "producerGroup": "\ud800"}
        assert (await client.ask(370, fields)).code == ResponseCode.MESSAGE_ILLEGAL

    with_broker(tmp_path / "store", work, clock=clock)


def test_nobody_cancels_messages_of_a_topic_that_is_not_the_senders(tmp_path: Path) -> None:
    clock = a_clock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send(body=b"mine", TIMER_DELAY_SEC="4", UNIQ_KEY="U")
        await client.send("other", TIMER_DELAY_SEC="4", TIMER_DEL_UNIQKEY="orders+U")
        await enqueued(broker)
        clock.advance(ms=4_000)
        await arrive(broker, [b"mine"])

    with_broker(tmp_path / "store", work, clock=clock)


def test_what_waits_longer_than_the_window_is_rolled_and_comes_once(tmp_path: Path) -> None:
    clock = a_clock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        sent = await client.send(body=b"cancelled", TIMER_DELAY_SEC="40", UNIQ_KEY="C")
        await client.send(body=b"far", TIMER_DELAY_SEC="40", UNIQ_KEY="F")
        recalled = await client.ask(370, {"topic": "orders", "recallHandle": sent.fields["recallHandle"]})
        assert recalled.code == 0
        for _ in range(39):
            await enqueued(broker)
            clock.advance(ms=1_000)
            wake(broker)
            await until(lambda: broker.timers.timers.next_slot() is None)  # type: ignore[union-attr]
        assert bodies(broker) == []
        await enqueued(broker)
        clock.advance(ms=1_000)
        await arrive(broker, [b"far"])
        (delivered,) = broker.store.get("orders", queue=0, offset=0)
        assert int(delivered.properties["TIMER_ROLL_TIMES"]) >= 3

    with_broker(tmp_path / "store", work, clock=clock, settings=BrokerSettings(timer_roll_slots=10))


def test_a_restart_forgets_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    clock = a_clock()

    async def before(broker: Broker) -> None:
        client = Client(broker)
        await client.send(body=b"first", TIMER_DELAY_SEC="1")
        await client.send(body=b"second", TIMER_DELAY_SEC="3")
        await enqueued(broker)
        clock.advance(ms=1_000)
        await arrive(broker, [b"first"])

    async def after(broker: Broker) -> None:
        assert waiting(broker) == {"orders": 1}
        clock.advance(ms=2_000)
        await arrive(broker, [b"first", b"second"])

    with_broker(tmp_path / "store", before, clock=clock)
    check = decode_timer_check((tmp_path / "store/config/timercheck").read_bytes())
    assert (check.queue_offset, check.log_place) == (2, 104)
    with_broker(tmp_path / "store", after, clock=clock)


@pytest.mark.parametrize("lost", ["timerwheel", "timerlog/00000000000000000000", "config/timermetrics"])
def test_lost_files_are_made_again_from_the_log(tmp_path: Path, lost: str) -> None:
    clock = a_clock()
    path = tmp_path / "store"

    async def before(broker: Broker) -> None:
        client = Client(broker)
        await client.send(body=b"first", TIMER_DELAY_SEC="1")
        for number in range(3):
            await client.send(body=b"later %d" % number, TIMER_DELAY_SEC="3")
        await enqueued(broker)
        clock.advance(ms=1_000)
        await arrive(broker, [b"first"])

    async def after(broker: Broker) -> None:
        await enqueued(broker)
        assert waiting(broker) == {"orders": 3}
        clock.advance(ms=2_000)
        await arrive(broker, [b"first", b"later 0", b"later 1", b"later 2"])

    with_broker(path, before, clock=clock)
    (path / lost).unlink()
    (path / "abort").touch()
    (path / "config/timermetrics.bak").unlink(missing_ok=True)
    with_broker(path, after, clock=clock)


def test_another_precision_is_taken_over(tmp_path: Path) -> None:
    clock = a_clock()

    async def before(broker: Broker) -> None:
        await Client(broker).send(body=b"x", TIMER_DELAY_MS="2300")
        await enqueued(broker)

    async def after(broker: Broker) -> None:
        await enqueued(broker)
        clock.advance(ms=2_399)
        assert bodies(broker) == []
        clock.advance(ms=1)
        await arrive(broker, [b"x"])

    with_broker(tmp_path / "store", before, clock=clock, settings=BrokerSettings(timer_precision_ms=100))
    with_broker(tmp_path / "store", after, clock=clock, settings=BrokerSettings(timer_precision_ms=200))


def test_a_clock_set_back_delays_but_loses_nothing(tmp_path: Path) -> None:
    clock = a_clock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send(body=b"one", TIMER_DELAY_SEC="2")
        await enqueued(broker)
        clock.advance(ms=2_000)
        await arrive(broker, [b"one"])
        clock.advance(ms=-1_500)
        await client.send(body=b"two", TIMER_DELAY_SEC="1")
        await enqueued(broker)
        clock.advance(ms=1_500)
        await arrive(broker, [b"one", b"two"])

    with_broker(tmp_path / "store", work, clock=clock)


def test_a_message_of_a_deleted_topic_does_not_stop_the_others(tmp_path: Path) -> None:
    clock = a_clock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send("doomed", TIMER_DELAY_SEC="1")
        await client.send("orders", b"fine", TIMER_DELAY_SEC="1")
        broker.topics.delete("doomed")
        await enqueued(broker)
        clock.advance(ms=1_000)
        await arrive(broker, [b"fine"])
        assert broker.topics.find("doomed") is None

    with_broker(tmp_path / "store", work, clock=clock)


def test_a_message_of_a_batch_cannot_wait_for_its_time(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        properties = b"TIMER_DELAY_SEC\x015\x02UNIQ_KEY\x01U\x02"
        element = struct.pack(">5is h", 23 + len(properties), 0, 0, 0, 1, b"x", len(properties)) + properties
        answer = await client.ask(320, {**send_fields(), "m": "true"}, element)
        assert answer.code == 13 and "send it alone" in (answer.remark or "")

    with_broker(tmp_path / "store", work)
