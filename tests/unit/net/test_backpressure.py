"""Peers that ask for more than they read: what they are owed waits as requests, which are small, not as answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

import pytest

from embermq.format.command import Command, decode_command, encode_command, make_answer, make_request
from embermq.format.frame import split_frames
from embermq.model.message import Host
from embermq.net.connection import Connection, ConnectionLimits
from embermq.net.server import Server, bind, host_of
from tests.unit.net.reading import begin_reading

ANSWER = bytes(256 * 1024)
LIMITS = ConnectionLimits(write_high=1024 * 1024, write_limit=16 * 1024 * 1024)
SECONDS = 20.0


class Answering:
    """Answers requests at once, or later all together."""

    def __init__(self) -> None:
        self.taken: list[Command] = []
        self.calls = 0
        self.peer: Connection | None = None
        self.answers_now = True

    def receive(self, peer: Connection, requests: Sequence[Command]) -> None:
        self.peer = peer
        self.calls += 1
        self.taken += requests
        if self.answers_now:
            self.answer_all(requests)

    def answer_all(self, requests: Sequence[Command]) -> None:
        assert self.peer is not None
        for request in requests:
            self.peer.send(make_answer(request, body=ANSWER))


def with_server(work: Callable[[Answering, socket.socket], Awaitable[None]]) -> None:
    """Run `work` with a connected socket that nobody reads."""

    async def run() -> None:
        answering = Answering()
        server = Server(answering.receive, limits=LIMITS)
        listener = bind(Host("127.0.0.1", 0))
        server.start(listener)
        begin_reading(server)
        address = host_of(listener)
        with socket.create_connection((address.address, address.port)) as client:
            client.setblocking(False)
            await asyncio.wait_for(work(answering, client), SECONDS)
        await server.stop()

    asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def read_answers(client: socket.socket, count: int) -> list[int]:
    loop, data, found = asyncio.get_running_loop(), b"", list[int]()
    while len(found) < count:
        received = await loop.sock_recv(client, 1 << 20)
        assert received, f"closed after {len(found)} answers"
        frames, taken = split_frames(data + received)
        data = (data + received)[taken:]
        found += [decode_command(frame).opaque for frame in frames]
    return found


def test_who_does_not_read_has_few_of_its_requests_answered_and_all_once_it_reads() -> None:
    async def work(answering: Answering, client: socket.socket) -> None:
        requests = [make_request(11, {"n": "1"}) for _ in range(400)]
        await asyncio.get_running_loop().sock_sendall(client, b"".join(map(encode_command, requests)))
        await until(lambda: answering.peer)
        seen = -1
        while seen < answering.calls:  # until it stands still
            seen = answering.calls
            await asyncio.sleep(0.1)
        assert len(answering.taken) < 100  # what the system's buffers hold, and a few
        assert await read_answers(client, 400) == [request.opaque for request in requests]

    with_server(work)


def test_messages_are_handed_on_many_at_a_time() -> None:
    async def work(answering: Answering, client: socket.socket) -> None:
        answering.answers_now = False
        requests = [make_request(310, {}, b"x") for _ in range(200)] + [make_request(11) for _ in range(20)]
        await asyncio.get_running_loop().sock_sendall(client, b"".join(map(encode_command, requests)))
        await until(lambda: len(answering.taken) == 220)
        assert answering.calls <= 8  # one for all messages if they came with one read
        assert [each.opaque for each in answering.taken] == [each.opaque for each in requests]

    with_server(work)


def test_who_does_not_read_is_closed_when_too_much_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    async def work(answering: Answering, client: socket.socket) -> None:
        answering.answers_now = False
        requests = [make_request(11) for _ in range(200)]
        await asyncio.get_running_loop().sock_sendall(client, b"".join(map(encode_command, requests)))
        await until(lambda: len(answering.taken) == 200)
        answering.answer_all(answering.taken)  # 50 MiB at once
        peer = answering.peer
        assert peer is not None
        await until(lambda: peer.is_closed)

    with_server(work)
    (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "it does not read its answers: more than 16777216 bytes wait" in said


@pytest.mark.parametrize(("code", "is_together"), [(11, False), (200_051, True), (37, True)])
def test_acks_and_ends_of_transactions_are_handed_on_together_without_a_body(code: int, is_together: bool) -> None:
    async def work(answering: Answering, client: socket.socket) -> None:
        answering.answers_now = False
        requests = [make_request(code, {"n": "1"}) for _ in range(40)]
        await asyncio.get_running_loop().sock_sendall(client, b"".join(map(encode_command, requests)))
        await until(lambda: len(answering.taken) == 40)
        assert (answering.calls < 5) is is_together  # one if they came with one read

    with_server(work)
