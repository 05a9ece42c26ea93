"""Accepting connections: plain ones and TLS on the same port, told apart by their first byte."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from enum import StrEnum

from embermq.errors import SettingsError
from embermq.model.message import Host
from embermq.net.connection import DEFAULT_LIMITS, Connection, ConnectionLimits, Receiver, Take
from embermq.net.pacing import send_at_once
from embermq.net.receiving import SHARED_SIZE, ReceiveBuffer
from embermq.net.socket_reader import Engine, SocketReader

log = logging.getLogger(__name__)

CLIENT_HELLO = 0x16  # the first byte of every TLS connection
HANDSHAKE_S = 10.0
IDLE_CHECK_S = 5.0
BACKLOG = 1024
ACCEPT_PAUSE_S = 0.1


class TlsMode(StrEnum):
    """Which connections are taken."""

    DISABLED = "disabled"  # plain ones
    PERMISSIVE = "permissive"  # both
    ENFORCING = "enforcing"  # TLS only


def bind(host: Host) -> socket.socket:
    """A listening socket; port 0 takes any free one. Raises SettingsError if the address cannot be had."""
    family = socket.AF_INET6 if ":" in host.address else socket.AF_INET
    # asyncio sends small answers at once only where it sees that a socket is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.address, host.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        hint = "another process has it" if error.errno == errno.EADDRINUSE else error.strerror
        raise SettingsError(f"cannot listen on {host}: {hint}; choose another address with --listen") from error
    listener.setblocking(False)
    return listener


def host_of(listener: socket.socket) -> Host:
    address, port = listener.getsockname()[:2]
    return Host(address, port)


class Server:
    """Takes connections from any number of listening sockets and hands their requests on."""

    def __init__(
        self,
        receiver: Receiver,
        *,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        max_connections: int = 10_000,
        tls_mode: TlsMode = TlsMode.PERMISSIVE,
        tls_context: Callable[[], ssl.SSLContext | None] = lambda: None,
        on_open: Callable[[Connection], None] = lambda connection: None,
        on_close: Callable[[Connection], None] = lambda connection: None,
    ) -> None:
        self.connections: set[Connection] = set()
        self._receiver = receiver
        self._limits = limits
        self._max_connections = max_connections
        self._tls_mode = tls_mode
        self._tls_context = tls_context
        self._on_open = on_open
        self._on_close = on_close
        self.received = ReceiveBuffer(SHARED_SIZE)
        self._take: Take | None = None
        self._reader: SocketReader | None = None
        self._opening = 0  # accepted, but no connection yet
        self._tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[socket.socket] = []

    def start(self, *listeners: socket.socket) -> None:
        """Accept on these sockets from now on."""
        for listener in listeners:
            self._listeners.append(listener)
            self._spawn(self._accept(listener))
        self._spawn(self._close_idle())

    def use(self, take: Take | None, engine: Engine) -> None:
        """Let an engine read from plain connections, and `take` have the first look at what others receive."""
        self._take = take
        self._reader = SocketReader(engine)
        for connection in self.connections:
            self._let_take(connection)

    def _let_take(self, connection: Connection) -> None:
        connection.take = self._take
        if self._reader is not None:
            connection.read_by(self._reader)

    def stop_accepting(self) -> None:
        """Take no more connections."""
        for task in list(self._tasks):
            task.cancel()
        for listener in self._listeners:
            listener.close()

    def stop_reading(self) -> None:
        """Take no more requests either: else whoever waits for the last answer might wait for ever."""
        for connection in self.connections:
            connection.stop_reading()

    async def stop(self, *, grace_s: float = 3.0) -> None:
        """Take no more connections, give those that are open a moment to read their answers, and close them."""
        self.stop_accepting()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        open_ones = list(self.connections)
        for connection in open_ones:
            connection.close()
        if open_ones:
            waits = [asyncio.ensure_future(connection.wait_closed()) for connection in open_ones]
            _, late = await asyncio.wait(waits, timeout=grace_s)
            for wait in late:
                wait.cancel()
        for connection in list(self.connections):
            connection.abort()
        if self._reader is not None:
            self._reader.close()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError as error:  # out of file descriptors, or the peer was gone already
                log.error("cannot accept listener=%s cause=%s", host_of(listener), error)
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            # One that has sent nothing yet takes a file descriptor all the same.
            count = len(self.connections) + self._opening
            if count >= self._max_connections:
                reason = f"{count} are open, limit {self._max_connections} (max_connections)"
                log.warning("connection refused peer=%s reason=%s", address, reason)
                accepted.close()
                continue
            self._opening += 1
            self._spawn(self._open(accepted, Host(*address[:2])))

    async def _open(self, accepted: socket.socket, peer: Host) -> None:
        try:
            await self._open_as_asked(accepted, peer)
        finally:
            self._opening -= 1

    async def _open_as_asked(self, accepted: socket.socket, peer: Host) -> None:
        """Make a connection of a socket, once its first byte has told which kind it is."""
        loop = asyncio.get_running_loop()
        accepted.setblocking(False)
        send_at_once(accepted)
        try:
            first = await asyncio.wait_for(_peek(accepted), self._limits.idle_s)
        except (OSError, TimeoutError, asyncio.CancelledError):
            accepted.close()
            return
        context = self._context_for(first, peer)
        if not first or (context is None and first[0] == CLIENT_HELLO) or self._must_encrypt(first, peer):
            accepted.close()
            return
        try:
            _, connection = await loop.connect_accepted_socket(
                lambda: Connection(
                    self._receiver,
                    limits=self._limits,
                    on_close=self._closed,
                    received=self.received,
                ),
                accepted,
                ssl=context,
                ssl_handshake_timeout=HANDSHAKE_S if context else None,
            )
        except (OSError, TimeoutError) as error:
            log.warning("connection refused peer=%s reason=%s", peer, str(error) or "no TLS handshake in time")
            # The frames in it refer to the buffers of the connection, and to whatever refers to it: 256 KiB each
            # that would lie there until the garbage collector comes by.
            error.__traceback__ = None
            return
        if not connection.is_closed:
            self._let_take(connection)
            self.connections.add(connection)
            self._on_open(connection)

    def _context_for(self, first: bytes, peer: Host) -> ssl.SSLContext | None:
        if not first or first[0] != CLIENT_HELLO:
            return None
        context = None if self._tls_mode is TlsMode.DISABLED else self._tls_context()
        if context is None:
            log.warning("connection refused peer=%s reason=%s", peer, "it wants TLS, which is off")
        return context

    def _must_encrypt(self, first: bytes, peer: Host) -> bool:
        if self._tls_mode is TlsMode.ENFORCING and first[0] != CLIENT_HELLO:
            log.warning("connection refused peer=%s reason=%s", peer, "it is not encrypted, and TLS is required")
            return True
        return False

    def _closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._on_close(connection)

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_CHECK_S)
            for connection in [each for each in self.connections if each.is_idle]:
                log.info("connection closed peer=%s reason=%s", connection.peer, "idle")
                connection.close()


async def _peek(accepted: socket.socket) -> bytes:
    """The first byte of a connection, left where it is; nothing if the peer is gone."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            return accepted.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            readable = asyncio.Event()
            loop.add_reader(accepted, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(accepted)
