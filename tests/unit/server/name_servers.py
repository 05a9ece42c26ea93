"""Name servers and brokers' registrations over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from embermq.broker.settings import BrokerSettings
from embermq.format.command import VERSION, Command, make_request
from embermq.format.route_body import decode_route
from embermq.format.tables import TopicTable
from embermq.model.codes import RequestCode
from embermq.model.message import Host
from embermq.model.route import TopicRoute
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion
from embermq.nameserver.nameserver import NameServer
from embermq.net.dialer import dial
from embermq.net.server import bind, host_of
from embermq.server.name_server_link import RegisteredBroker
from embermq.server.namesrv import run_name_server


class Table:
    """The topics and settings of a broker, as the test wants them."""

    def __init__(self, *names: str) -> None:
        self.settings = BrokerSettings()
        self.ordered: set[str] = set()
        self._table = TopicTable(DataVersion(), {})
        self.save(*(TopicConfig(name) for name in ("TBW102", *names)))

    def save(self, *configs: TopicConfig) -> None:
        topics = {**self._table.topics, **{config.name: config for config in configs}}
        self._table = TopicTable(self._table.version.next(1_700_000_000_000), topics)

    def delete(self, name: str) -> None:
        topics = {topic: config for topic, config in self._table.topics.items() if topic != name}
        self._table = TopicTable(self._table.version.next(1_700_000_000_000), topics)

    def broker(self, *, address: str | None = "192.0.2.1") -> RegisteredBroker:
        return RegisteredBroker(
            settings=lambda: self.settings,
            topics=lambda: self._table,
            port=10911,
            address=address,
            on_order_topics=self.ordered.update,
        )


@asynccontextmanager
async def serving(name_server: NameServer, *, port: int = 0) -> AsyncIterator[Host]:
    """The address at which it answers."""
    listener = bind(Host("127.0.0.1", port))
    host = host_of(listener)
    stop = asyncio.Event()
    task = asyncio.create_task(run_name_server(name_server, [listener], stop=stop))
    try:
        yield host
    finally:
        stop.set()
        await task


async def ask(host: Host, code: int, fields: dict[str, str] | None = None, *, version: int = VERSION) -> Command:
    connection = await dial(host)
    request = make_request(code, fields)
    request.version = version
    try:
        return await connection.call(request, timeout_s=5)
    finally:
        connection.close()
        await connection.wait_closed()


async def find_route(host: Host, topic: str) -> TopicRoute | None:
    answer = await ask(host, RequestCode.GET_ROUTE_BY_TOPIC, {"topic": topic})
    assert answer.code in (0, 17), answer
    return decode_route(answer.data) if answer.code == 0 else None


async def wait_for(condition: Callable[[], Awaitable[object]], *, seconds: float = 10.0) -> None:
    """Return as soon as `condition` holds; fail when it does not in time."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not await condition():
        assert asyncio.get_running_loop().time() < deadline, f"not so after {seconds} s"
        await asyncio.sleep(0.01)
