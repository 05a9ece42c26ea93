"""One broker whose SENDs kernels take, and one that is plain: fed the same bytes, they have to do the same."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.broker.stages import ENGINE
from embermq.clock import Clock
from embermq.format.batch import BatchElement, encode_batch
from embermq.format.command import ONEWAY, Command, decode_command, encode_command
from embermq.format.frame import BINARY_FORM, JSON_FORM, Frame, FrameLimits, split_frames
from embermq.kernels import loading
from embermq.model.message import Host
from embermq.net.server import Server, bind, host_of
from embermq.store.settings import StoreSettings
from embermq.store.store import Store
from tests.builders import SMALL_SIZES, ManualClock
from tests.unit.broker.brokers import HOST, send_fields

Made_co = TypeVar("Made_co", covariant=True)
SECONDS = 20.0
NOW = ManualClock().now_ms()
SENDER = Host("127.0.0.3", 40_123)  # nobody else has this address
LONG_NAMES = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
    "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode",
    "m": "batch",
}  # fmt: skip


class Outcome(NamedTuple):
    """What a broker made of bytes."""

    answers: dict[int, Frame]  # by the opaque number of their requests
    files: dict[str, bytes]  # of the store, by path
    taken: int  # messages that kernels took


@asynccontextmanager
async def serving(
    path: Path, *, with_kernels: bool, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[tuple[Broker, Host]]:
    """A broker behind a socket."""
    clock = clock or ManualClock()
    values = {**SMALL_SIZES, "durability": "async", "reserve_bytes": 0, "store_host": str(HOST), **settings}
    store = Store(path, StoreSettings.make(values), clock=clock, report=lambda done, total: None)
    broker = Broker(store, BrokerSettings(), host_of=lambda peer: HOST, clock=clock)
    broker.start()
    server = Server(broker.router.receive, on_close=broker.connection_closed)
    listener = bind(Host("127.0.0.1", 0))
    server.start(listener)
    if with_kernels:
        loading.load()
        fast = broker.make_fast(server.received, FrameLimits())
        server.use(fast.take, fast)
    try:
        yield broker, host_of(listener)
    finally:
        server.stop_accepting()
        server.stop_reading()
        await broker.stop()
        await server.stop()
        store.close()


async def feed(path: Path, reads: list[bytes], count: int, *, with_kernels: bool, **settings: Any) -> Outcome:
    """Send `reads` over one connection, one after the other, until `count` answers are there."""
    async with serving(path, with_kernels=with_kernels, **settings) as (broker, host):
        reader, writer = await asyncio.open_connection(sock=await connect_from(SENDER, host))
        received = bytearray()
        for data in reads:
            writer.write(data)
            await writer.drain()
            await asyncio.sleep(0)
        frames: list[Frame] = []
        async with asyncio.timeout(SECONDS):
            while len(frames) < count:
                data = await reader.read(1 << 20)
                assert data, f"closed after {len(frames)} of {count} answers"
                received += data
                frames = split_frames(bytes(received))[0]
        writer.close()
        taken = broker.stages[ENGINE].store.messages
    return Outcome({opaque_of(frame): frame for frame in frames}, files_of(path), taken)


async def connect_from(sender: Host, host: Host) -> socket.socket:
    """A connection from a given address: it is written into records."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(sender)
    made.setblocking(False)
    await asyncio.get_running_loop().sock_connect(made, host)
    return made


ANYBODY = Host("127.0.0.1", 0)


class Caller:
    """A connection, and requests over it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._data = b""
        self._opaque = 10**6

    @classmethod
    async def connect(cls, host: Host, sender: Host = ANYBODY) -> Self:
        return cls(*await asyncio.open_connection(sock=await connect_from(sender, host)))

    async def answers(self, count: int) -> list[Frame]:
        """The next `count` frames."""
        frames: list[Frame] = []
        async with asyncio.timeout(SECONDS):
            while len(frames) < count:
                data = await self.reader.read(1 << 20)
                assert data, f"closed after {len(frames)} of {count} answers"
                more, end = split_frames(self._data + data)
                frames += more
                self._data = (self._data + data)[end:]
        return frames

    async def ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> Command:
        self._opaque += 1
        self.writer.write(encode_command(Command(code, fields, body, self._opaque)))
        while True:
            for answer in map(decode_command, await self.answers(1)):
                if answer.is_answer:  # not something that the broker tells us
                    assert answer.opaque == self._opaque
                    return answer

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()


def opaque_of(frame: Frame) -> int:
    return decode_command(frame).opaque


def files_of(path: Path) -> dict[str, bytes]:
    """What a store holds besides its tables."""
    folders = ("commitlog", "consumequeue", "index")
    found = {}
    for folder in folders:
        for file in sorted((path / folder).rglob("*")):
            if file.is_file():
                found[str(file.relative_to(path))] = file.read_bytes()
    return found


class Feed(Protocol[Made_co]):
    """Has a broker in a folder deal with bytes; what came of it, after so many answers."""

    def __call__(
        self, path: Path, reads: list[bytes], count: int, *, with_kernels: bool, **settings: Any
    ) -> Coroutine[Any, Any, Made_co]: ...


def feed_both(
    path: Path, feed: Feed[Made_co], reads: list[bytes], count: int, **settings: Any
) -> tuple[Made_co, Made_co]:
    """What comes of the same bytes with kernels, and without."""

    async def run() -> tuple[Made_co, Made_co]:
        fast = await feed(path / "fast", reads, count, with_kernels=True, **settings)
        return fast, await feed(path / "plain", reads, count, with_kernels=False, **settings)

    path.mkdir()
    return asyncio.run(run())


# -- requests, plain and not

Make = Callable[[Random, int], Command]


def a_plain(random: Random, opaque: int) -> Command:
    properties = {"UNIQ_KEY": f"{random.getrandbits(128):032X}", "WAIT": "true"}
    if random.random() < 0.5:
        properties["TAGS"] = random.choice(["TagA", "é", "中文", "a b"])
    if random.random() < 0.3:
        properties["KEYS"] = random.choice(["k1", "k1 k2", " ", "schlüssel"])
    if random.random() < 0.15:
        properties["TIMER_DELIVER_MS"] = str(NOW + random.choice([-5, 0, 1, 999, 1000, 1001, 60_000, 10**12]))
    elif random.random() < 0.15:
        name = random.choice(["TIMER_DELAY_MS", "TIMER_DELAY_SEC"])
        properties[name] = str(random.choice([-5, 0, 1, 999, 1000, 1001, 60_000, 10**12, 10**15, 10**17]))
    elif random.random() < 0.15:
        properties |= {"TRAN_MSG": "true", "PGROUP": random.choice(["PID_a", "größe"])}
    fields = send_fields(random.choice(["orders", "bills"]), queue=random.randrange(4), **properties)
    fields["h"] = str(random.randrange(-5, 5))
    body = random.randbytes(random.choice([1, 10, 100, 1024, 5000]))
    flag = ONEWAY if random.random() < 0.1 else 0
    form = BINARY_FORM if random.random() < 0.3 else JSON_FORM
    if random.random() < 0.2:
        fields = {LONG_NAMES[name]: value for name, value in fields.items() if name in LONG_NAMES}
        return Command(10, fields, body, opaque, flag, form=form)
    return Command(310, fields, body, opaque, flag, form=form)


def a_send_elsewhere(random: Random, opaque: int) -> Command:
    request = a_plain(random, opaque)
    fields = {**request.fields, "b" if "b" in request.fields else "topic": "elsewhere"}
    return Command(request.code, fields, request.body, opaque, form=request.form)


def an_odd_one(random: Random, opaque: int) -> Command:
    fields = send_fields(queue=random.randrange(4), UNIQ_KEY=f"odd-{opaque}")
    body = b"odd"
    match random.randrange(11):
        case 0:
            fields["e"] = random.choice(["9", "x", "2147483648"])  # for -1, a broker chooses one by chance
        case 1:
            fields["i"] += "DELAY\x013\x02"
        case 2:
            fields["b"] = random.choice([f"unknown-{random.randrange(3)}", "no/topic", ""])
        case 3:
            body = b""
        case 4:
            # One without a unique id would get one from the broker, and every broker another.
            fields["i"] = random.choice(["UNIQ_KEY\x01x", "X\x01y\x02UNIQ_KEY\x01x\x02Z\x01"])
        case 5:
            fields["j"] = "1"
        case 6:
            fields["f"] = random.choice(["1", "4", "8", "255", "4096"])
        case 7:
            body = random.randbytes(40_000)  # too large for kernels, with files as small as these
        case 8:
            fields["i"] = "UNIQ_KEY\x01" + random.choice(["a b", 'q"', "\\", "é"]) + "\x02"
        case 9:
            del fields[random.choice("abefgh")]
        case 10:
            elements = [
                BatchElement(n, b"b%d" % n, b"UNIQ_KEY\x01%08X%d\x02WAIT\x01true\x02" % (opaque, n)) for n in range(3)
            ]
            fields |= {"i": f"UNIQ_KEY\x01batch{opaque}\x02WAIT\x01true\x02", "m": "true"}
            return Command(320, fields, encode_batch(elements), opaque)
    return Command(310, fields, body, opaque)


def a_stream(random: Random, count: int, *, odd: float) -> tuple[list[bytes], int]:
    """Requests as bytes, cut anywhere, and how many of them are answered."""
    requests = [(an_odd_one if random.random() < odd else a_plain)(random, number) for number in range(count)]
    last = send_fields(UNIQ_KEY="last")  # whose answer tells that all others are stored, too
    requests.append(Command(310, last, b"last", count))
    data = b"".join(map(encode_command, requests))
    cuts = sorted(random.sample(range(1, len(data)), min(random.randrange(12), len(data) - 1)))
    reads = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return reads, sum(1 for request in requests if not request.is_oneway)
