"""A name server to ask, and who asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from embermq.format.command import Command, make_request
from embermq.format.registration_body import Registration, body_checksum, encode_registration
from embermq.format.route_body import decode_route
from embermq.format.tables import TopicTable
from embermq.model.codes import RequestCode
from embermq.model.message import Host
from embermq.model.route import TopicRoute
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion
from embermq.nameserver.nameserver import NameServer
from tests.builders import ManualClock

ADDRESS = "192.0.2.1:10911"


class SteppedClock(ManualClock):
    """A clock whose waits are moved by the test, too."""

    def monotonic(self) -> float:
        return self.time_ms / 1000


class Caller:
    """The other end of a connection: keeps what it is sent."""

    def __init__(self, address: str = "192.0.2.7", *, reached: str = "198.51.100.1") -> None:
        self.peer = Host(address, 40_000)
        self.local = Host(reached, 9876)
        self.is_closed = False
        self.sent: list[Command] = []

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def write(self, *parts: bytes | memoryview) -> None:
        raise AssertionError("a name server writes commands")

    async def call(self, request: Command, *, timeout_s: float) -> Command:
        raise AssertionError("a name server asks nobody")

    def owe(self, count: int) -> None: ...

    def settle(self, count: int) -> None: ...

    def close(self) -> None:
        self.is_closed = True


def ask_all(name_server: NameServer, caller: Caller, *requests: Command) -> list[Command]:
    """The answers to requests that came with one read."""

    async def receive() -> None:
        name_server.router.receive(caller, requests)

    begin = len(caller.sent)
    asyncio.run(receive())
    return caller.sent[begin:]


def ask(
    name_server: NameServer,
    code: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    caller: Caller | None = None,
    version: int | None = None,
) -> Command:
    request = make_request(code, fields, body)
    if version is not None:
        request.version = version
    (answer,) = ask_all(name_server, caller or Caller(), request)
    return answer


def topics(*configs: TopicConfig, version: int = 1, term: int = 0) -> Registration:
    """What a broker with these topics tells; TBW102 is always there, as a first registration has two at least."""
    every = {config.name: config for config in (TopicConfig("TBW102", permission=7), *configs)}
    return Registration(TopicTable(DataVersion(term, version, 1_700_000_000_000), every))


def register(
    name_server: NameServer,
    registration: Registration,
    *,
    caller: Caller | None = None,
    body: bytes | None = None,
    **fields: str,
) -> Command:
    """Register as RocketMQ's brokers do."""
    body = encode_registration(registration) if body is None else body
    defaults = {
        "brokerName": "broker-a",
        "brokerAddr": ADDRESS,
        "clusterName": "DefaultCluster",
        "haServerAddr": "192.0.2.1:10912",
        "brokerId": "0",
        "enableActingMaster": "false",
        "compressed": "false",
        "bodyCrc32": str(body_checksum(body)),
    }
    return ask(name_server, RequestCode.REGISTER_BROKER, {**defaults, **fields}, body, caller=caller)


def route_of(name_server: NameServer, topic: str, **fields: str) -> TopicRoute:
    answer = ask(name_server, RequestCode.GET_ROUTE_BY_TOPIC, {"topic": topic, **fields})
    assert answer.code == 0, answer
    return decode_route(answer.data)


def has_route(name_server: NameServer, topic: str) -> bool:
    code = ask(name_server, RequestCode.GET_ROUTE_BY_TOPIC, {"topic": topic}).code
    assert code in (0, 17)
    return code == 0
