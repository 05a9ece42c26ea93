"""Answers in several pieces arrive whole and in order, whatever the peer reads and whoever changes a piece later."""

from __future__ import annotations

import asyncio
import mmap
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from embermq.format.command import Command, decode_command, encode_command, encode_head, make_answer, make_request
from embermq.format.frame import split_frames
from embermq.model.message import Host
from embermq.net.connection import Connection, ConnectionLimits
from embermq.net.server import Server, bind, host_of
from embermq.server.settings import TlsSettings
from embermq.server.tls import TlsContext
from tests.unit.net.reading import begin_reading

SECONDS = 20.0
LARGE = 6 * 1024 * 1024  # more than the system keeps for a connection
LIMITS = ConnectionLimits(write_high=1024 * 1024, write_limit=64 * 1024 * 1024)

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Work = Callable[[Client, "Answering"], Awaitable[None]]


class Answering:
    """Answers each request with what the test gave for it, in pieces."""

    def __init__(self) -> None:
        self.bodies: list[Sequence[memoryview]] = []
        self.peer: Connection | None = None
        self.after: Callable[[], None] = lambda: None

    def receive(self, peer: Connection, requests: Sequence[Command]) -> None:
        self.peer = peer
        for request in requests:
            peer.send(make_answer(request, body=tuple(self.bodies.pop(0))))
            self.after()


@pytest.fixture(params=["plain", "tls"])
def has_tls(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "tls")


def serving(work: Work, folder: Path, *, has_tls: bool, limits: ConnectionLimits = LIMITS) -> None:
    async def run() -> None:
        answering = Answering()
        tls = TlsContext(TlsSettings(test_certificate=True), folder=folder)
        server = Server(answering.receive, limits=limits, tls_context=tls)
        listener = bind(Host("127.0.0.1", 0))
        server.start(listener)
        begin_reading(server)
        address = host_of(listener)
        context = None
        if has_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client = await asyncio.open_connection(address.address, address.port, ssl=context, limit=1 << 16)
        try:
            await asyncio.wait_for(work(client, answering), SECONDS)
        finally:
            client[1].close()
            await server.stop()

    asyncio.run(run())


async def ask(client: Client, count: int) -> None:
    client[1].write(b"".join(encode_command(make_request(11, {})) for _ in range(count)))
    await client[1].drain()


async def read_bodies(client: Client, count: int) -> list[bytes]:
    data, bodies = bytearray(), list[bytes]()
    while len(bodies) < count:
        received = await client[0].read(1 << 20)
        assert received, f"closed after {len(bodies)} answers"
        data += received
        frames, taken = split_frames(bytes(data))
        del data[:taken]
        bodies += [decode_command(frame).data for frame in frames]
    assert not data
    return bodies


def pieces_of(data: bytes | memoryview, random: Random, *, most: int) -> list[memoryview]:
    """`data` in pieces of any size, each read-only, as mapped files are."""
    view, pieces = memoryview(data), list[memoryview]()
    while view:
        size = random.randrange(1, most)
        pieces.append(view[:size])
        view = view[size:]
    return pieces


def test_an_answer_larger_than_the_socket_takes_arrives_whole(tmp_path: Path, has_tls: bool) -> None:
    body = os.urandom(LARGE)

    async def work(client: Client, answering: Answering) -> None:
        answering.bodies = [[memoryview(body)], [memoryview(body)[:-1]], [memoryview(b"end")]]
        await ask(client, 3)
        assert await read_bodies(client, 3) == [body, body[:-1], b"end"]

    serving(work, tmp_path, has_tls=has_tls)


def test_pieces_of_all_sizes_arrive_in_order(tmp_path: Path, has_tls: bool) -> None:
    random = Random(3)
    bodies = [random.randbytes(random.choice((0, 10, 50_000, 900_000))) for _ in range(60)]

    async def work(client: Client, answering: Answering) -> None:
        answering.bodies = [pieces_of(body, random, most=random.choice((300, 2_000, 400_000))) for body in bodies]
        assert max(map(len, answering.bodies)) > os.sysconf("SC_IOV_MAX")
        await ask(client, len(bodies))
        assert await read_bodies(client, len(bodies)) == bodies

    serving(work, tmp_path, has_tls=has_tls)


def test_a_buffer_that_is_used_again_does_not_change_what_a_slow_reader_gets(tmp_path: Path, has_tls: bool) -> None:
    random = Random(4)
    wanted = [random.randbytes(1_200_000) for _ in range(8)]
    buffer = bytearray(1_200_000)

    async def work(client: Client, answering: Answering) -> None:
        def fill() -> None:
            if wanted[8 - len(answering.bodies) :]:
                buffer[:] = wanted[8 - len(answering.bodies)]

        answering.bodies = [[memoryview(buffer)] for _ in wanted]
        answering.after = fill
        fill()
        await ask(client, len(wanted))
        assert await read_bodies(client, len(wanted)) == wanted

    serving(work, tmp_path, has_tls=has_tls)


def test_a_mapped_file_may_be_closed_while_its_answer_waits(tmp_path: Path, has_tls: bool) -> None:
    body = os.urandom(LARGE)
    (tmp_path / "file").write_bytes(body)

    async def work(client: Client, answering: Answering) -> None:
        with (tmp_path / "file").open("rb") as file:
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        answering.bodies = [[memoryview(mapping)]]
        del mapping
        (tmp_path / "file").unlink()
        await ask(client, 1)
        assert await read_bodies(client, 1) == [body]

    serving(work, tmp_path, has_tls=has_tls)


def test_writing_pauses_at_the_same_limit_as_ever(tmp_path: Path, has_tls: bool) -> None:
    body = os.urandom(LARGE)

    async def work(client: Client, answering: Answering) -> None:
        answering.bodies = [[memoryview(body)] for _ in range(40)]
        await ask(client, 40)
        while answering.peer is None or not answering.peer._is_blocked:
            await asyncio.sleep(0.005)
        left = len(answering.bodies)
        assert left > 25, "only as many are answered as fit into the buffers, and those of one turn"
        assert await read_bodies(client, 40) == [body] * 40
        assert not answering.bodies

    serving(work, tmp_path, has_tls=has_tls)


def test_a_peer_that_is_gone_is_noticed(tmp_path: Path) -> None:
    async def work(client: Client, answering: Answering) -> None:
        answering.bodies = [[memoryview(b"first")]]
        await ask(client, 1)
        assert await read_bodies(client, 1) == [b"first"]
        peer = answering.peer
        assert peer is not None
        channel = client[1].get_extra_info("socket")
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
        client[1].transport.abort()
        while not peer.is_closed:
            peer.write(b"x", memoryview(bytes(LARGE)))
            await asyncio.sleep(0.005)
        peer.write(b"x", memoryview(bytes(LARGE)))  # nothing happens

    serving(work, tmp_path, has_tls=False)


def places_of(pieces: Sequence[memoryview]) -> tuple[bytes, int]:
    """Where pieces lie, as kernels tell it, and how many bytes they are."""
    numbers = [(np.frombuffer(piece, np.uint8).ctypes.data, len(piece)) for piece in pieces]
    return b"".join(struct.pack("=qq", *each) for each in numbers), sum(map(len, pieces))


def test_what_lies_in_places_arrives_whole_and_is_free_afterwards(tmp_path: Path, has_tls: bool) -> None:
    random = Random(9)
    wanted = [random.randbytes(random.choice((1, 5_000, 300_000, 1_200_000))) for _ in range(30)]

    async def work(client: Client, answering: Answering) -> None:
        await ask(client, 1)
        answering.bodies = [[memoryview(b"")]]
        assert await read_bodies(client, 1) == [b""]
        assert answering.peer is not None
        buffer = bytearray(max(map(len, wanted)))
        for body in wanted:
            head = encode_head(make_answer(make_request(11, {})), len(body))
            buffer[: len(body)] = body
            pieces = [memoryview(head), *pieces_of(memoryview(buffer)[: len(body)], random, most=70_000)]
            places, size = places_of(pieces)
            answering.peer.write_places(np.frombuffer(places, np.uint8).ctypes.data, len(pieces), size)
            buffer[: len(body)] = bytes(len(body))
        assert await read_bodies(client, len(wanted)) == wanted

    serving(work, tmp_path, has_tls=has_tls)


def test_nothing_is_written_to_a_connection_that_is_closed(tmp_path: Path, has_tls: bool) -> None:
    async def work(client: Client, answering: Answering) -> None:
        await ask(client, 1)
        answering.bodies = [[memoryview(b"")]]
        await read_bodies(client, 1)
        peer = answering.peer
        assert peer is not None
        peer.close()
        places, size = places_of([memoryview(b"late")])
        peer.write_places(np.frombuffer(places, np.uint8).ctypes.data, 1, size)
        assert await client[0].read() == b""

    serving(work, tmp_path, has_tls=has_tls)
