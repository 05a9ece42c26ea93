"""One process: a name server, a broker, or both, from their settings to their clean end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from embermq.clock import Clock, SystemClock
from embermq.errors import SettingsError
from embermq.model.message import Host
from embermq.nameserver.nameserver import NameServer
from embermq.net.connection import ConnectionLimits
from embermq.net.server import bind, host_of
from embermq.server.broker_server import BrokerServer, bind_broker
from embermq.server.name_server_link import RegisteredBroker
from embermq.server.namesrv import run_name_server
from embermq.server.registration import (
    BrokerRegistration,
    LocalRegistration,
    RemoteRegistration,
    advertised_address,
)
from embermq.server.settings import Settings

log = logging.getLogger(__name__)

NAME_SERVER_FOLDER: Final = "namesrv"  # in the data directory, where a broker's store is, too
Announce = Callable[[str], None]


def parse_host(text: str, *, default_port: int = 0) -> Host:
    """`host:port`, `[v6]:port` or a port alone. Raises SettingsError."""
    address, _, port = text.rpartition(":")
    if not address and text.isdigit():
        return Host("127.0.0.1", int(text))
    if not _:
        address, port = text, str(default_port)
    try:
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number <= 65_535:
        raise SettingsError(f"{text!r} is no address; HOST:PORT is wanted, such as 127.0.0.1:10911")
    return Host(address.strip("[]") or "127.0.0.1", number)


class Process:
    """What one process runs. Everything is bound and opened when `run` announces that it is ready."""

    def __init__(self, settings: Settings, *, with_broker: bool, with_name_server: bool, clock: Clock | None = None):
        self._settings = settings
        self._clock = clock or SystemClock()
        self._with_broker = with_broker
        self._with_name_server = with_name_server
        self._stop = asyncio.Event()
        self._limits = ConnectionLimits(idle_s=settings.server.idle_timeout_s)

    def stop(self) -> None:
        """Have `run` end, cleanly."""
        self._stop.set()

    async def run(self, announce: Announce) -> None:
        """Serve until stopped by `stop`, SIGINT or SIGTERM. Raises SettingsError or a StoreError if it cannot."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        name_server_socket = self._bind_name_server() if self._with_name_server else None
        broker_sockets = self._bind_broker() if self._with_broker else []
        name_server = self._make_name_server() if name_server_socket else None
        serving = None
        if name_server is not None and name_server_socket is not None:
            serving = asyncio.create_task(
                run_name_server(name_server, [name_server_socket], stop=self._stop, limits=self._limits)
            )
        words = ["ready"]
        if name_server_socket is not None:
            words.append(f"namesrv={_told(host_of(name_server_socket))}")
        try:
            if broker_sockets:
                await self._run_broker(broker_sockets, name_server, words, announce)
            else:
                announce(" ".join(words))
                await self._stop.wait()
        finally:
            self._stop.set()
            if serving is not None:
                await serving

    async def _run_broker(
        self,
        sockets: list[socket.socket],
        name_server: NameServer | None,
        words: list[str],
        announce: Announce,
    ) -> None:
        settings = self._settings
        server = BrokerServer(
            sockets,
            path=Path(settings.server.store_path),
            settings=settings.broker(),
            store_values=dict(settings.store_values),
            advertise=settings.server.advertise,
            clock=self._clock,
            limits=self._limits,
        )
        try:
            server.start()
            registration = self._registration(server, name_server)
            server.broker.topics.listeners.append(registration.topics_changed)
            server.broker.topics.deletion_listeners.append(registration.topic_deleted)
            await registration.start()
            words.append(f"broker={_told(server.listen)}")
            words += [f"data={server.store.path}", f"durability={server.store.settings.durability}"]
            announce(" ".join(words))
            await self._stop.wait()
            await registration.stop()
        finally:
            await server.stop()

    def _registration(self, server: BrokerServer, name_server: NameServer | None) -> BrokerRegistration:
        broker = server.broker
        told = RegisteredBroker(
            settings=lambda: broker.settings,
            topics=broker.topics.table,
            port=server.listen.port,
            address=advertised_address(server.listen.address, self._settings.server.advertise),
            on_order_topics=broker.topics.note_order_topics,
        )
        if name_server is not None:
            return LocalRegistration(name_server, told)
        hosts = [parse_host(text, default_port=9876) for text in self._settings.server.name_servers]
        return RemoteRegistration(hosts, told)

    def _bind_name_server(self) -> socket.socket:
        server = self._settings.server
        return bind(Host(server.name_server_listen, server.name_server_port))

    def _bind_broker(self) -> list[socket.socket]:
        server = self._settings.server
        return bind_broker(Host(server.listen, server.port))

    def _make_name_server(self) -> NameServer:
        folder = Path(self._settings.server.store_path) / NAME_SERVER_FOLDER if self._with_broker else None
        return NameServer(clock=self._clock, directory=folder)


def _told(host: Host) -> Host:
    """An address that can be typed: of one that listens everywhere, this machine's own."""
    return Host("127.0.0.1", host.port) if host.address in ("", "0.0.0.0", "::") else host
