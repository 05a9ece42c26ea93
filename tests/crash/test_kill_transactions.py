"""A broker is killed while transactions begin and end: what was committed is seen once, what was rolled back is never
seen, and what the broker had no answer for is asked about."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest

from embermq import AsyncClient
from embermq.errors import EmberError
from tests.crash.clients import TOPIC
from tests.crash.served import ServerProcess
from tests.free_ports import free_address

PRODUCERS = 4
CALL_S = 5.0
PATIENCE_S = 60.0
LOOK_S = 0.1
SETTINGS = """
[server]
http_port = -1
[broker]
register_interval_ms = 1000
transaction_timeout_ms = 1000
transaction_check_interval_ms = 500
[store]
log_file_size = 16777216
"""


class RolledBack(Exception):
    """The program has thought better of it."""


class Work:
    """Transactions of a few producers, and how each ended."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over = False
        self.committed: set[bytes] = set()  # the block ended well, whether the broker said so or not
        self.rolled_back: set[bytes] = set()
        self.unsent: set[bytes] = set()  # nobody knows whether the broker has it; it may not be seen
        self.under_way = 0
        self.interrupted = 0  # transactions that were under way when a broker was killed

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._produce(number)) for number in range(PRODUCERS)]

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _produce(self, number: int) -> None:
        chance, count = random.Random(number), 0
        while not self._is_over:
            await self._transact(b"%d of %d" % (count, number), commits=chance.random() < 0.7)
            count += 1

    async def _transact(self, body: bytes, *, commits: bool) -> None:
        is_sent = False
        self.under_way += 1
        try:
            async with self._client.transaction(TOPIC, timeout=CALL_S) as transaction:
                await transaction.send(body)
                is_sent = True
                if not commits:
                    raise RolledBack
        except (RolledBack, EmberError):  # where nobody answered, the end of the test tells what came of it
            pass
        finally:
            self.under_way -= 1
        if not is_sent:
            self.unsent.add(body)
        else:
            (self.committed if commits else self.rolled_back).add(body)


async def kill_while_they_end(server: ServerProcess, namesrv: str, *, kills: int) -> Work:
    chance = random.Random(kills)
    async with AsyncClient(namesrv, producer_group="accounts", timeout=30) as client:
        await client.send(TOPIC, b"first")
        work = Work(client)
        work.start()
        for _ in range(kills):
            begun = len(work.committed)
            while len(work.committed) < begun + 50:
                await asyncio.sleep(0.01)
            await asyncio.sleep(chance.uniform(0.0, 0.3))  # the moment of a kill is chance
            work.interrupted += work.under_way
            server.kill()
            await asyncio.to_thread(server.start)
        await work.stop()
        async with asyncio.timeout(PATIENCE_S):  # until the broker has asked about the rest
            while not work.committed <= (await seen(client)).keys():
                await asyncio.sleep(LOOK_S)
        await client.send(TOPIC, b"last")
        found = await seen(client)
    assert {body: count for body, count in found.items() if count > 1} == {}
    assert found.keys() == work.committed
    return work


async def seen(client: AsyncClient) -> Counter[bytes]:
    return Counter([each.body async for each in client.read(TOPIC) if each.body not in (b"first", b"last")])


@pytest.mark.parametrize(("durability", "kills"), [("sync", 2), pytest.param("async", 10, marks=pytest.mark.slow)])
def test_a_broker_killed_while_transactions_end(memory_path: Path, durability: str, kills: int) -> None:
    config, namesrv = memory_path / "ember.toml", free_address()
    config.write_text(SETTINGS)
    options = ("--listen", free_address(), "--namesrv-listen", namesrv, "--durability", durability)
    server = ServerProcess(memory_path, "serve", "-c", str(config), "--data", str(memory_path / "data"), *options)
    with server:
        work = asyncio.run(kill_while_they_end(server, namesrv, kills=kills))
        assert server.stop() == 0, server.words()
    assert work.rolled_back
    assert work.interrupted > 0  # it was killed at work
    assert "Traceback" not in server.log.read_text()
