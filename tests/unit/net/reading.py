"""Who reads from the sockets of a server under test: each transport for itself, or all of them together."""

from __future__ import annotations

from collections.abc import Sequence

from embermq.net.connection import Connection
from embermq.net.server import Server


class OneByOne:
    """Reads from connections as an engine is asked to, and takes nothing for itself."""

    def add(self, connection: Connection, descriptor: int) -> None:
        connection.slot = descriptor

    def remove(self, connection: Connection) -> None:
        connection.slot = -1

    def receive(self, connections: Sequence[Connection]) -> None:
        for connection in connections:
            connection.read()


is_together = False  # of the test that runs; see conftest.py


def begin_reading(server: Server) -> None:
    """Have `server` read as the test wants it; call it in the event loop."""
    if is_together:
        server.use(None, OneByOne())
