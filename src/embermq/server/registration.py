"""How a broker tells name servers of itself and its topics.

    LocalRegistration    a name server of this process: told by a call, at once, and it never forgets us
    RemoteRegistration   others: one connection each, made again when it is lost

Both are told of topics that were made, changed or deleted, tell everything again from time to time, and say
goodbye when the broker stops.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from typing import Final, Protocol

from embermq.errors import EmberError
from embermq.model.message import Host
from embermq.model.topic import TopicConfig
from embermq.nameserver.key_values import ORDER_TOPICS
from embermq.nameserver.nameserver import NameServer
from embermq.nameserver.routes import Registrant
from embermq.server.name_server_link import NameServerLink, RegisteredBroker, Sign

log = logging.getLogger(__name__)

WILDCARDS: Final = ("", "0.0.0.0", "::")  # what a socket that listens everywhere is bound to


class BrokerRegistration(Protocol):
    """What tells name servers of a broker."""

    async def start(self) -> None:
        """Register; returns when every name server was tried once."""
        ...

    def topics_changed(self, topics: Sequence[TopicConfig]) -> None:
        """Tell of topics that were made or changed."""
        ...

    def topic_deleted(self, topic: str) -> None: ...

    def settings_changed(self) -> None:
        """Tell everything again, because the broker's own permission may be another."""
        ...

    async def stop(self) -> None:
        """Say goodbye."""
        ...


def advertised_address(listen: str, advertise: str | None) -> str | None:
    """The address that clients are told: None where a broker listens everywhere and nothing was set."""
    return advertise or (None if listen in WILDCARDS else listen)


class LocalRegistration:
    """Registers with the name server of this process."""

    def __init__(self, name_server: NameServer, broker: RegisteredBroker) -> None:
        self._name_server = name_server
        self._broker = broker
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._register()
        self._task = asyncio.get_running_loop().create_task(self._repeat())

    def topics_changed(self, topics: Sequence[TopicConfig]) -> None:
        changed = self._broker.registration({topic.name: topic for topic in topics})
        self._name_server.routes.register(self._who(), changed)

    def topic_deleted(self, topic: str) -> None:
        self._name_server.routes.delete_topics_of(self._broker.settings().name, [topic])

    def settings_changed(self) -> None:
        self._register()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        who = self._who()
        self._name_server.routes.unregister(who.name, who.address)

    async def _repeat(self) -> None:
        # What an administrator deleted in the name server alone comes back, as from a broker elsewhere.
        while True:
            await asyncio.sleep(self._broker.settings().register_interval_ms / 1000)
            try:
                self._register()
            except EmberError as error:
                log.warning("not registered name_server=%s reason=%s", "local", error)

    def _register(self) -> None:
        self._name_server.routes.register(self._who(), self._broker.registration(), is_whole=True)
        ordered = self._name_server.key_values.find_all(ORDER_TOPICS)
        if ordered:
            self._broker.on_order_topics(ordered)

    def _who(self) -> Registrant:
        settings = self._broker.settings()
        address, port = self._broker.address, self._broker.port
        return Registrant(
            settings.cluster,
            settings.name,
            settings.broker_id,
            f":{port}" if address is None else str(Host(address, port)),
            ha_address=f":{port + 1}" if address is None else str(Host(address, port + 1)),
        )


class RemoteRegistration:
    """Registers with name servers elsewhere, EmberMQ's or RocketMQ's."""

    def __init__(
        self,
        name_servers: Sequence[Host],
        broker: RegisteredBroker,
        *,
        tls: ssl.SSLContext | None = None,
        sign: Sign = lambda request: request,
    ) -> None:
        self.links = [NameServerLink(host, broker, tls=tls, sign=sign) for host in name_servers]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        self._tasks = [asyncio.get_running_loop().create_task(link.keep()) for link in self.links]
        await asyncio.gather(*(link.tried.wait() for link in self.links))

    def topics_changed(self, topics: Sequence[TopicConfig]) -> None:
        for link in self.links:
            link.change({topic.name: topic for topic in topics})

    def topic_deleted(self, topic: str) -> None:
        # Name servers know no such request of a single broker: whoever deletes a topic tells them.
        for link in self.links:
            link.forget(topic)

    def settings_changed(self) -> None:
        for link in self.links:
            link.change_all()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(link.say_goodbye() for link in self.links))
