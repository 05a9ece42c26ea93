"""A cluster as operators reach it: its name servers, and through them its brokers."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self

from embermq.client.answers import check_answer
from embermq.client.client import make_credentials, make_tls_context
from embermq.client.connections import Connections, parse_addresses
from embermq.client.offsets import Offsets
from embermq.client.routes import Route, Routes
from embermq.errors import NoRoute, TopicNotFound
from embermq.format.cluster_body import decode_clusters
from embermq.format.command import Command
from embermq.model.codes import RequestCode


class BrokerAddress(NamedTuple):
    """A broker that takes changes."""

    cluster: str
    name: str
    address: str


class Cluster:
    """Requests to the name servers and brokers of one cluster, EmberMQ's or RocketMQ's."""

    def __init__(
        self,
        namesrv: str,
        *,
        access_key: str | None = None,
        secret_key: str | None = None,
        tls: bool | ssl.SSLContext = False,
        timeout: float = 5.0,
    ) -> None:
        self.name_servers = parse_addresses(namesrv)
        self.timeout_s = timeout
        credentials = make_credentials(access_key, secret_key)
        self.connections = Connections(credentials=credentials, tls=make_tls_context(tls))
        self.routes = Routes(self.connections, self.name_servers, timeout_s=timeout)
        self.offsets = Offsets(self.connections, timeout_s=timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.connections.close()

    async def ask_name_server(self, code: RequestCode, fields: Mapping[str, str] | None = None) -> Command:
        """The answer of any name server, whatever it says."""
        return await self.connections.call_any(self.name_servers, code, fields, timeout_s=self.timeout_s)

    async def tell_name_servers(self, code: RequestCode, fields: Mapping[str, str]) -> None:
        """Have every name server do something; each keeps its own state."""
        for address in list(self.name_servers):
            answer = await self.connections.call(address, code, fields, timeout_s=self.timeout_s)
            check_answer(answer, f"request {code.name} to name server {address}")

    async def ask(
        self, address: str, code: RequestCode, fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Command:
        """The answer of one broker, whatever it says."""
        return await self.connections.call(address, code, fields, body, timeout_s=self.timeout_s)

    async def brokers(self) -> list[BrokerAddress]:
        """Every broker that takes changes, by name. Raises NoRoute if there is none."""
        answer = await self.ask_name_server(RequestCode.GET_BROKER_CLUSTER_INFO)
        clusters = decode_clusters(check_answer(answer, "list of brokers").data)
        found = [
            BrokerAddress(broker.cluster, name, broker.master)
            for name, broker in sorted(clusters.brokers.items())
            if broker.master is not None
        ]
        if not found:
            raise NoRoute(f"no broker is registered at {';'.join(self.name_servers)}")
        return found

    async def masters_of(self, topic: str) -> dict[str, str]:
        """The addresses, by broker, that have a topic. Raises TopicNotFound or NoRoute."""
        route: Route = await self.routes.read(topic)
        if not route.masters:
            raise NoRoute(f"no broker of topic {topic!r} is there")
        return route.masters

    async def has_topic(self, topic: str) -> bool:
        try:
            await self.routes.read(topic)
        except TopicNotFound:
            return False
        return True
