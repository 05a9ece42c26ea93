"""Pulls one queue for a group, as long as the group's member owns it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from embermq.client.assignment import name_of
from embermq.client.connections import Connections
from embermq.client.progress import QueueProgress
from embermq.client.pulling import Pulled, PullStatus, pull
from embermq.client.retry import Backoff
from embermq.client.routes import Routes
from embermq.errors import (
    CorruptRecord,
    EmberError,
    GroupNotFound,
    IllegalFilter,
    NoRoute,
    NotSubscribed,
    NotSupported,
    Refused,
    TransportError,
)
from embermq.model.codes import ResponseCode
from embermq.model.message import StoredMessage
from embermq.model.subscription import Subscribed

log = logging.getLogger(__name__)

WAIT_S: Final = 15.0  # how long a broker may keep a pull that finds nothing

# Trying again changes nothing about these; whoever consumes must know.
_FATAL: Final = (CorruptRecord, NotSupported, IllegalFilter, GroupNotFound)


class Puller:
    """Fills the hands of a consumer from one queue, from now on until it is ended."""

    def __init__(
        self,
        connections: Connections,
        routes: Routes,
        progress: QueueProgress,
        *,
        group: str,
        wanted: Subscribed,
        deliver: Callable[[QueueProgress, Sequence[StoredMessage]], None],
        subscribe_again: Callable[[], Awaitable[None]],
        fail: Callable[[EmberError], None],
    ) -> None:
        self._connections = connections
        self._routes = routes
        self._progress = progress
        self._group = group
        self._wanted = wanted
        self._deliver = deliver
        self._subscribe_again = subscribe_again
        self._fail = fail
        self._is_ended = False
        self.task = asyncio.get_running_loop().create_task(self._run())

    def end(self) -> None:
        """Pull no more; what a pull that is under way brings does not count."""
        self._is_ended = True
        self.task.cancel()

    async def _run(self) -> None:
        """Pull until it is ended, or something is wrong that will not mend."""
        backoff = Backoff()
        while not self._is_ended:
            await self._progress.wait_room()
            generation = self._progress.generation
            try:
                self._take(generation, await self._pull())
                backoff.reset()
            except _FATAL as error:
                self._fail(error)
                return
            except EmberError as error:
                wait_s = backoff.next()
                log.warning(
                    "pull failed queue=%s group=%s retry_s=%.2f cause=%s",
                    name_of(self._progress.queue), self._group, wait_s, error,
                )  # fmt: skip
                await asyncio.sleep(wait_s)
                await self._mend(error)

    async def _pull(self) -> Pulled:
        queue = self._progress.queue
        route = await self._routes.read(queue.topic)
        self._progress.pulled_at_ms = time.time_ns() // 1_000_000
        committable = self._progress.committable
        return await pull(
            self._connections,
            route.address_of(queue.broker, may_be_slave=True),
            queue,
            self._progress.next_offset,
            group=self._group,
            wanted=self._wanted,
            is_inline=False,
            wait_s=WAIT_S,
            commit_offset=committable if committable > 0 else None,
        )

    def _take(self, generation: int, pulled: Pulled) -> None:
        progress = self._progress
        if self._is_ended or progress.generation != generation:
            return  # the queue was taken away, or reset, while the pull was under way
        if pulled.status is PullStatus.MOVED:
            log.warning(
                "offset moved queue=%s group=%s from=%d to=%d min=%d max=%d",
                name_of(progress.queue), self._group, progress.next_offset, pulled.next_offset,
                pulled.min_offset, pulled.max_offset,
            )  # fmt: skip
            progress.restart(pulled.next_offset)
            return
        for message in pulled.messages:
            progress.add(message.offset, message.size)
        progress.next_offset = pulled.next_offset
        if pulled.messages:
            self._deliver(progress, pulled.messages)

    async def _mend(self, error: EmberError) -> None:
        """What may help before the next try."""
        is_stale = isinstance(error, Refused) and error.code == ResponseCode.SUBSCRIPTION_NOT_LATEST
        try:
            if is_stale or isinstance(error, NotSubscribed):
                await self._subscribe_again()
            elif isinstance(error, TransportError | NoRoute):
                await self._routes.find(self._progress.queue.topic, refresh=True)
        except EmberError as second:
            log.warning("still not mended queue=%s cause=%s", name_of(self._progress.queue), second)
