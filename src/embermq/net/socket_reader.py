"""Reads from all plain sockets of a server together, for an engine that takes what many peers sent in one call.

    epoll ─→ which sockets have something ─┬─ usual ones, all together ─→ `receive` reads and takes
                                           └─ the others (a part of a frame is there, answers wait) ─→ one by one

An event loop's transport reads for one connection at a time. Here it only writes, and closes: its own reading is
paused for good, and whoever wants a connection read or not read tells this.
"""

from __future__ import annotations

import asyncio
import errno
import select
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from embermq.net.connection import Connection

MOST_AT_ONCE: Final = 512
_NOT_NOW: Final = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR)


class Engine(Protocol):
    """Who reads from many sockets at once."""

    def add(self, connection: Connection, descriptor: int) -> None:
        """Know a connection by its socket."""
        ...

    def remove(self, connection: Connection) -> None: ...

    def receive(self, connections: Sequence[Connection]) -> None:
        """Read from connections that have something to be read."""
        ...


class SocketReader:
    """All of it runs in the event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._epoll = select.epoll()
        self._connections: dict[int, Connection] = {}
        self._watched: set[int] = set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._read)

    def add(self, connection: Connection) -> None:
        """Read from its socket from now on."""
        descriptor = connection.descriptor
        self._connections[descriptor] = connection
        self.resume(descriptor)
        self._engine.add(connection, descriptor)

    def remove(self, connection: Connection) -> None:
        """Read from it no more: it is about to be closed."""
        self.pause(connection.descriptor)
        if self._connections.pop(connection.descriptor, None) is not None:
            self._engine.remove(connection)

    def pause(self, descriptor: int) -> None:
        if descriptor in self._watched and not self._epoll.closed:
            self._watched.remove(descriptor)
            self._epoll.unregister(descriptor)

    def resume(self, descriptor: int) -> None:
        if descriptor not in self._watched and not self._epoll.closed:
            self._watched.add(descriptor)
            self._epoll.register(descriptor, select.EPOLLIN)

    def close(self) -> None:
        """Read no more. Connections may go later, and be told to pause or go on until then."""
        if self._epoll.closed:
            return
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _read(self) -> None:
        """Read what there is. What comes meanwhile waits for the next turn, so that peers have their answers sooner."""
        usual: list[Connection] = []
        connections = self._connections
        for descriptor, _ in self._epoll.poll(0, MOST_AT_ONCE):
            connection = connections.get(descriptor)
            if connection is None:
                continue
            if connection.is_usual:
                usual.append(connection)
            else:
                connection.read()
        if usual:
            self._engine.receive(usual)


def is_for_later(number: int) -> bool:
    """Whether an error number only says that there is nothing at the moment."""
    return number in _NOT_NOW
