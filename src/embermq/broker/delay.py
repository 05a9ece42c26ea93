"""Delivers delayed messages: one task a level, in the order of the level's queue.

    SCHEDULE_TOPIC_XXXX, queue level-1: entries whose tags code is the time of delivery
        due ─→ stored again in its real topic and queue ─→ progress + 1
        not due ─→ sleep

Progress is kept in config/delayOffset.json. After a crash, what was delivered since it was
saved last is delivered once more; nothing is lost and nothing comes early.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from embermq.broker.parking import unpark
from embermq.broker.puts import Puts
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.topics import BrokerTopics
from embermq.clock import Clock
from embermq.errors import CorruptRecord, OutOfRange, RequestError, StoreError
from embermq.files.durable import read_with_backup, replace_file
from embermq.format.batch_entry import BatchEntry
from embermq.format.queue_entry import QueueEntry
from embermq.format.record import DraftFields, Record
from embermq.format.tables import DelayTable, decode_delays, encode_delays
from embermq.log.placed import Placed, queues_of
from embermq.model.topic import HALF_TOPIC, SCHEDULE_TOPIC
from embermq.model.version import DataVersion
from embermq.store.store import Store

log = logging.getLogger(__name__)

DELAY_FILE: Final = "delayOffset.json"
MOST_AT_ONCE: Final = 64
MOST_BYTES: Final = 4 * 1024 * 1024
LONGEST_SLEEP_S: Final = 1.0  # so that a clock that was set is noticed
RETRY_S: Final = 0.1


class DelayDelivery:
    """Gives delayed messages back to their topics when it is time."""

    def __init__(
        self,
        store: Store,
        puts: Puts,
        topics: BrokerTopics,
        statistics: BrokerStatistics,
        *,
        levels: Sequence[int],
        clock: Clock,
    ) -> None:
        self._store = store
        self._puts = puts
        self._topics = topics
        self._statistics = statistics
        self._levels = levels
        self._clock = clock
        self._path = store.path / "config" / DELAY_FILE
        self._table = _load(self._path)
        self._offsets = dict(self._table.offsets)
        self._is_changed = False
        self._arrivals = [asyncio.Event() for _ in levels]
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = [self._loop.create_task(self._run(level)) for level in range(1, len(self._levels) + 1)]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.save()

    def table(self) -> DelayTable:
        """How far each level is; levels that never had a message are not in it."""
        return DelayTable(self._table.version, dict(self._offsets))

    def save(self) -> None:
        """Bring the progress to the disk, if there was any."""
        if not self._is_changed:
            return
        self._is_changed = False
        self._table = DelayTable(self._table.version.next(self._clock.now_ms()), dict(self._offsets))
        self._path.parent.mkdir(exist_ok=True)
        replace_file(self._path, encode_delays(self._table), keep_backup=True)

    def arrived(self, items: Sequence[Placed]) -> None:
        """Messages became visible. Called by the store, in any thread."""
        if self._loop is None:
            return
        for queue in queues_of(items, SCHEDULE_TOPIC):
            if queue < len(self._arrivals):
                self._loop.call_soon_threadsafe(self._arrivals[queue].set)

    async def _run(self, level: int) -> None:
        while True:
            try:
                wait_s = await self._deliver(level)
            except Exception:
                log.exception("delivery of delayed messages failed level=%d; it is tried again", level)
                wait_s = LONGEST_SLEEP_S
            if wait_s is None:
                await self._arrivals[level - 1].wait()
                self._arrivals[level - 1].clear()
            elif wait_s > 0:
                await asyncio.sleep(min(wait_s, LONGEST_SLEEP_S))

    async def _deliver(self, level: int) -> float | None:
        """Deliver what is due; returns the seconds until more is, None if nothing waits."""
        queue = level - 1
        low, high = self._store.offsets(SCHEDULE_TOPIC, queue=queue)
        offset = min(max(self._offsets.get(level, 0), low), high)
        entries = self._store.entries(SCHEDULE_TOPIC, queue=queue, offset=offset, limit=MOST_AT_ONCE)
        if not entries:
            return None
        now, delay = self._clock.now_ms(), self._levels[queue]
        due = _due(entries, now, delay)
        if not due:
            return (_time_of(entries[0]) - now) / 1000
        drafts: list[DraftFields] = []
        size = taken = 0
        for entry in due:
            if drafts and size + entry.size > MOST_BYTES:
                break
            taken += 1
            draft = self._draft(entry, level)
            if draft is not None:
                drafts.append(draft)
                size += entry.size
        if not await self._put(drafts, level):
            return RETRY_S
        self._offsets[level] = offset + taken
        self._is_changed = True
        return 0.0

    async def _put(self, drafts: list[DraftFields], level: int) -> bool:
        if not drafts:
            return True
        try:
            submitted = await self._puts.put(drafts)
        except RequestError as error:
            if len(drafts) > 1:
                results = [await self._put([draft], level) for draft in drafts]
                return all(results)
            # It could never be delivered, and would keep all others of its level from theirs.
            log.error("delayed message dropped level=%d topic=%s reason=%s", level, drafts[0][0].decode(), error)
            return True
        except StoreError as error:
            log.warning("delayed messages wait level=%d reason=%s", level, error)
            return False
        for draft, size in zip(drafts, submitted.sizes, strict=True):
            self._statistics.count_put(draft[0].decode(), draft[1], 1, size)
        return True

    def _draft(self, entry: QueueEntry | BatchEntry, level: int) -> DraftFields | None:
        """The message of an entry as it is stored again; None, said aloud, if there is none to deliver."""
        try:
            record = self._store.read_record(entry.position)
            target = unpark(record.property_map())
        except (OutOfRange, CorruptRecord) as error:
            log.error("delayed message lost level=%d position=%d reason=%s", level, entry.position, error)
            return None
        if target is None or target[0] == HALF_TOPIC:
            log.error("delayed message dropped, it names no topic level=%d position=%d", level, entry.position)
            return None
        topic, queue = target
        if self._topics.find(topic) is None:
            log.warning("delayed message dropped, its topic was deleted level=%d topic=%s", level, topic)
            return None
        return _again(record, topic, queue)


def _again(record: Record, topic: str, queue: int) -> DraftFields:
    return (
        topic.encode(), queue, record.body, record.properties, record.flag, record.sys_flag, record.born_time,
        record.born_host, record.reconsume_times, 0,
    )  # fmt: skip


def _time_of(entry: QueueEntry | BatchEntry) -> int:
    return entry.tags_code


def _due(entries: Sequence[QueueEntry | BatchEntry], now: int, delay: int) -> list[QueueEntry | BatchEntry]:
    """The first entries, as far as they are due; or further away than their level allows: the clock was set back."""
    due = []
    for entry in entries:
        if now < _time_of(entry) <= now + delay:
            break
        due.append(entry)
    return due


def _load(path: Path) -> DelayTable:
    table = read_with_backup(path, decode_delays)
    return table if table is not None else DelayTable(DataVersion(0, 0, 0), {})
