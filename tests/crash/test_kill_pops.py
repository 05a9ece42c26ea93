"""A broker is killed while consumers pop and acknowledge: what was acknowledged in time never comes again, nobody gets
what another has, and nothing is lost."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest

from embermq.errors import CallTimeout, ConnectionLost
from embermq.format.command import make_request
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import Host
from embermq.net.connection import Connection
from embermq.net.dialer import dial
from tests.crash.clients import GROUP, TOPIC, make_group, make_topic
from tests.crash.served import ServerProcess
from tests.crash.test_broker_kill import a_server
from tests.unit.broker.brokers import send_fields
from tests.unit.broker.popping import Popped, ack_fields, pop_fields, popped_of

QUEUES = 4
CONSUMERS = 4
CALL_S = 15.0
RETRY_S = 0.02
INVISIBLE_MS = 1_500
PATIENCE_S = 90.0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Consumers:
    """A group of consumers, and what each message went through."""

    def __init__(self, port: int) -> None:
        self._host = Host("127.0.0.1", port)
        self.held_until: dict[bytes, int] = {}  # by body: when whoever had it last had it no more
        self.done: set[bytes] = set()  # acknowledged in time, and the broker has said so
        self.unsure: set[bytes] = set()  # acknowledged late, or without an answer: they may come again, or not
        self.lost_calls = 0

    async def consume(self, count: int) -> None:
        """Pop and acknowledge until all of `count` messages are acknowledged."""
        while not self.has(count):
            try:
                connection = await dial(self._host)
                try:
                    while not self.has(count):
                        await self._turn(connection)
                finally:
                    connection.close()
                    await connection.wait_closed()
            except (ConnectionLost, CallTimeout):
                self.lost_calls += 1
                await asyncio.sleep(RETRY_S)

    def has(self, count: int) -> bool:
        return len(self.done | self.unsure) >= count

    async def _turn(self, connection: Connection) -> None:
        fields = pop_fields(TOPIC, GROUP, maxMsgNums=8, invisibleTime=INVISIBLE_MS, pollTime=200, bornTime=now_ms())
        answer = await connection.call(make_request(RequestCode.POP_MESSAGE, fields), timeout_s=CALL_S)
        assert answer.code in (ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT), answer
        messages = popped_of(answer, TOPIC, GROUP)
        popped = int(answer.fields.get("popTime", 0))
        for message in messages:
            assert message.body not in self.done, f"{message.body!r} was acknowledged and came again"
            assert self.held_until.get(message.body, 0) <= popped, f"{message.body!r} is with another"
            self.held_until[message.body] = popped + INVISIBLE_MS
        await asyncio.gather(*(self._ack(connection, message) for message in messages))

    async def _ack(self, connection: Connection, message: Popped) -> None:
        request = make_request(RequestCode.ACK_MESSAGE, ack_fields(message, GROUP))
        self.unsure.add(message.body)
        answer = await connection.call(request, timeout_s=CALL_S)
        assert answer.code == ResponseCode.SUCCESS, answer
        if now_ms() < self.held_until[message.body]:
            self.done.add(message.body)


async def send(port: int, count: int) -> set[bytes]:
    connection = await dial(Host("127.0.0.1", port))
    bodies = [b"message %d" % number for number in range(count)]
    for number, body in enumerate(bodies):
        request = make_request(RequestCode.SEND_MESSAGE_V2, send_fields(TOPIC, queue=number % QUEUES), body)
        assert (await connection.call(request, timeout_s=CALL_S)).code == ResponseCode.SUCCESS
    connection.close()
    await connection.wait_closed()
    return set(bodies)


async def kill_while_popping(server: ServerProcess, port: int, *, messages: int, kills: int) -> Consumers:
    chance = random.Random(kills)
    await make_topic(port, TOPIC)
    await make_group(port)
    sent = await send(port, messages)
    consumers = Consumers(port)
    work = [asyncio.create_task(consumers.consume(messages)) for _ in range(CONSUMERS)]
    for kill in range(1, kills + 1):
        while not consumers.has(messages * kill // (kills + 1)) and not any(task.done() for task in work):
            await asyncio.sleep(RETRY_S / 10)
        await asyncio.sleep(chance.uniform(0.0, 0.02))  # the moment of a kill is chance
        server.kill()
        await asyncio.to_thread(server.start)
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*work)
    assert consumers.done | consumers.unsure == sent
    return consumers


@pytest.mark.parametrize(("messages", "kills"), [(400, 1), pytest.param(6_000, 6, marks=pytest.mark.slow)])
def test_a_broker_killed_while_consumers_pop(memory_path: Path, messages: int, kills: int) -> None:
    server, port = a_server(memory_path, durability="sync")
    with server:
        consumers = asyncio.run(kill_while_popping(server, port, messages=messages, kills=kills))
        assert server.stop() == 0, server.words()
    assert consumers.lost_calls > 0  # it was killed at work
    assert "Traceback" not in server.log.read_text()
