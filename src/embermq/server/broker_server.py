"""A broker at work: its sockets, its store and what tells name servers of it.

Sockets are bound before the store is opened, because the address is written into every record,
and requests are taken after it, so that a client never finds a broker that cannot answer.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embermq.access.handlers import AccessHandlers
from embermq.broker.broker import Broker
from embermq.clock import Clock
from embermq.errors import EmberError, SettingsError
from embermq.kernels import loading
from embermq.model.message import Host
from embermq.net.connection import ConnectionLimits
from embermq.net.server import Server, bind, host_of
from embermq.rpc.peer import Peer
from embermq.server.access_setup import Door
from embermq.server.http import HttpServer, health_of
from embermq.server.meters import LoopLag, MessageSizes, RpcTimes
from embermq.server.metrics import BrokerMetrics, Meters
from embermq.server.registration import WILDCARDS
from embermq.server.rocketmq_conf import fixed_properties
from embermq.server.settings import Settings
from embermq.server.tls import TlsContext
from embermq.store.settings import StoreSettings
from embermq.store.store import Store

if TYPE_CHECKING:
    from embermq.broker.fast_requests import FastRequests

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


def _spare_collections() -> None:
    """Have the garbage collector pass over all that is there now: it stays, and to look at it takes 100 ms."""
    gc.freeze()


def _report(done: int, total: int) -> None:
    log.info("recovering done_bytes=%d of_bytes=%d", done, total)


class BrokerServer:
    """One broker with its sockets, its store and its figures."""

    def __init__(
        self,
        listeners: list[socket.socket],
        settings: Settings,
        *,
        clock: Clock,
        door: Door,
        limits: ConnectionLimits,
        tls: TlsContext,
    ) -> None:
        self.listen = host_of(listeners[0])
        self._listeners = listeners
        self._advertise = settings.server.advertise
        self.host = reachable_host(self.listen, self._advertise)
        values = {**settings.store_values, "store_host": str(self.host)}
        path = Path(settings.server.store_path)
        self.store = Store(path, StoreSettings.make(values), clock=clock, report=_report)
        self.meters = Meters(RpcTimes(), MessageSizes(), LoopLag())
        access = door.access
        self.broker = Broker(
            self.store,
            settings.broker(),
            host_of=self._host_for,
            clock=clock,
            check=access.check if access is not None else None,
            check_topic=access.check_topic if access is not None else lambda peer, request, topic: None,
            observe=self.meters.rpc,
            fixed_settings=fixed_properties(
                replace(settings.server, port=self.listen.port), address=self.host.address, cpus=os.cpu_count() or 1
            ),
        )
        if access is not None:
            self.broker.router.add(AccessHandlers(access).routes())
        self.server = Server(
            self.broker.router.receive,
            limits=limits,
            max_connections=settings.server.max_connections,
            tls_mode=settings.tls.mode,
            tls_context=tls,
            on_close=self.broker.connection_closed,
        )
        metrics = BrokerMetrics(
            self.broker,
            self.meters,
            waiting={"send": lambda: len(self.broker.puts), "pull": lambda: len(self.broker.polls)},
            connections=lambda: len(self.server.connections),
        )
        self._is_ready = False
        self._http = HttpServer(
            families=metrics.families, health=lambda: health_of(self.store.state(), is_ready=self._is_ready)
        )
        self._lag: asyncio.Task[None] | None = None
        self._engine: asyncio.Task[None] | None = None
        self._engine_unwanted = threading.Event()
        self.fast: FastRequests | None = None  # once the engine is on
        self._frame_limits = limits.frame
        self._has_access = access is not None

    async def start(self, http: socket.socket | None) -> None:
        """Take requests from now on; `http` is where figures and health are asked for."""
        self.broker.start()
        self.store.listen(self.meters.sizes.count)
        self.server.start(*self._listeners)
        self._is_ready = True
        self._lag = asyncio.get_running_loop().create_task(self.meters.loop.run())
        if http is not None:
            await self._http.start(http)
            log.info("figures and health served address=%s", host_of(http))
        _spare_collections()
        self._engine = asyncio.get_running_loop().create_task(self._start_engine())
        log.info("broker started address=%s name=%s data=%s", self.host, self.broker.settings.name, self.store.path)

    async def stop(self) -> None:
        """Answer what is in hand, close connections and store. Raises SyncFailed if the disk failed."""
        self._is_ready = False
        self._engine_unwanted.set()
        loading.give_up()
        for task in (self._lag, self._engine):
            if task is not None:
                task.cancel()
        self.server.stop_accepting()
        self.server.stop_reading()
        await self.broker.stop()
        await self.server.stop()
        await self._http.stop()
        self.store.close()
        log.info("broker stopped name=%s", self.broker.settings.name)

    async def _start_engine(self) -> None:
        """Have kernels take over what they can, once they are loaded; until then, and without them, all is plain."""
        if (reason := self._why_plain()) is not None:
            log.info("engine off reason=%s", reason)
            return
        began = time.monotonic()
        try:
            await asyncio.to_thread(loading.load, self._engine_unwanted)
        except Exception as error:
            log.warning("engine off reason=%s", error, exc_info=not isinstance(error, EmberError))
            return
        fast = self.broker.make_fast(self.server.received, self._frame_limits)
        self.server.use(fast.take, fast)
        self.fast = fast
        _spare_collections()
        log.info("engine on seconds=%.1f", time.monotonic() - began)

    def _why_plain(self) -> str | None:
        """What keeps kernels from taking over; None if nothing does."""
        if self._has_access:
            return "access control looks at every request"
        if self.store.settings.property_crc:
            return "property_crc, which kernels do not write"
        return None if loading.is_installed() else "numba is not installed, or EMBERMQ_ENGINE is off"

    def _host_for(self, peer: Peer) -> Host:
        """Our address as this client reaches it."""
        if self._advertise or self.listen.address not in WILDCARDS:
            return self.host
        return Host(peer.local.address, self.listen.port)
