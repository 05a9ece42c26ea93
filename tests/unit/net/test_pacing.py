"""Connections of one machine are not paced, and all others are left to the system."""

from __future__ import annotations

import asyncio
import socket

from embermq.client.blocking import BlockingConnection
from embermq.model.message import Host
from embermq.net.dialer import dial
from embermq.net.pacing import send_at_once
from embermq.net.server import Server, bind, host_of


def control_of(connected: socket.socket) -> bytes:
    return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def test_both_ends_on_one_machine_do_not_pace() -> None:
    async def check() -> None:
        opened: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        server = Server(
            lambda connection, requests: None,
            on_open=lambda connection: opened.set_result(control_at(connection.descriptor)),
        )
        listener = bind(Host("127.0.0.1", 0))
        server.start(listener)
        try:
            connection = await dial(host_of(listener))
            assert control_at(connection.descriptor) == b"reno"
            connection.write(b"\0")  # a server makes a connection of a socket when its first byte is there
            assert await asyncio.wait_for(opened, 10) == b"reno"
        finally:
            await server.stop(grace_s=0.5)

    asyncio.run(check())


def test_a_blocking_connection_to_the_same_machine_does_not_pace() -> None:
    with bind(Host("127.0.0.1", 0)) as listener:
        connection = BlockingConnection(str(host_of(listener)), tls=None)
        assert control_of(connection._socket) == b"reno"
        connection.close()


def test_ends_with_different_addresses_are_left_to_the_system() -> None:
    with bind(Host("127.0.0.1", 0)) as listener, socket.socket() as connected:
        connected.bind(("127.0.0.2", 0))
        connected.connect(listener.getsockname())
        before = control_of(connected)
        send_at_once(connected)
        assert control_of(connected) == before


def test_a_socket_that_is_no_tcp_is_left_as_it_is() -> None:
    one, other = socket.socketpair()
    with one, other:
        send_at_once(one)
        one.send(b"as before")
        assert other.recv(16) == b"as before"


def control_at(descriptor: int) -> bytes:
    with socket.socket(fileno=socket.dup(descriptor)) as connected:
        return control_of(connected)
