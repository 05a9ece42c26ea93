"""A broker at work: its sockets, its store and what tells name servers of it.

Sockets are bound before the store is opened, because the address is written into every record,
and requests are taken after it, so that a client never finds a broker that cannot answer.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.clock import Clock
from embermq.errors import SettingsError
from embermq.model.message import Host
from embermq.net.connection import DEFAULT_LIMITS, ConnectionLimits
from embermq.net.server import Server, TlsMode, bind, host_of
from embermq.rpc.peer import Peer
from embermq.rpc.router import Check, Observe
from embermq.server.registration import WILDCARDS
from embermq.store.settings import StoreSettings
from embermq.store.store import Store

log = logging.getLogger(__name__)

VIP_DISTANCE: Final = 2  # old clients send to the port two below the broker's
PORT_ATTEMPTS: Final = 20


def bind_broker(host: Host) -> list[socket.socket]:
    """The broker's listening socket, and the one two ports below that old clients use.

    With port 0 both are chosen together. Raises SettingsError; a second port that is taken is only said.
    """
    if host.port == 0:
        return _bind_any(host.address)
    listener = bind(host)
    if host.port <= VIP_DISTANCE:
        return [listener]
    try:
        return [listener, bind(Host(host.address, host.port - VIP_DISTANCE))]
    except SettingsError as error:
        log.warning("no port for old clients (VIP channel) reason=%s", error)
        return [listener]


def _bind_any(address: str) -> list[socket.socket]:
    for _ in range(PORT_ATTEMPTS):
        listener = bind(Host(address, 0))
        try:
            return [listener, bind(Host(address, host_of(listener).port - VIP_DISTANCE))]
        except SettingsError:
            listener.close()
    raise SettingsError(f"no two free ports on {address} after {PORT_ATTEMPTS} attempts; choose one with --listen")


def reachable_host(listen: Host, advertise: str | None) -> Host:
    """The address that is written into records: what was set, what we listen on, or how others see this machine."""
    if advertise:
        return Host(advertise, listen.port)
    return Host(_outward_address() if listen.address in WILDCARDS else listen.address, listen.port)


def _outward_address() -> str:
    """The address that this machine sends from; nothing is sent to find out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation: it is only routed, never reached
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def _report(done: int, total: int) -> None:
    log.info("recovering done=%d of=%d bytes", done, total)


class BrokerServer:
    """One broker with its sockets and its store."""

    def __init__(
        self,
        listeners: list[socket.socket],
        *,
        path: Path,
        settings: BrokerSettings,
        store_values: dict[str, object],
        advertise: str | None,
        clock: Clock,
        check: Check | None = None,
        observe: Observe = lambda request, response, seconds: None,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        max_connections: int = 10_000,
        tls_mode: TlsMode = TlsMode.PERMISSIVE,
        tls_context: Callable[[], ssl.SSLContext | None] = lambda: None,
    ) -> None:
        self.listen = host_of(listeners[0])
        self._listeners = listeners
        self._advertise = advertise
        self.host = reachable_host(self.listen, advertise)
        values = {**store_values, "store_host": str(self.host)}
        self.store = Store(path, StoreSettings.make(values), clock=clock, report=_report)
        self.broker = Broker(self.store, settings, host_of=self._host_for, clock=clock, check=check, observe=observe)
        self.server = Server(
            self.broker.router.receive,
            limits=limits,
            max_connections=max_connections,
            tls_mode=tls_mode,
            tls_context=tls_context,
            on_close=self.broker.connection_closed,
        )

    def start(self) -> None:
        """Take requests from now on."""
        self.broker.start()
        self.server.start(*self._listeners)
        log.info("broker started address=%s name=%s data=%s", self.host, self.broker.settings.name, self.store.path)

    async def stop(self) -> None:
        """Answer what is in hand, close connections and store. Raises SyncFailed if the disk failed."""
        self.server.stop_accepting()
        await self.broker.stop()
        await self.server.stop()
        self.store.close()
        log.info("broker stopped name=%s", self.broker.settings.name)

    def _host_for(self, peer: Peer) -> Host:
        """Our address as this client reaches it."""
        if self._advertise or self.listen.address not in WILDCARDS:
            return self.host
        return Host(peer.local.address, self.listen.port)
