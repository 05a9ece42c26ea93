"""Connections over real sockets: commands both ways, limits, and what ends a connection."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest

from embermq.errors import CallTimeout, ConnectionLost, SettingsError
from embermq.format.command import Command, encode_command, make_answer, make_request
from embermq.format.frame import FrameLimits
from embermq.model.message import Host
from embermq.net.connection import Connection, ConnectionLimits
from embermq.net.dialer import dial
from embermq.net.server import Server, TlsMode, bind, host_of
from tests.unit.net.reading import begin_reading

ANY = Host("127.0.0.1", 0)


class Echo:
    """Answers every request with its own body, at once or when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Connection, Command]] = []
        self.is_slow = False
        self.reads: list[int] = []

    def receive(self, connection: Connection, requests: Sequence[Command]) -> None:
        self.reads.append(len(requests))
        if self.is_slow:
            connection.owe(len(requests))
            self.waiting += [(connection, request) for request in requests]
            return
        for request in requests:
            connection.send(make_answer(request, body=request.data))

    def answer_all(self) -> None:
        waiting, self.waiting = self.waiting, []
        for connection, request in waiting:
            connection.send(make_answer(request, body=request.data))
            connection.settle(1)


def serving(work: Callable[[Server, Host, Echo], Awaitable[None]], **settings: object) -> None:
    async def run() -> None:
        echo = Echo()
        server = Server(echo.receive, **settings)  # type: ignore[arg-type]
        listener = bind(ANY)
        host = host_of(listener)
        server.start(listener)
        begin_reading(server)
        try:
            await work(server, host, echo)
        finally:
            await server.stop(grace_s=0.5)

    asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_requests_are_answered_in_any_number_and_size() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        connection = await dial(host)
        bodies = [bytes([n % 256]) * (n * 997) for n in range(300)] + [bytes(5_000_000)]
        answers = await asyncio.gather(*(connection.call(make_request(1, {}, body), timeout_s=10) for body in bodies))
        assert [answer.data for answer in answers] == bodies
        assert max(echo.reads) > 1, "requests of one read come together"
        assert connection.peer == host and connection.local.address == "127.0.0.1"
        connection.close()
        await until(lambda: not server.connections)

    serving(work)


def test_frames_come_whole_however_the_network_cuts_them() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        reader, writer = await asyncio.open_connection(host.address, host.port)
        data = encode_command(make_request(1, {"a": "b"}, b"x" * 100)) * 3
        for at in range(0, len(data), 7):
            writer.write(data[at : at + 7])
            await writer.drain()
            await asyncio.sleep(0)
        received = b""
        while received.count(b"x" * 100) < 3:
            received += await reader.read(1000)
        writer.close()

    serving(work)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 50, bytes(50), b"\0\0\1\0\0\0\0\2[]" + bytes(300), b"\0\0\0\x10\2"]
)
def test_what_is_no_frame_ends_the_connection_with_a_reason(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        other = await dial(host)
        reader, writer = await asyncio.open_connection(host.address, host.port)
        writer.write(data + bytes(8))
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        assert (await other.call(make_request(1, {}, b"still here"), timeout_s=5)).data == b"still here"

    with caplog.at_level(logging.WARNING):
        serving(work)
    assert "connection closed peer=127.0.0.1" in caplog.text and "reason=" in caplog.text


def test_nothing_is_read_while_too_many_requests_wait() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        echo.is_slow = True
        connection = await dial(host)
        calls = [
            asyncio.ensure_future(connection.call(make_request(1, {}, bytes(70_000)), timeout_s=10)) for _ in range(100)
        ]
        await until(lambda: len(echo.waiting) >= 10)
        await asyncio.sleep(0.1)
        assert len(echo.waiting) < 60, "what was read already is taken, the rest stays on the wire"
        while not all(call.done() for call in calls):
            echo.answer_all()
            await asyncio.sleep(0.005)
        assert all(call.result().code == 0 for call in calls)

    serving(work, limits=ConnectionLimits(in_flight=10))


def test_a_peer_that_does_not_take_its_answers_is_not_read_from() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        _, writer = await asyncio.open_connection(host.address, host.port, limit=1)
        request = encode_command(make_request(1, {}, bytes(100_000)))

        async def flood() -> None:
            while True:
                writer.write(request)
                await writer.drain()

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(flood(), 1.0)
        count = len(echo.reads)
        await asyncio.sleep(0.2)
        assert len(echo.reads) == count, "the server has stopped reading"
        writer.transport.abort()
        await until(lambda: not server.connections)

    serving(work, limits=ConnectionLimits(write_high=65_536))


def test_silent_connections_are_closed() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        connection = await dial(host)
        await connection.call(make_request(1), timeout_s=5)
        await until(lambda: connection.is_closed)

    serving(work, limits=ConnectionLimits(idle_s=0.2))


def test_connections_are_limited() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        first = await dial(host)
        await first.call(make_request(1), timeout_s=5)
        second = await dial(host)
        with pytest.raises(ConnectionLost):
            await second.call(make_request(1), timeout_s=5)
        first.close()
        await until(lambda: not server.connections)
        third = await dial(host)
        assert (await third.call(make_request(1), timeout_s=5)).code == 0

    serving(work, max_connections=1)


def test_the_server_asks_its_clients_too() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        asked = Echo()
        connection = await dial(host, receiver=asked.receive)
        await connection.call(make_request(1), timeout_s=5)
        (there,) = server.connections
        assert (await there.call(make_request(2, {}, b"you?"), timeout_s=5)).data == b"you?"

    serving(work)


def test_calls_end_when_nobody_answers_or_the_connection_is_lost() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        echo.is_slow = True
        connection = await dial(host)
        with pytest.raises(CallTimeout, match=r"within 0\.05 s"):
            await connection.call(make_request(1), timeout_s=0.05)
        call = asyncio.ensure_future(connection.call(make_request(1), timeout_s=10))
        await until(lambda: len(echo.waiting) == 2)
        for there in list(server.connections):
            there.abort()
        with pytest.raises(ConnectionLost):
            await call
        with pytest.raises(ConnectionLost):
            await connection.call(make_request(1), timeout_s=1)

    serving(work)


def test_a_server_that_stops_sends_its_last_answers() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        echo.is_slow = True
        connection = await dial(host)
        call = asyncio.ensure_future(connection.call(make_request(1, {}, bytes(3_000_000)), timeout_s=10))
        await until(lambda: echo.waiting)
        echo.answer_all()
        await server.stop()
        assert len((await call).data) == 3_000_000
        with pytest.raises(ConnectionLost):
            await dial(host)

    serving(work)


def test_plain_connections_are_refused_where_tls_is_required(caplog: pytest.LogCaptureFixture) -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        connection = await dial(host)
        with pytest.raises(ConnectionLost):
            await connection.call(make_request(1), timeout_s=5)

    serving(work, tls_mode=TlsMode.ENFORCING)
    assert "TLS is required" in caplog.text


def test_an_address_that_is_taken_is_named() -> None:
    listener = bind(ANY)
    try:
        with pytest.raises(SettingsError, match=str(host_of(listener).port)):
            bind(host_of(listener))
    finally:
        listener.close()


def test_limits_of_frames_are_those_that_were_set() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        connection = await dial(host)
        with pytest.raises(ConnectionLost):
            await connection.call(make_request(1, {}, bytes(2_000)), timeout_s=5)

    serving(work, limits=ConnectionLimits(frame=FrameLimits(frame_size=1_000)))


def test_small_answers_are_sent_at_once() -> None:
    async def work(server: Server, host: Host, echo: Echo) -> None:
        connection = await dial(host)
        await connection.call(make_request(1), timeout_s=5)
        for each in (connection, *server.connections):
            assert each._transport is not None
            peer_socket = each._transport.get_extra_info("socket")
            assert peer_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    serving(work)
