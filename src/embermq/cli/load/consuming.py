"""Consumption as a load: pulls from every queue of a topic at once, or a member of a group that acks.

Times are those of the message itself, in ms: since it was stored, by the broker's clock, and since it was
born, by its producer's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final, Literal, NamedTuple

from embermq.admin.cluster import Cluster
from embermq.cli.load.course import Course
from embermq.cli.load.tally import Tally, show_seconds
from embermq.client.client import AsyncClient
from embermq.client.consumer import Consumer
from embermq.client.puller import WAIT_S
from embermq.client.pulling import make_subscribed, pull
from embermq.client.reader import READER_GROUP
from embermq.client.retry import Backoff, is_passing
from embermq.client.tasks import end_tasks
from embermq.errors import EmberError
from embermq.format.wire_json import BrokerQueue
from embermq.model.message import StoredMessage

SINCE_STORED: Final = "sinceStored"
SINCE_BORN: Final = "sinceBorn"


class Reading(NamedTuple):
    """What is read, and how."""

    topic: str
    start: Literal["earliest", "latest"]
    batch: int  # messages of one pull; of a group's member, messages that are acked together
    group: str | None = None


def make_tally() -> Tally:
    return Tally(SINCE_STORED, SINCE_BORN, unit_ms=1.0)


async def consume(cluster: Cluster, client: AsyncClient, reading: Reading, course: Course, tally: Tally) -> None:
    """Read until the course is over, with a line a second on a terminal. Raises TopicNotFound."""
    if reading.group is None:
        starts = await _find_starts(cluster, reading)
        await _measure(_pull_all(cluster, reading, starts, course, tally), course, tally)
        return
    # Joined before and left after the run: neither is part of what is measured, and what is acked is committed.
    async with client.consume(reading.topic, group=reading.group, start=reading.start) as consumer:
        await _measure(_take_all(consumer, reading.batch, course, tally), course, tally)


async def _measure(work: Coroutine[None, None, None], course: Course, tally: Tally) -> None:
    loop = asyncio.get_running_loop()
    showing, over = loop.create_task(show_seconds(tally)), loop.create_task(course.over.wait())
    reading = loop.create_task(work)
    waited_for: set[asyncio.Future[Any]] = {reading, over}
    tally.begin()
    course.begin()
    try:
        with course.interruptible():
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            reading.result()  # if something went wrong, it is raised here
    finally:
        tally.finish()
        course.end()
        await end_tasks([reading, showing, over])


async def _find_starts(cluster: Cluster, reading: Reading) -> dict[BrokerQueue, int]:
    """The offset that each queue is read from."""
    route = await cluster.routes.read(reading.topic)
    return {
        queue: await cluster.offsets.start(route.address_of(queue.broker, may_be_slave=True), queue, reading.start)
        for queue in route.read_queues
    }


async def _pull_all(
    cluster: Cluster, reading: Reading, starts: dict[BrokerQueue, int], course: Course, tally: Tally
) -> None:
    """Pull every queue without a group: no offset is kept, and a second run reads the same."""
    loop = asyncio.get_running_loop()
    pulls = [
        loop.create_task(_pull_queue(cluster, reading, queue, offset, course, tally))
        for queue, offset in starts.items()
    ]
    try:
        await asyncio.gather(*pulls)
    finally:
        await end_tasks(pulls)


async def _pull_queue(
    cluster: Cluster, reading: Reading, queue: BrokerQueue, offset: int, course: Course, tally: Tally
) -> None:
    wanted, backoff = make_subscribed(reading.topic, None), Backoff()
    while not course.over.is_set():
        try:
            route = await cluster.routes.read(reading.topic)
            pulled = await pull(
                cluster.connections,
                route.address_of(queue.broker, may_be_slave=True),
                queue,
                offset,
                group=READER_GROUP,
                wanted=wanted,
                is_inline=True,
                wait_s=WAIT_S,
                limit=reading.batch,
            )
        except EmberError as error:
            if not is_passing(error):
                raise
            tally.fail(type(error).__name__, str(error))
            await asyncio.sleep(backoff.next())
            continue
        backoff.reset()
        offset = max(pulled.next_offset, 0)
        _count(pulled.messages, course, tally)


async def _take_all(consumer: Consumer, batch: int, course: Course, tally: Tally) -> None:
    """Ack what comes."""
    while not course.over.is_set():
        taken = await consumer.take(batch, None)
        counted = _count([delivery.message for delivery in taken], course, tally)
        for delivery in taken[:counted]:
            delivery.ack()


def _count(messages: Sequence[StoredMessage], course: Course, tally: Tally) -> int:
    """Count what of `messages` belongs to the run; how many that are."""
    if not messages:
        return 0
    count = course.take(len(messages))
    now_ms = time.time_ns() // 1_000_000
    stored, born = tally.latencies[SINCE_STORED], tally.latencies[SINCE_BORN]
    size = 0
    for message in messages[:count]:
        size += len(message.body)
        stored.add(now_ms - message.store_time_ms)
        born.add(now_ms - message.born_time_ms)
    tally.count(count, size)
    return count
