"""Reading without a group: every message from a time on, in the order of their times; nobody's offset moves.

First come the messages that are there when reading begins. With `follow`, those that arrive later come
as they arrive.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Final

from embermq.client.assignment import name_of
from embermq.client.connections import Connections
from embermq.client.offsets import Offsets, Start
from embermq.client.puller import WAIT_S
from embermq.client.pulling import PullStatus, make_subscribed, pull
from embermq.client.retry import Backoff, Deadline, is_passing
from embermq.client.routes import Routes
from embermq.client.tasks import end_tasks
from embermq.errors import EmberError, IllegalMessage, TransportError
from embermq.format.wire_json import BrokerQueue
from embermq.model.message import StoredMessage
from embermq.model.subscription import Subscribed

log = logging.getLogger(__name__)

READER_GROUP: Final = "TOOLS_CONSUMER"  # every broker knows it, and nobody commits for it
MOST_WAITING: Final = 2000  # messages that arrived and were not taken yet
DISPATCH_S: Final = 1.0  # how long a message may be stored and not readable yet
PATIENCE_S: Final = 15.0  # how long a broker may be away


class _QueueReader:
    """Reads one queue, from an offset on."""

    def __init__(
        self, connections: Connections, routes: Routes, queue: BrokerQueue, offset: int, *, end: int, wanted: Subscribed
    ) -> None:
        self.queue = queue
        self.offset = offset
        self.end = end
        self.buffer: deque[StoredMessage] = deque()
        self._connections = connections
        self._routes = routes
        self._wanted = wanted

    def head(self, number: int) -> tuple[int, int, int]:
        """Where the next message stands in the order of all: by its time, and at one broker by its position."""
        message = self.buffer[0]
        return message.store_time_ms, message.position, number

    async def fill(self) -> None:
        """Pull until there is a message, or the end is reached."""
        while not self.buffer and self.offset < self.end:
            before = self.offset
            messages = await self.pull(0.0)
            if self.offset == before:
                messages = await self.pull(DISPATCH_S)
            self.buffer.extend(message for message in messages if message.offset < self.end)
            if self.offset == before:
                self._give_up()

    async def pull(self, wait_s: float) -> list[StoredMessage]:
        """What the next pull finds; tried again while the broker is away."""
        backoff, deadline = Backoff(), Deadline(PATIENCE_S)
        while True:
            try:
                return await self._pull_once(wait_s)
            except TransportError as error:
                left_s = deadline.left_s
                if not is_passing(error) or not left_s:
                    raise
                await asyncio.sleep(min(backoff.next(), left_s))
                await self._routes.find(self.queue.topic, refresh=True)

    async def _pull_once(self, wait_s: float) -> list[StoredMessage]:
        route = await self._routes.read(self.queue.topic)
        pulled = await pull(
            self._connections,
            route.address_of(self.queue.broker, may_be_slave=True),
            self.queue,
            self.offset,
            group=READER_GROUP,
            wanted=self._wanted,
            is_inline=True,
            wait_s=wait_s,
        )
        if pulled.status is PullStatus.MOVED and pulled.next_offset < self.offset:
            self.end = min(self.end, pulled.max_offset)  # the topic was made anew, or its log was cut
        self.offset = max(pulled.next_offset, 0)
        return pulled.messages

    def _give_up(self) -> None:
        """There are fewer messages than there were; the rest is gone."""
        log.warning(
            "queue is shorter than it was queue=%s offset=%d end=%d", name_of(self.queue), self.offset, self.end
        )
        self.end = self.offset


class Reader:
    """Reads topics for one client."""

    def __init__(self, connections: Connections, routes: Routes, offsets: Offsets) -> None:
        self._connections = connections
        self._routes = routes
        self._offsets = offsets

    async def read(
        self,
        topic: str,
        *,
        start: Start,
        filter: str | None = None,
        queues: Collection[int] | None = None,
        last: int | None = None,
        follow: bool = False,
    ) -> AsyncGenerator[StoredMessage, None]:
        """The messages of `topic`, or the `last` so many of them; with `follow`, without an end.

        Raises TopicNotFound.
        """
        readers = await self._readers(topic, start=start, filter=filter, queues=queues)
        if last is None:
            async for message in _in_order(readers):
                yield message
        else:
            for message in await _last_of(readers, last, is_filtered=filter is not None):
                yield message
        if follow:
            async for message in _as_they_come(readers):
                yield message

    async def _readers(
        self, topic: str, *, start: Start, filter: str | None, queues: Collection[int] | None
    ) -> list[_QueueReader]:
        route = await self._routes.read(topic)
        wanted = make_subscribed(topic, filter)
        chosen = [queue for queue in route.read_queues if queues is None or queue.queue in queues]
        if queues is not None and len({queue.queue for queue in chosen}) < len(set(queues)):
            there = sorted({queue.queue for queue in route.read_queues})
            raise IllegalMessage(f"topic {topic!r} has the queues {there}; {sorted(set(queues))} are asked for")
        return list(await asyncio.gather(*(self._reader(queue, start, wanted) for queue in chosen)))

    async def _reader(self, queue: BrokerQueue, start: Start, wanted: Subscribed) -> _QueueReader:
        route = await self._routes.read(queue.topic)
        address = route.address_of(queue.broker, may_be_slave=True)
        begin, end = await asyncio.gather(self._offsets.start(address, queue, start), self._offsets.max(address, queue))
        return _QueueReader(self._connections, self._routes, queue, begin, end=end, wanted=wanted)


async def _in_order(readers: Iterable[_QueueReader]) -> AsyncGenerator[StoredMessage, None]:
    """The messages of several queues, merged by their times, up to where the queues ended."""
    every = list(readers)
    await asyncio.gather(*(reader.fill() for reader in every))
    heads = [reader.head(number) for number, reader in enumerate(every) if reader.buffer]
    heapq.heapify(heads)
    while heads:
        number = heads[0][-1]
        reader = every[number]
        yield reader.buffer.popleft()
        if not reader.buffer:
            await reader.fill()
        if reader.buffer:
            heapq.heapreplace(heads, reader.head(number))
        else:
            heapq.heappop(heads)


async def _last_of(readers: Iterable[_QueueReader], count: int, *, is_filtered: bool) -> deque[StoredMessage]:
    """The newest `count` messages, oldest first."""
    every = list(readers)
    if not is_filtered:  # else nobody knows how far back they go
        for reader in every:
            reader.offset = max(reader.offset, reader.end - count)
    newest: deque[StoredMessage] = deque(maxlen=count)
    async for message in _in_order(every):
        newest.append(message)
    return newest


async def _as_they_come(readers: Iterable[_QueueReader]) -> AsyncGenerator[StoredMessage, None]:
    arrived: asyncio.Queue[StoredMessage | EmberError] = asyncio.Queue(MOST_WAITING)

    async def follow(reader: _QueueReader) -> None:
        try:
            while True:
                for message in await reader.pull(WAIT_S):
                    await arrived.put(message)
        except EmberError as error:
            await arrived.put(error)

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(follow(reader), name=name_of(reader.queue)) for reader in readers]
    try:
        while True:
            message = await arrived.get()
            if isinstance(message, EmberError):
                raise message
            yield message
    finally:
        await end_tasks(tasks)
