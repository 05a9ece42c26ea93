"""What there is to tell of a broker, and the connection that tells one name server of it."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from embermq.broker.settings import BrokerSettings
from embermq.errors import ConnectionLost, EmberError, Refused, TransportError
from embermq.format.cluster_body import decode_values
from embermq.format.command import Command, make_request
from embermq.format.mapping_json import info_members
from embermq.format.registration_body import Registration, body_checksum, encode_registration
from embermq.format.tables import TopicTable
from embermq.model.codes import RequestCode
from embermq.model.flags import Permission
from embermq.model.message import Host
from embermq.model.queue_mapping import QueueMapping
from embermq.model.topic import TopicConfig
from embermq.net.connection import Connection
from embermq.net.dialer import dial

log = logging.getLogger(__name__)

READ_WRITE: Final = int(Permission.READ | Permission.WRITE)
CALL_TIMEOUT_S: Final = 6.0
FIRST_RETRY_S: Final = 0.5
LAST_RETRY_S: Final = 10.0
LONGEST_INTERVAL_S: Final = 60.0  # name servers close what is silent for two minutes
GOODBYE_S: Final = 2.0

OnOrderTopics = Callable[[Iterable[str]], None]
Sign = Callable[[Command], Command]


@dataclass(frozen=True, slots=True)
class RegisteredBroker:
    """What there is to tell of a broker."""

    settings: Callable[[], BrokerSettings]
    topics: Callable[[], TopicTable]
    port: int
    address: str | None = None  # as clients reach it; None: wherever they reach this process
    mappings: Callable[[], Mapping[str, QueueMapping]] = dict  # of static topics
    on_order_topics: OnOrderTopics = lambda topics: None  # told which topics administrators declared as ordered

    def registration(self, only: Mapping[str, TopicConfig] | None = None) -> Registration:
        """All topics, or only some, with what the broker's own permission leaves of theirs."""
        permission = self.settings().permission
        table = self.topics()
        topics = table.topics if only is None else only
        if permission & READ_WRITE != READ_WRITE:
            allowed = permission | ~READ_WRITE
            topics = {name: replace(topic, permission=topic.permission & allowed) for name, topic in topics.items()}
        static = {name: info_members(mapping) for name, mapping in self.mappings().items() if name in topics}
        return Registration(TopicTable(table.version, topics), mappings=static)


class NameServerLink:
    """The connection to one name server: everything once, then changes, and everything again at times."""

    def __init__(
        self,
        host: Host,
        broker: RegisteredBroker,
        *,
        tls: ssl.SSLContext | None,
        sign: Sign,
    ) -> None:
        self.tried = asyncio.Event()  # set when the first attempt is over, however it went
        self._host = host
        self._broker = broker
        self._tls = tls
        self._sign = sign
        self.connection: Connection | None = None
        self._changes: dict[str, TopicConfig] = {}
        self._is_all_new = True  # everything is to be told
        self._bumps = 0
        self._awake = asyncio.Event()

    def change(self, topics: Mapping[str, TopicConfig]) -> None:
        self._changes.update(topics)
        self._awake.set()

    def forget(self, topic: str) -> None:
        self._changes.pop(topic, None)

    def change_all(self) -> None:
        # A RocketMQ name server looks at topics only when the version is another, and no topic changed.
        self._bumps += 1
        self._is_all_new = True
        self._awake.set()

    async def keep(self) -> None:
        """Stay registered until cancelled."""
        pause_s = FIRST_RETRY_S
        complaint = ""
        while True:
            try:
                await self._connect()
                await self._tell_all()
                log.info("registered name_server=%s", self._host)
                pause_s, complaint = FIRST_RETRY_S, ""
                self.tried.set()
                await self._tell_changes()
            except EmberError as error:
                if str(error) != complaint:  # the same again and again helps nobody
                    log.warning("not registered name_server=%s reason=%s", self._host, error)
                complaint = str(error)
            except Exception:
                log.exception("registration failed name_server=%s", self._host)
            self._disconnect()
            self.tried.set()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_RETRY_S)

    async def say_goodbye(self) -> None:
        connection = self.connection
        if connection is None or connection.is_closed:
            return
        who = _identity(self._broker, connection)
        try:
            request = self._sign(make_request(RequestCode.UNREGISTER_BROKER, who))
            await connection.call(request, timeout_s=GOODBYE_S)
        except TransportError as error:
            log.warning("no goodbye name_server=%s reason=%s", self._host, error)
        self._disconnect()

    async def _connect(self) -> None:
        self.connection = await dial(self._host, tls=self._tls)

    def _disconnect(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    async def _tell_all(self) -> None:
        self._changes.clear()
        self._is_all_new = False
        await self._register(self._broker.registration())

    async def _tell_changes(self) -> None:
        """Tell what changes, as soon as it does, and everything from time to time. Raises TransportError."""
        assert self.connection is not None
        closed = asyncio.ensure_future(self.connection.wait_closed())
        try:
            while not closed.done():
                if self._is_all_new:
                    await self._tell_all()
                elif self._changes:
                    await self._tell_some()
                else:
                    await self._wait(closed)
        finally:
            closed.cancel()
        raise ConnectionLost(f"{self._host} closed the connection")

    async def _tell_some(self) -> None:
        changes, self._changes = self._changes, {}
        try:
            await self._register(self._broker.registration(changes))
        except Refused as error:  # it may have forgotten us, and then wants everything
            log.warning("change refused name_server=%s reason=%s", self._host, error)
            self._is_all_new = True

    async def _wait(self, closed: asyncio.Future[None]) -> None:
        """Wait for something to tell; after a while, that is everything."""
        self._awake.clear()
        awake = asyncio.ensure_future(self._awake.wait())
        either: list[asyncio.Future[Any]] = [awake, closed]
        try:
            await asyncio.wait(either, timeout=self._interval_s(), return_when=asyncio.FIRST_COMPLETED)
            self._is_all_new |= not awake.done()
        finally:
            awake.cancel()

    def _interval_s(self) -> float:
        return min(self._broker.settings().register_interval_ms / 1000, LONGEST_INTERVAL_S)

    async def _register(self, registration: Registration) -> None:
        """Send one registration. Raises TransportError."""
        assert self.connection is not None
        version = registration.topics.version
        bumped = version._replace(counter=version.counter + self._bumps)
        body = encode_registration(replace(registration, topics=replace(registration.topics, version=bumped)))
        fields = {
            **_identity(self._broker, self.connection),
            "haServerAddr": str(_address(self._broker, self.connection, port=self._broker.port + 1)),
            "enableActingMaster": "false",
            "compressed": "false",
            "bodyCrc32": str(body_checksum(body)),
        }
        request = self._sign(make_request(RequestCode.REGISTER_BROKER, fields, body))
        answer = await self.connection.call(request, timeout_s=CALL_TIMEOUT_S)
        if answer.code != 0:
            raise Refused(answer.code, answer.remark, asked=f"registration with {self._host}")
        if answer.body:
            self._broker.on_order_topics(decode_values(answer.data).keys())


def _address(broker: RegisteredBroker, connection: Connection, *, port: int) -> Host:
    """Where clients reach the broker: as it was set, or where the name server saw it."""
    return Host(broker.address or connection.local.address, port)


def _identity(broker: RegisteredBroker, connection: Connection) -> dict[str, str]:
    settings = broker.settings()
    return {
        "brokerName": settings.name,
        "brokerAddr": str(_address(broker, connection, port=broker.port)),
        "clusterName": settings.cluster,
        "brokerId": str(settings.broker_id),
    }
