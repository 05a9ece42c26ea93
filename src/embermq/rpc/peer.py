"""The other end of a connection, as handlers see it."""

from __future__ import annotations

from typing import Protocol

from embermq.format.command import Command
from embermq.model.message import Host


class Peer(Protocol):
    """Who sent a request, and how to reach them. `net.connection.Connection` is one."""

    @property
    def peer(self) -> Host:
        """Their address."""
        ...

    @property
    def local(self) -> Host:
        """Ours, as they reached it."""
        ...

    @property
    def is_closed(self) -> bool: ...

    def send(self, command: Command) -> None:
        """Write one command; nothing happens when the connection is closed."""
        ...

    def write(self, *parts: bytes | memoryview) -> None:
        """Write whole frames, one part after the other; nothing happens when the connection is closed.

        Parts are free again when this returns, except for views of memory that cannot be written to: those may be
        kept until the other end has taken them.
        """
        ...

    async def call(self, request: Command, *, timeout_s: float) -> Command:
        """Ask them something. Raises ConnectionLost or CallTimeout."""
        ...

    def owe(self, count: int) -> None:
        """So many of their requests are in hand and not answered yet."""
        ...

    def settle(self, count: int) -> None:
        """So many of those are answered."""
        ...

    def close(self) -> None: ...
