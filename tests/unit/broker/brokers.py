"""A broker for tests: over a real store with small files, in an event loop of the test's own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.clock import Clock, SystemClock
from embermq.format.command import Command, make_request
from embermq.format.frame import FrameLimits
from embermq.format.record import decode_record
from embermq.kernels import loading
from embermq.model.message import Host
from embermq.net.receiving import SHARED_SIZE, ReceiveBuffer
from embermq.store.settings import StoreSettings
from embermq.store.store import Store
from tests.builders import SMALL_SIZES
from tests.unit.broker.peers import RecordingPeer

SECONDS = 10.0
HOST = Host("127.0.0.1", 10911)


class Client:
    """Somebody with a connection to the broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.peer = RecordingPeer()

    def tell(self, *requests: Command) -> None:
        """Send requests, all in one read."""
        self.broker.router.receive(self.peer, requests)

    async def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """Send one request and wait for its answer."""
        request = make_request(code, fields or {}, body)
        self.tell(request)
        return await self.answer_to(request)

    async def answer_to(self, request: Command) -> Command:
        await until(lambda: self._find(request) is not None)
        answer = self._find(request)
        assert answer is not None
        return answer

    def _find(self, request: Command) -> Command | None:
        found = [each for each in self.peer.sent if each.is_answer and each.opaque == request.opaque]
        assert len(found) <= 1, "a request is answered once"
        return found[0] if found else None

    async def send(
        self, topic: str = "orders", body: bytes = b"hello", *, queue: int = 0, **properties: str
    ) -> Command:
        """Send one message as a Java client does."""
        return await self.ask(310, send_fields(topic, queue=queue, **properties), body)

    async def pull(self, topic: str = "orders", offset: int = 0, *, queue: int = 0, **fields: str) -> Command:
        """Pull as a pull consumer does, with its subscription in the request."""
        return await self.ask(11, pull_fields(topic, offset, queue=queue, **fields))


def send_fields(topic: str = "orders", *, queue: int = 0, **properties: str) -> dict[str, str]:
    text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
    return {
        "a": "PID_test", "b": topic, "c": "TBW102", "d": "4", "e": str(queue), "f": "0", "g": "1700000000000",
        "h": "0", "i": text, "j": "0", "k": "false", "m": "false", "n": "broker-a",
    }  # fmt: skip


def pull_fields(topic: str = "orders", offset: int = 0, *, queue: int = 0, **fields: str) -> dict[str, str]:
    return {
        "consumerGroup": "billing", "topic": topic, "queueId": str(queue), "queueOffset": str(offset),
        "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
        "subscription": "*", "subVersion": "0", **fields,
    }  # fmt: skip


def bodies(answer: Command) -> list[bytes]:
    """Of the messages that an answer brings."""
    data, found = memoryview(answer.data), []
    while data:
        record = decode_record(data, 0, check_position=False)
        found.append(record.body)
        data = data[record.size :]
    return found


async def until(condition: Callable[[], object]) -> None:
    """Let the loop run until `condition` holds."""
    deadline = asyncio.get_running_loop().time() + SECONDS
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"not so after {SECONDS} s"
        await asyncio.sleep(0.002)


def with_broker(
    path: Path,
    work: Callable[[Broker], Awaitable[None]],
    *,
    clock: Clock | None = None,
    settings: BrokerSettings | None = None,
    host: Host = HOST,
    with_kernels: bool = False,
    **store_settings: Any,
) -> None:
    """Open a broker on `path`, let `work` use it, and stop it cleanly."""

    async def run() -> None:
        async with open_broker(path, clock=clock, settings=settings, host=host, **store_settings) as broker:
            if with_kernels:
                loading.load()
                broker.make_fast(ReceiveBuffer(SHARED_SIZE), FrameLimits())
            await work(broker)

    asyncio.run(run())


@contextlib.asynccontextmanager
async def open_broker(
    path: Path,
    *,
    clock: Clock | None = None,
    settings: BrokerSettings | None = None,
    host: Host = HOST,
    **store_settings: Any,
) -> AsyncIterator[Broker]:
    """A broker on `path` in the running event loop, stopped cleanly at the end."""
    values = {**SMALL_SIZES, "durability": "async", "reserve_bytes": 0, "store_host": str(host), **store_settings}
    used_clock = clock or SystemClock()
    store = Store(path, StoreSettings.make(values), clock=used_clock, report=lambda done, total: None)
    broker = Broker(store, settings or BrokerSettings(), host_of=lambda peer: host, clock=used_clock)
    try:
        broker.start()
        yield broker
    finally:
        await broker.stop()
        store.close()
