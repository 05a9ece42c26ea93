"""Sends as a load: connections, each with so many messages on their way at once.

Each worker sends, waits for the receipt and sends again, so that the load is as high as the slower of
client and server allows; with a rate, workers wait for their turn first.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from embermq.cli.load.course import Course, Pace
from embermq.cli.load.tally import Tally, show_seconds
from embermq.client.client import AsyncClient
from embermq.client.producer import SendReceipt, SendStatus
from embermq.client.routes import Route
from embermq.client.tasks import end_tasks
from embermq.errors import EmberError
from embermq.model.message import Message

LATENCY: Final = "latency"
WARM_UP_S: Final = 0.5
LAST_ANSWERS_S: Final = 1.0  # what is on its way at an interrupt is waited for so long
_NS_IN_MS: Final = 1e-6


class Load(NamedTuple):
    """What is sent, and how."""

    topic: str
    size: int
    in_flight: int  # sends of one connection
    batch: int
    tags: str | None = None
    rate: float | None = None  # messages a second, of all connections


def make_tally() -> Tally:
    return Tally(LATENCY, unit_ms=_NS_IN_MS)


class Sender:
    """Sends for one load over some connections."""

    def __init__(self, clients: Sequence[AsyncClient], load: Load, route: Route) -> None:
        self._clients = clients
        self._load = load
        # What nobody can compress, so that as much travels and is stored as the figures say.
        self._body = os.urandom(load.size)
        # The messages of a batch go to one queue, for they travel in one request then.
        queues = sorted({queue.queue for queue in route.write_queues})
        self._messages = itertools.cycle([Message(load.topic, self._body, load.tags, queue=queue) for queue in queues])

    async def warm_up(self, tally: Tally, *, messages: int | None) -> int:
        """Connect, have the topic made if it is not there, and send for a moment; how many messages that took.

        Raises what the first send of a connection meets; later errors are counted in `tally`.
        """
        for client in self._clients:
            await client.send(self._load.topic, self._body, tags=self._load.tags)
        burst = make_tally()
        if messages is None or messages > 0:
            await self.run(Course(messages=messages, seconds=WARM_UP_S), burst)
        for kind, count in burst.errors.items():
            tally.fail(kind, burst.first_errors[kind], count)
        return len(self._clients) + burst.messages

    async def measure(self, course: Course, tally: Tally) -> None:
        """Send until the course is over, with a line a second on a terminal."""
        showing = asyncio.get_running_loop().create_task(show_seconds(tally))
        tally.begin()
        try:
            with course.interruptible():
                await self.run(course, tally)
        finally:
            tally.finish()
            await end_tasks([showing])

    async def run(self, course: Course, tally: Tally) -> None:
        """Send until the course is over and what was sent is answered."""
        loop = asyncio.get_running_loop()
        pace = Pace(self._load.rate) if self._load.rate else None
        workers = [
            loop.create_task(self._work(client, course, tally, pace))
            for client in self._clients
            for _ in range(self._load.in_flight)
        ]
        everything = asyncio.gather(*workers)
        interrupted = loop.create_task(course.interrupted.wait())
        waited_for: set[asyncio.Future[Any]] = {everything, interrupted}
        course.begin()
        try:
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            if not everything.done():
                await asyncio.wait([everything], timeout=LAST_ANSWERS_S)
            if everything.done():
                everything.result()  # sends that fail are counted; whatever else went wrong is raised here
        finally:
            course.end()
            await end_tasks([*workers, interrupted])
            await asyncio.gather(everything, return_exceptions=True)

    async def _work(self, client: AsyncClient, course: Course, tally: Tally, pace: Pace | None) -> None:
        batch = self._load.batch
        while True:
            if pace is not None:
                await pace.wait(batch, course.over)
            count = course.take(batch)
            if not count:
                return
            began = time.perf_counter_ns()
            outcomes = await self._send(client, count)
            took = time.perf_counter_ns() - began
            self._count(outcomes, took, tally)

    async def _send(self, client: AsyncClient, count: int) -> Sequence[SendReceipt | EmberError]:
        if self._load.batch > 1:
            return await client.send_many([next(self._messages)] * count)
        try:
            return (await client.send(self._load.topic, self._body, tags=self._load.tags),)
        except EmberError as error:
            return (error,)

    def _count(self, outcomes: Sequence[SendReceipt | EmberError], took: int, tally: Tally) -> None:
        stored = 0
        for outcome in outcomes:
            if isinstance(outcome, EmberError):
                tally.fail(type(outcome).__name__, str(outcome))
                continue
            stored += 1
            if outcome.status is not SendStatus.STORED:  # it is there, but less safe than was asked for
                tally.fail(outcome.status.name, f"{outcome.topic}/{outcome.broker}/{outcome.queue}/{outcome.offset}")
        if stored:
            tally.count(stored, stored * self._load.size)
            tally.latencies[LATENCY].add(took, stored)
