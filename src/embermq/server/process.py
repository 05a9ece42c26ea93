"""One process: a name server, a broker, or both, from their settings to their clean end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from embermq.clock import Clock, SystemClock
from embermq.errors import SettingsError
from embermq.model.message import Host
from embermq.nameserver.nameserver import NameServer
from embermq.nameserver.settings import NameServerSettings
from embermq.net.connection import ConnectionLimits
from embermq.net.server import bind, host_of
from embermq.server.access_setup import Door, check_addresses, open_door
from embermq.server.broker_server import BrokerServer, bind_broker
from embermq.server.name_server_link import RegisteredBroker
from embermq.server.namesrv import run_name_server
from embermq.server.other_brokers import OtherBrokers
from embermq.server.registration import (
    WILDCARDS,
    BrokerRegistration,
    LocalRegistration,
    RemoteRegistration,
    advertised_address,
)
from embermq.server.rocketmq_conf import name_server_properties
from embermq.server.settings import Settings
from embermq.server.tls import TlsContext

log = logging.getLogger(__name__)

CONFIG_FOLDER: Final = "config"  # of the data directory
NAME_SERVER_FOLDER: Final = "namesrv"
NAME_SERVER_PORT: Final = 9876

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

    def __init__(
        self,
        settings: Settings,
        *,
        with_broker: bool,
        with_name_server: bool,
        insecure_public: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._with_broker = with_broker
        self._with_name_server = with_name_server
        self._insecure_public = insecure_public
        self._limits = ConnectionLimits(idle_s=settings.server.idle_timeout_s)
        self._folder = Path(settings.server.store_path)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Have `run` end, cleanly."""
        self._stop.set()

    async def run(self, announce: Announce, *, say: Announce = log.warning) -> None:
        """Serve until stopped by `stop`, SIGINT or SIGTERM. Raises SettingsError or a StoreError if it cannot.

        `announce` is told once it is ready; `say` what an operator must hear, such as the first secret.
        """
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stop.set)
        self._check_addresses()
        name_server_sockets = self._bind_name_server() if self._with_name_server else []
        broker_sockets = self._bind_broker() if self._with_broker else []
        door = open_door(self._settings, self._folder / CONFIG_FOLDER, say=say)
        tls = TlsContext(self._settings.tls, folder=self._folder / CONFIG_FOLDER)
        words = ["ready"]

        def announce_broker(told: list[str]) -> None:
            announce(" ".join(words + told))

        name_server = serving = None
        name_servers = [str(host) for host in self._name_servers()]
        if name_server_sockets:
            listen = host_of(name_server_sockets[0])
            name_server = self._make_name_server(door, listen)
            serving = asyncio.create_task(self._run_name_server(name_server, name_server_sockets, tls))
            words.append(f"namesrv={_told(listen)}")
            name_servers = [str(_told(listen))]
        try:
            if broker_sockets:
                await self._run_broker(broker_sockets, name_server, name_servers, door, tls, announce_broker)
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
        name_servers: list[str],
        door: Door,
        tls: TlsContext,
        announce: Callable[[list[str]], None],
    ) -> None:
        server = BrokerServer(sockets, self._settings, clock=self._clock, door=door, limits=self._limits, tls=tls)
        broker = server.broker
        others = OtherBrokers(name_servers, door.own)
        broker.static_topics.forward = others.ask
        try:
            await server.start(self._bind_http())
            registration = self._registration(server, name_server, door)
            broker.topics.listeners.append(registration.topics_changed)
            broker.topics.deletion_listeners.append(registration.topic_deleted)
            broker.live_settings.listeners.append(lambda settings: registration.settings_changed())
            await registration.start()
            store = server.store
            announce(
                [f"broker={_told(server.listen)}", f"data={store.path}", f"durability={store.settings.durability}"]
            )
            await self._stop.wait()
            await registration.stop()
        finally:
            await server.stop()
            await others.close()

    def _registration(self, server: BrokerServer, name_server: NameServer | None, door: Door) -> BrokerRegistration:
        broker = server.broker
        told = RegisteredBroker(
            settings=lambda: broker.settings,
            topics=broker.topics.table,
            mappings=broker.topics.mappings.all,
            port=server.listen.port,
            address=advertised_address(server.listen.address, self._settings.server.advertise),
            on_order_topics=broker.topics.note_order_topics,
        )
        if name_server is not None:
            return LocalRegistration(name_server, told)
        hosts = self._name_servers()
        if not hosts:
            log.warning("no name server is set, so no client will find this broker; set one with -n")
        return RemoteRegistration(hosts, told, sign=door.sign)

    def _name_servers(self) -> list[Host]:
        """Those of other processes."""
        return [parse_host(text, default_port=NAME_SERVER_PORT) for text in self._settings.server.name_servers]

    async def _run_name_server(self, name_server: NameServer, sockets: list[socket.socket], tls: TlsContext) -> None:
        await run_name_server(
            name_server,
            sockets,
            stop=self._stop,
            limits=self._limits,
            tls_mode=self._settings.tls.mode,
            tls_context=tls,
        )

    def _make_name_server(self, door: Door, listen: Host) -> NameServer:
        server = replace(self._settings.server, name_server_port=listen.port)
        return NameServer(
            NameServerSettings.make(self._settings.name_server_values),
            clock=self._clock,
            directory=self._folder / NAME_SERVER_FOLDER,
            key_values=None if server.key_values_path is None else Path(server.key_values_path),
            check=door.access.check if door.access is not None else None,
            fixed=name_server_properties(server),
        )

    def _check_addresses(self) -> None:
        server = self._settings.server
        addresses = [server.name_server_listen] if self._with_name_server else []
        addresses += [server.listen] if self._with_broker else []
        check_addresses(addresses, self._settings, insecure_public=self._insecure_public)

    def _bind_name_server(self) -> list[socket.socket]:
        server = self._settings.server
        return [bind(Host(server.name_server_listen, server.name_server_port))]

    def _bind_broker(self) -> list[socket.socket]:
        server = self._settings.server
        return bind_broker(Host(server.listen, server.port))

    def _bind_http(self) -> socket.socket | None:
        """Where figures are asked for: the usual port or, if that is taken, any other."""
        server = self._settings.server
        if server.http_port < 0:
            return None
        try:
            return bind(Host(server.http_listen, 0 if server.port == 0 else server.http_port))
        except SettingsError:
            return bind(Host(server.http_listen, 0))


def _told(host: Host) -> Host:
    """An address that can be typed: of one that listens everywhere, this machine's own."""
    return Host("127.0.0.1", host.port) if host.address in WILDCARDS else host
