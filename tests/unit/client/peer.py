"""The other end of a real connection, which answers as a test tells it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from embermq.format.command import Command, make_answer
from embermq.format.route_body import encode_route
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import Host
from embermq.model.route import RoutedBroker, RoutedQueues, TopicRoute
from embermq.net.connection import Connection
from embermq.net.server import Server, bind, host_of

T = TypeVar("T")
Reply = tuple[int, dict[str, str], bytes]
Say = Callable[[Command], Reply | None]  # None: say nothing


def run(work: Callable[[], Awaitable[T]]) -> T:
    """Run a test's coroutine, for a limited time."""

    async def limited() -> T:
        return await asyncio.wait_for(work(), 20)

    return asyncio.run(limited())


class Peer:
    """A server whose answers come from the test; `asked` has all requests in their order."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self.asked: list[Command] = []
        self.connections: list[Connection] = []
        self._server = Server(self._receive, on_open=self.connections.append)
        listener = bind(Host("127.0.0.1", 0))
        self.address = str(host_of(listener))
        self._server.start(listener)

    def _receive(self, connection: Connection, requests: Sequence[Command]) -> None:
        for request in requests:
            self.asked.append(request)
            reply = self.say(request)
            if reply is not None and not request.is_oneway:
                code, fields, body = reply
                connection.send(make_answer(request, code, fields, body, remark=None if not code else "because"))

    def codes(self) -> list[int]:
        return [request.code for request in self.asked]

    async def stop(self) -> None:
        await self._server.stop(grace_s=0.1)


@asynccontextmanager
async def a_peer(say: Say) -> AsyncIterator[Peer]:
    peer = Peer(say)
    try:
        yield peer
    finally:
        await peer.stop()


def route_to(*addresses: str, queues: int = 4, permission: int = 6) -> bytes:
    """The route of a topic that each of `addresses` has `queues` of; they are called broker-0, broker-1, …"""
    return encode_route(
        TopicRoute(
            queues=tuple(RoutedQueues(f"broker-{n}", queues, queues, permission) for n in range(len(addresses))),
            brokers=tuple(RoutedBroker("c", f"broker-{n}", {0: address}) for n, address in enumerate(addresses)),
        ),
        standard=True,
    )


def stored(request: Command, **fields: Any) -> Reply:
    """The answer to a send: at offset 7 of the queue that was asked for."""
    count = request.data.count(b"\x02") if request.code == RequestCode.SEND_BATCH_MESSAGE else 1
    identity = "7F00000100002A9F0000000000000400"
    found = {"msgId": ",".join([identity] * count), "queueId": request.fields["e"], "queueOffset": "7"}
    return ResponseCode.SUCCESS, {**found, **fields}, b""
