"""Consuming as a group: the group's members share the queues, and a failed message comes again.

    async for message in mq.consume("orders", group="billing"):
        with message:                       # acked at a clean end, given back at an exception
            handle(message.body)

The consumer joins the group when the loop begins and leaves it when the loop ends. Messages that are
neither acked nor given back come again, to this or to another member; so every message is delivered at
least once, and after a crash or a change of members some come twice.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Final, Self

from embermq.client.broker_requests import BrokerRequests
from embermq.client.connections import Asked, Connections
from embermq.client.delivery import Delivery, DeliveryBatch, Verdict
from embermq.client.membership import Membership
from embermq.client.offsets import Start
from embermq.client.progress import QueueProgress
from embermq.client.returns import Returns
from embermq.client.routes import Routes
from embermq.client.tasks import end_tasks
from embermq.errors import EmberError
from embermq.format.command import Command
from embermq.model.group import check_group
from embermq.model.message import StoredMessage
from embermq.model.topic import check_topic
from embermq.net.connection import Connection

CHUNK: Final = 64  # messages that are taken out together
DIRECT_S: Final = 9.0  # an operator's message waits so long for its verdict; the broker waits 10
LAST_RETURNS_S: Final = 3.0

_numbers = itertools.count(1)

OpenConnections = Callable[[Asked], Connections]


class Consumer:
    """Messages of one topic for one group. Made by `consume` of a client."""

    def __init__(
        self,
        connect: OpenConnections,
        name_servers: list[str],
        *,
        topic: str,
        group: str,
        filter: str | None = None,
        start: Start = "earliest",
        timeout: float | None = None,
        max_retries: int | None = None,
        call_timeout_s: float = 3.0,
    ) -> None:
        check_topic(topic)
        check_group(group)
        self._topic = topic
        self._group = group
        self._filter = filter
        self._start = start
        self._timeout_s = timeout
        self._max_retries = max_retries
        self._call_timeout_s = call_timeout_s
        self._connect = connect
        self._name_servers = name_servers
        self._ready: deque[Delivery] = deque()
        self._changed = asyncio.Event()
        self._failure: EmberError | None = None
        self._returning: set[asyncio.Task[None]] = set()
        self._connections: Connections | None = None
        self._membership: Membership | None = None
        self._requests: BrokerRequests | None = None
        self._returns: Returns | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # What users do.

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self._iterate()

    async def batches(self, max_items: int = 1000, max_wait: float = 1.0) -> AsyncGenerator[DeliveryBatch, None]:
        """Messages in batches: as many as came within `max_wait` seconds of the first, `max_items` at most."""
        try:
            while batch := await self.take_batch(max_items, max_wait):
                yield batch
        finally:
            await self.close()

    async def take(self, limit: int, wait_s: float | None) -> list[Delivery]:
        """Up to `limit` messages as soon as there are some; none when `wait_s` seconds were not enough."""
        await self.open()
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while True:
            taken: list[Delivery] = []
            while self._ready and len(taken) < limit:
                delivery = self._ready.popleft()
                if delivery.is_ours:
                    taken.append(delivery)
            if taken:
                return taken
            if self._failure is not None:
                raise self._failure
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return []
            self._changed.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
            except TimeoutError:
                continue  # one more look, then the time is over

    async def commit(self) -> None:
        """Have the brokers know what is acked; happens by itself every 5 seconds and at the end."""
        if self._membership is not None:
            await self._membership.commit()

    async def close(self) -> None:
        """Leave the group. What is acked is committed, what is given back is handed over first."""
        connections, self._connections = self._connections, None
        if connections is None:
            return
        membership, self._membership = self._membership, None
        if self._returning:
            await asyncio.wait(set(self._returning), timeout=LAST_RETURNS_S)
        await end_tasks(self._returning)
        if membership is not None:
            await membership.stop()
        await connections.close()
        self._ready.clear()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # How it works.

    async def _iterate(self) -> AsyncGenerator[Delivery, None]:
        try:
            while chunk := await self.take(CHUNK, self._timeout_s):
                for delivery in chunk:
                    if delivery.is_ours:  # it may have been taken away while the others were handled
                        yield delivery
        finally:
            await self.close()

    async def take_batch(self, max_items: int, max_wait: float) -> DeliveryBatch | None:
        found = await self.take(max_items, self._timeout_s)
        deadline = time.monotonic() + max_wait
        while found and len(found) < max_items and (left_s := deadline - time.monotonic()) > 0:
            found += await self.take(max_items - len(found), left_s)
        found = [delivery for delivery in found if delivery.is_ours]
        return DeliveryBatch(found, self.commit) if found else None

    async def open(self) -> None:
        """Join the group now rather than with the first message."""
        if self._connections is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._failure = None
        connections = self._connections = self._connect(self._asked)
        routes = Routes(connections, self._name_servers, timeout_s=self._call_timeout_s)
        try:
            await routes.read(self._topic)  # the first connection tells our address
            self._membership = Membership(
                connections,
                routes,
                client_id=make_client_id(connections.local_address),
                group=self._group,
                topic=self._topic,
                expression=self._filter,
                start=self._start,
                timeout_s=self._call_timeout_s,
                deliver=self._deliver,
                fail=self._fail,
            )
            self._requests = BrokerRequests(self._membership, take_now=self._take_now)
            self._returns = Returns(
                connections,
                routes,
                group=self._group,
                most_retries=self._max_retries,
                timeout_s=self._call_timeout_s,
            )
            await self._membership.start()
        except BaseException:
            self._connections = self._membership = None
            await connections.close()
            raise

    def _asked(self, connection: Connection, request: Command) -> None:
        if self._requests is not None:
            self._requests.receive(connection, request)

    def _fail(self, error: EmberError) -> None:
        self._failure = error
        self._changed.set()

    def _deliver(self, progress: QueueProgress, messages: Sequence[StoredMessage]) -> None:
        broker = progress.queue.broker
        self._ready.extend(Delivery(message, self._settle, broker=broker, progress=progress) for message in messages)
        self._changed.set()

    def _settle(self, delivery: Delivery) -> None:
        """A verdict was given, by whatever thread."""
        if delivery.verdict is Verdict.DONE:
            delivery.finish()
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._give_back, delivery)

    def _give_back(self, delivery: Delivery) -> None:
        if self._returns is None or self._connections is None:
            return  # too late; it comes again by itself
        task = asyncio.get_running_loop().create_task(self._return(self._returns, delivery))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _return(self, returns: Returns, delivery: Delivery) -> None:
        await returns.give_back(delivery)
        delivery.finish()  # only now: until the broker has its copy, this one must not be skipped

    async def _take_now(self, message: StoredMessage, broker: str) -> Verdict | None:
        """Hand out a message out of turn; None if nobody gave a verdict in time."""
        loop = asyncio.get_running_loop()
        given: asyncio.Future[Verdict] = loop.create_future()

        def tell(delivery: Delivery) -> None:
            if delivery.verdict is not None and not given.done():
                given.set_result(delivery.verdict)

        def settle(delivery: Delivery) -> None:
            loop.call_soon_threadsafe(tell, delivery)

        self._ready.appendleft(Delivery(message, settle, broker=broker))
        self._changed.set()
        try:
            async with asyncio.timeout(DIRECT_S):
                return await given
        except TimeoutError:
            return None


def make_client_id(address: str) -> str:
    """A name for one client that no other has, in the form of RocketMQ's."""
    return f"{address}@{os.getpid()}#{time.time_ns()}{next(_numbers)}"
