"""Messages that wait, by kernels and by plain code: kept, delivered and committed alike, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from embermq.broker.broker import Broker
from embermq.broker.fast_delivery import FastDelivery
from embermq.broker.stages import ENGINE
from embermq.clock import SystemClock
from embermq.format.command import ONEWAY, Command, decode_command, encode_command
from embermq.format.frame import split_frames
from embermq.format.message_id import decode_message_id
from embermq.model.topic import HALF_TOPIC, TIMER_TOPIC
from tests.builders import ManualClock
from tests.unit.broker.both_ways import SECONDS, SENDER, connect_from, files_of, serving
from tests.unit.broker.brokers import send_fields, until

GROUP = "PID_tx"


class Connection:
    """A client of a broker behind a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, requests: list[Command]) -> list[Command]:
        """The answers to requests, in their order."""
        self.tell(requests)
        received = b""
        async with asyncio.timeout(SECONDS):
            while len(frames := split_frames(received)[0]) < len(requests):
                received += await self._reader.read(1 << 20)
        answers = {answer.opaque: answer for answer in map(decode_command, frames)}
        return [answers[request.opaque] for request in requests]

    def tell(self, requests: list[Command]) -> None:
        self._writer.write(b"".join(map(encode_command, requests)))

    def close(self) -> None:
        self._writer.close()


async def connect(host: tuple[str, int]) -> Connection:
    return Connection(*await asyncio.open_connection(sock=await connect_from(SENDER, host)))  # type: ignore[arg-type]


def timed(random: Random, count: int, due: int) -> list[Command]:
    """Messages for several topics and times around `due`, mostly usual."""
    made = []
    for number in range(count):
        properties = {"UNIQ_KEY": f"{number:032X}", "TAGS": random.choice("abc")}
        if random.random() < 0.3:
            properties["KEYS"] = f"key{number % 7}"
        at = due - 1000 * random.choice([0, 0, 0, 1])
        match random.randrange(3):
            case 0:
                properties["TIMER_DELIVER_MS"] = str(at)
            case 1:
                properties["TIMER_DELAY_MS"] = str(at - ManualClock().now_ms())
            case 2:
                properties["TIMER_DELAY_SEC"] = str((at - ManualClock().now_ms()) // 1000)
        topic = random.choice(["orders", "orders", "bills", "gone"])
        fields = send_fields(topic, queue=random.randrange(4), **properties)
        made.append(Command(310, fields, random.randbytes(random.choice([1, 30, 2_000])), number + 1))
    cancelled = send_fields("bills", UNIQ_KEY="C", TIMER_DELIVER_MS=str(due - 3000))
    cancel = send_fields(
        "bills", UNIQ_KEY="D", TIMER_DEL_UNIQKEY="bills+C", TIMER_DELIVER_MS=str(due - 3000)
    )  # in a slot of their own, which plain code reads
    kept = send_fields("bills", UNIQ_KEY="E", TIMER_DELIVER_MS=str(due - 3000))
    made += [
        Command(310, fields, b"slot", count + number)
        for number, fields in enumerate((cancelled, kept, cancel), start=1)
    ]
    return made


async def deliver(path: Path, requests: list[Command], *, with_kernels: bool, durability: str) -> dict[str, bytes]:
    """What a store holds when all of these were delivered."""
    async with serving(path, with_kernels=with_kernels, durability=durability) as (broker, host):
        connection = await connect(host)
        for topic in ("orders", "bills", "gone"):
            (answer,) = await connection.ask([Command(310, send_fields(topic, UNIQ_KEY="first"), b"first", 1)])
            assert answer.code == 0
        assert {answer.code for answer in await connection.ask(requests)} == {0}
        assert broker.timers is not None
        timers = broker.timers.timers
        await until(lambda: timers.enqueued == len(requests))
        broker.topics.delete("gone")
        assert isinstance(broker.clock, ManualClock)
        broker.clock.advance(ms=70_000)
        broker.timers.wake()
        await until(lambda: timers.dequeued == len(requests))
        connection.close()
    timer = {file.name: file.read_bytes() for file in [*(path / "timerlog").iterdir(), path / "timerwheel"]}
    return files_of(path) | timer


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
def test_kernels_deliver_what_plain_code_would(tmp_path: Path, durability: str) -> None:
    requests = timed(Random(durability), 900, ManualClock().now_ms() + 60_000)
    plain = asyncio.run(deliver(tmp_path / "plain", requests, with_kernels=False, durability=durability))
    fast = asyncio.run(deliver(tmp_path / "fast", requests, with_kernels=True, durability=durability))
    assert fast.keys() == plain.keys()
    for name, data in plain.items():
        assert fast[name] == data, f"{name} differs"


def with_engine(path: Path, work: Callable[[Broker, Connection], object]) -> None:
    async def run() -> None:
        async with serving(path, with_kernels=True) as (broker, host):
            connection = await connect(host)
            await work(broker, connection)  # type: ignore[misc]
            connection.close()

    asyncio.run(run())


def test_a_slot_of_usual_messages_becomes_one_table(tmp_path: Path) -> None:
    async def work(broker: Broker, connection: Connection) -> None:
        due = str(ManualClock().now_ms() + 10_000)
        sends = [
            Command(310, send_fields(queue=n % 4, UNIQ_KEY=f"U{n}", TIMER_DELIVER_MS=due), b"%d" % n, n)
            for n in range(100)
        ]
        await connection.ask([Command(310, send_fields(UNIQ_KEY="first"), b"first", 1)])
        await connection.ask(sends)
        assert broker.timers is not None
        timers = broker.timers.timers
        await until(lambda: timers.enqueued == len(sends))
        assert isinstance(broker.clock, ManualClock)
        broker.clock.advance(ms=10_000)
        reading = timers.next_slot()
        assert reading is not None and reading.go_on()
        slot = reading.slot()
        fast = FastDelivery(broker.store, timers, broker.topics)
        table = fast.read(slot, 0, now_ms=broker.clock.now_ms(), most_bytes=1 << 20)
        assert table is not None and len(table) == len(sends)
        few = fast.read(slot, 90, now_ms=broker.clock.now_ms(), most_bytes=10)
        assert few is not None and 0 < len(few) < 10

    with_engine(tmp_path / "store", work)


def ends(begun: list[Command], how: list[int], *, flag: int) -> list[Command]:
    made = []
    for number, (answer, each) in enumerate(zip(begun, how, strict=True)):
        _, position = decode_message_id(answer.fields["msgId"])
        fields = {
            "producerGroup": GROUP, "tranStateTableOffset": answer.fields["queueOffset"],
            "commitLogOffset": str(position), "commitOrRollback": str(each), "fromTransactionCheck": "false",
            "msgId": answer.fields["transactionId"],
        }  # fmt: skip
        made.append(Command(37, fields, b"", 1000 + number, flag))
    return made


async def transact(path: Path, *, with_kernels: bool, durability: str) -> tuple[list[Command], dict[str, bytes]]:
    """The answers to transactions that begin and end in one stream, and what the store holds then."""
    random = Random(7)
    async with serving(path, with_kernels=with_kernels, durability=durability) as (broker, host):
        connection = await connect(host)
        await connection.ask([Command(310, send_fields(UNIQ_KEY="first"), b"first", 1)])
        answers: list[Command] = []
        committed = 0
        before: list[Command] = []
        for turn in range(6):
            halves = [
                Command(
                    310,
                    send_fields(queue=n % 4, TRAN_MSG="true", PGROUP=GROUP, UNIQ_KEY=f"U{turn}x{n}", TAGS="a"),
                    b"%d-%d" % (turn, n),
                    n,
                )
                for n in range(40)
            ]
            how = [random.choice([8, 8, 8, 12, 0]) for _ in before]
            # Ends, one of them spoilt, between two halves of the same read.
            ended = ends(before, how, flag=0)
            if ended:
                ended[3].fields["tranStateTableOffset"] = "999999"  # type: ignore[index]
            committed += sum(each == 8 for number, each in enumerate(how) if number != 3)
            found = await connection.ask([halves[0], *ended, *halves[1:]])
            answers += found
            before = [found[0], *found[1 + len(ended) :]]
        connection.tell(ends(before, [8] * len(before), flag=ONEWAY))
        await until(lambda: broker.transactions.counts.committed["orders"] == committed + 40)
        assert broker.store.offsets(HALF_TOPIC, queue=0)[1] == 240
        connection.close()
    return answers, files_of(path)


@pytest.mark.parametrize("durability", ["async", "sync"])
def test_transactions_among_each_other_have_the_same_outcome(tmp_path: Path, durability: str) -> None:
    plain = asyncio.run(transact(tmp_path / "plain", with_kernels=False, durability=durability))
    fast = asyncio.run(transact(tmp_path / "fast", with_kernels=True, durability=durability))
    outcomes = [[(answer.code, answer.opaque) for answer in answers] for answers, _ in (fast, plain)]
    assert outcomes[0] == outcomes[1]
    assert {code for code, _ in outcomes[0]} > {0}, "one end in each turn is for nothing"


def test_a_message_for_later_can_be_recalled_by_the_handle_that_kernels_wrote(tmp_path: Path) -> None:
    async def work(broker: Broker, connection: Connection) -> None:
        due = str(ManualClock().now_ms() + 10_000)
        await connection.ask([Command(310, send_fields(UNIQ_KEY="first"), b"first", 1)])
        sends = [
            Command(310, send_fields(UNIQ_KEY=unique, TIMER_DELIVER_MS=due), b"x", number, form=number % 2)
            for number, unique in enumerate(("A", "AB", "ABC", "a-b"))
        ]
        answers = await connection.ask(sends)
        handles = [answer.fields["recallHandle"] for answer in answers]
        recalls = [
            Command(
                370, {"topic": "orders", "producerGroup": "PID", "recallHandle": handle, "bname": "broker-a"}, b"", n
            )
            for n, handle in enumerate(handles)
        ]
        recalled = await connection.ask(recalls)
        assert [answer.code for answer in recalled] == [0, 0, 0, 0], recalled
        assert [answer.fields["msgId"] for answer in recalled] == ["A", "AB", "ABC", "a-b"]
        assert broker.store.offsets(TIMER_TOPIC, queue=0)[1] == 8

    with_engine(tmp_path / "store", work)


def test_delays_count_from_when_their_message_came_by_the_machines_clock(tmp_path: Path) -> None:
    delay_ms = 40_000

    async def run() -> None:
        async with serving(tmp_path / "store", with_kernels=True, clock=SystemClock()) as (broker, host):
            connection = await connect(host)
            await connection.ask([Command(310, send_fields(UNIQ_KEY="first"), b"first", 1)])
            for number, asked in enumerate(({"TIMER_DELAY_MS": str(delay_ms)}, {"TIMER_DELAY_SEC": "40"}) * 20):
                began = broker.clock.now_ms()
                (answer,) = await connection.ask([Command(310, send_fields(UNIQ_KEY=f"U{number}", **asked), b"x", 7)])
                ended = broker.clock.now_ms()
                assert answer.code == 0
                (message,) = broker.store.get(TIMER_TOPIC, queue=0, offset=number)
                slot, precision = int(message.properties["TIMER_OUT_MS"]), 1_000
                assert began + delay_ms <= slot + precision <= ended + delay_ms + precision
            assert broker.stages[ENGINE].store.messages > 30
            connection.close()

    asyncio.run(run())
