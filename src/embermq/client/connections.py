"""Connections of one client: one for each address, made when it is needed and again when it is lost.

Every request goes through here, so this is where requests are signed.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from embermq.client.retry import Deadline
from embermq.errors import CallTimeout, ConnectionLost, SettingsError, TransportError
from embermq.format.command import Command, make_request
from embermq.format.frame import MAX_FRAME_SIZE, FrameLimits
from embermq.format.signature import signed
from embermq.model.message import Host
from embermq.net.connection import Connection, ConnectionLimits
from embermq.net.dialer import dial

log = logging.getLogger(__name__)

Asked = Callable[[Connection, Command], None]  # what a broker asks of us

LONGEST_DIAL_S: Final = 3.0
# The answer to a large batch has all its ids in the header.
_LIMITS: Final = ConnectionLimits(frame=FrameLimits(header_size=MAX_FRAME_SIZE), in_flight=65_536)


class Credentials(NamedTuple):
    """Who we are, for brokers that ask."""

    access_key: str
    secret_key: str


class Connections:
    """All connections of one client, by address."""

    def __init__(
        self,
        *,
        credentials: Credentials | None = None,
        tls: ssl.SSLContext | None = None,
        asked: Asked = lambda connection, request: None,
    ) -> None:
        self.local_address = "127.0.0.1"  # ours, as the first peer saw it
        self._credentials = credentials
        self._tls = tls
        self._asked = asked
        self._open: dict[str, Connection] = {}
        self._dialing: dict[str, asyncio.Task[Connection]] = {}
        self._is_closed = False

    async def call(
        self,
        address: str,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout_s: float,
    ) -> Command:
        """The answer of `address` to a request, whatever it says. Raises ConnectionLost or CallTimeout."""
        deadline = Deadline(timeout_s)
        connection = await self._connection(address, deadline)
        return await connection.call(self._request(code, fields, body), timeout_s=max(0.001, deadline.left_s))

    async def tell(self, address: str, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        """A request that wants no answer. Raises ConnectionLost or CallTimeout if it cannot be sent."""
        connection = await self._connection(address, Deadline(LONGEST_DIAL_S))
        connection.send(self._request(code, fields, body, oneway=True))

    async def call_any(
        self, addresses: list[str], code: int, fields: Mapping[str, str] | None = None, *, timeout_s: float
    ) -> Command:
        """The answer of the first of `addresses` that gives one; the one that did comes first from now on."""
        deadline = Deadline(timeout_s)
        failures: list[TransportError] = []
        for address in list(addresses):
            # Each gets its share of the time, so that a dead one does not use up all of it.
            share_s = deadline.left_s / (len(addresses) - len(failures))
            try:
                answer = await self.call(address, code, fields, timeout_s=share_s)
            except (ConnectionLost, CallTimeout) as error:
                failures.append(error)
                addresses.remove(address)
                addresses.append(address)
                continue
            return answer
        if len(failures) == 1:
            raise failures[0]
        raise ConnectionLost(f"none of {len(failures)} addresses answers: {'; '.join(map(str, failures))}")

    async def close(self) -> None:
        """Close all connections; what is sent already still arrives."""
        self._is_closed = True
        for task in self._dialing.values():
            task.cancel()
        connections = list(self._open.values())
        for connection in connections:
            connection.close()
        for connection in connections:
            try:
                await asyncio.wait_for(connection.wait_closed(), 1.0)
            except TimeoutError:
                connection.abort()
        self._open.clear()

    def _request(self, code: int, fields: Mapping[str, str] | None, body: bytes, *, oneway: bool = False) -> Command:
        if self._credentials is not None:
            access_key, secret_key = self._credentials
            fields = signed(fields or {}, body, access_key=access_key, secret=secret_key)
        return make_request(code, fields, body, oneway=oneway)

    async def _connection(self, address: str, deadline: Deadline) -> Connection:
        connection = self._open.get(address)
        if connection is not None and not connection.is_closed:
            return connection
        if self._is_closed:
            raise ConnectionLost("the client is closed")
        task = self._dialing.get(address)
        if task is None:
            task = self._dialing[address] = asyncio.get_running_loop().create_task(self._dial(address))
            task.add_done_callback(lambda done: self._dialed(address, done))
        # Several requests may wait for one dial; when one of them gives up, the others go on.
        try:
            async with asyncio.timeout(deadline.left_s):
                return await asyncio.shield(task)
        except TimeoutError as error:
            raise CallTimeout(f"no connection to {address} within {deadline.seconds:g} s") from error
        except asyncio.CancelledError:
            if task.cancelled() and self._is_closed:
                raise ConnectionLost("the client is closed") from None
            raise

    async def _dial(self, address: str) -> Connection:
        connection = await dial(
            parse_address(address),
            receiver=self._receive,
            limits=_LIMITS,
            tls=self._tls,
            timeout_s=LONGEST_DIAL_S,
        )
        self.local_address = connection.local.address or self.local_address
        self._open[address] = connection
        return connection

    def _dialed(self, address: str, task: asyncio.Task[Connection]) -> None:
        self._dialing.pop(address, None)
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may be waiting any more

    def _receive(self, connection: Connection, requests: object) -> None:
        assert isinstance(requests, list | tuple)
        for request in requests:
            try:
                self._asked(connection, request)
            except Exception:
                log.exception("request of a broker failed peer=%s code=%d", connection.peer, request.code)


def parse_address(text: str) -> Host:
    """`host:port` or `[v6]:port`. Raises SettingsError."""
    address, colon, port = text.strip().rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    if not colon or not address or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise SettingsError(f"address {text[:200]!r}: host:port expected, such as 127.0.0.1:9876")
    return Host(address, int(port))


def parse_addresses(text: str) -> list[str]:
    """The addresses of a list that `;` or `,` separates. Raises SettingsError."""
    addresses = [part.strip() for part in text.replace(",", ";").split(";") if part.strip()]
    if not addresses:
        raise SettingsError("no name server is named; give one as host:port, such as 127.0.0.1:9876")
    for address in addresses:
        parse_address(address)
    return addresses
