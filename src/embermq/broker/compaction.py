"""Keeps compacted topics up to date, and compacts them in the background, slowly enough for the disk."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from embermq.broker.settings import BrokerSettings
from embermq.broker.topics import BrokerTopics
from embermq.compaction.compacted_queue import Sizes
from embermq.compaction.compacted_topics import CompactedTopics, is_compacted
from embermq.format.tables import TopicTable
from embermq.log.placed import Placed, queues_of
from embermq.store.store import Store

log = logging.getLogger(__name__)

FLUSH_S: Final = 1.0


class BackgroundCompaction:
    """Takes messages of compacted topics as they come, and compacts what has grown."""

    def __init__(self, store: Store, topics: BrokerTopics, settings: BrokerSettings) -> None:
        sizes = Sizes.of(settings.compaction_file_size, settings.compaction_queue_file_size)
        self.compacted = CompactedTopics(store, sizes, most_keys=settings.compaction_max_keys)
        self._topics = topics
        self._interval_s = settings.compaction_interval_ms / 1000
        self._bytes_per_s = settings.compaction_bytes_per_s
        self._arrived: set[tuple[str, int]] = set()
        self._compacted_names: tuple[str, ...] = ()
        self._names_of: TopicTable | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        topics.deletion_listeners.append(self.compacted.forget)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.compacted.open()
        self._tasks = [self._loop.create_task(self._keep_compacting()), self._loop.create_task(self._keep_flushing())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._take()
        await asyncio.to_thread(self.compacted.flush)
        self.compacted.close()

    def arrived(self, items: Sequence[Placed]) -> None:
        """Messages became visible. Called by the store, in any thread."""
        if self._loop is None:
            return
        places = {(topic, queue) for topic in self.names() for queue in queues_of(items, topic)}
        if places:
            self._loop.call_soon_threadsafe(self._note, places)

    def names(self) -> tuple[str, ...]:
        """The compacted topics; looked for again only when a topic was changed."""
        table = self._topics.table()
        if table is not self._names_of:
            self._compacted_names = tuple(name for name, topic in table.topics.items() if is_compacted(topic))
            self._names_of = table
        return self._compacted_names

    def _note(self, places: set[tuple[str, int]]) -> None:
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._take)
        self._arrived |= places

    def _take(self) -> None:
        places, self._arrived = self._arrived, set()
        for topic, queue in places:
            if is_compacted(self._topics.find(topic)):
                self.compacted.take(topic, queue)

    async def compact(self) -> None:
        """Compact every queue that has grown."""
        for topic, queue in self.compacted.due():
            done = await asyncio.to_thread(self.compacted.compact, topic, queue, _Pace(self._bytes_per_s))
            if is_compacted(self._topics.find(topic)):
                self.compacted.use(topic, queue, done)

    async def _keep_compacting(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self.compact()
            except Exception:
                log.exception("compaction failed; it is tried again")

    async def _keep_flushing(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            try:
                await asyncio.to_thread(self.compacted.flush)
            except Exception as error:
                log.error("compacted topics are not on disk; it is tried again reason=%s", error)


class _Pace:
    """Waits as often as it takes to read and write no more than so many bytes a second."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._began = time.monotonic()
        self._done = 0

    def __call__(self, size: int) -> None:
        self._done += size
        early = self._done / self._bytes_per_s - (time.monotonic() - self._began)
        if early > 0.05:
            time.sleep(early)
