"""The other brokers of the cluster, for what a broker has to ask them: parts of static topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from embermq.client.connections import Connections, Credentials
from embermq.client.routes import Routes
from embermq.errors import ConnectionLost, NoRoute
from embermq.format.command import Command
from embermq.model.access import User

CALL_S: Final = 3.0
_OF_CLIENTS: Final = ("AccessKey", "Signature", "SecurityToken")  # who asked us; we ask in our own name


class OtherBrokers:
    """Finds brokers by name servers, and asks them. Nothing is connected before the first question."""

    def __init__(self, name_servers: Sequence[str], own: User | None) -> None:
        credentials = None if own is None else Credentials(own.name, own.secret)
        self._connections = Connections(credentials=credentials)
        self._routes = Routes(self._connections, list(name_servers), timeout_s=CALL_S)

    async def ask(self, topic: str, broker: str, request: Command) -> Command:
        """What `broker`, which has queues of `topic`, answers. Raises a TransportError or TopicNotFound."""
        try:
            return await self._ask(topic, broker, request)
        except (ConnectionLost, NoRoute):  # it may be somewhere else now
            await self._routes.find(topic, refresh=True)
            return await self._ask(topic, broker, request)

    async def close(self) -> None:
        await self._connections.close()

    async def _ask(self, topic: str, broker: str, request: Command) -> Command:
        address = (await self._routes.read(topic)).address_of(broker)
        fields = {name: value for name, value in request.fields.items() if name not in _OF_CLIENTS}
        return await self._connections.call(
            address, request.code, {**fields, "bname": broker}, request.data, timeout_s=CALL_S
        )
