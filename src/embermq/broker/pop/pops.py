"""Everything that pops need, put together.

POP ─→ PopReader ─→ Giving ─→ checkpoints in the log      nothing there ─→ PopPolls
ACK ──────────────→ Giving ─→ acks in the log             in order ─→ OrderTable
arrivals ─→ PopPolls, Revival ─→ retry topics
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from embermq.broker.pop.answering import Answering
from embermq.broker.pop.figures import PopFigures
from embermq.broker.pop.giving import Giving
from embermq.broker.pop.in_flight import InFlight
from embermq.broker.pop.order_acks import OrderAcks
from embermq.broker.pop.orders import ORDERS_FILE, OrderTable
from embermq.broker.pop.polls import PopPolls
from embermq.broker.pop.progress import PopProgress
from embermq.broker.pop.recovery import recover_progress
from embermq.broker.pop.retrying import Retries
from embermq.broker.pop.revival import Revival
from embermq.broker.pop.revive_log import ReviveLog
from embermq.broker.pop.settled import SettledTime
from embermq.broker.pop.taking import PopReader
from embermq.broker.puts import Puts
from embermq.broker.settings import BrokerSettings
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.clock import Clock
from embermq.errors import EmberError
from embermq.log.placed import Placed
from embermq.model.pop import revive_topic_of
from embermq.rpc.router import Observe
from embermq.timers.timers import Timers

log = logging.getLogger(__name__)

TICK_S: Final = 0.1
SECURE_TICKS: Final = 10
SAVE_TICKS: Final = 100
YOUNG_BYTES: Final = 1024 * 1024 * 1024  # a queue whose first message is no farther from the log's end is read whole


class Pops:
    """The parts that POP handlers share, and what goes on without them."""

    def __init__(
        self,
        tables: Tables,
        puts: Puts,
        statistics: BrokerStatistics,
        settings: BrokerSettings,
        *,
        timers: Timers | None,
        observe: Observe,
        clock: Clock,
    ) -> None:
        store = tables.store
        host = store.store_host()
        self.is_possible = timers is not None  # without a timer, nothing would be delivered again
        self._tables = tables
        self._clock = clock
        self.answering = Answering(observe)
        known = tables.topics.find(revive_topic_of(settings.cluster))  # whoever made it may have made more, or fewer
        queues = known.write_queues if known is not None else settings.revive_queues
        self.log = ReviveLog(cluster=settings.cluster, queues=queues, host=host, clock=clock)
        recover_progress(store, tables.offsets, revive_topic=self.log.topic)
        self.progress = PopProgress(store, tables.offsets)
        tables.offsets.position = self.progress.position
        self.orders = OrderTable(store.path / "config" / ORDERS_FILE, tables.offsets)
        self.in_flight = InFlight(settings, wake=self.wake)
        self.reader = PopReader(
            tables,
            self.progress,
            self.orders,
            self.in_flight,
            statistics,
            broker=settings.name,
            is_young=self._is_young,
        )
        self.giving = Giving(store, puts, self.log, self.progress, self.in_flight, statistics)
        self.polls = PopPolls(clock=clock, most=settings.max_parked_pops, most_alike=settings.max_parked_pops_alike)
        self.notifications = PopPolls(
            clock=clock, most=settings.max_parked_pops, most_alike=settings.max_parked_pops_alike
        )
        self.order_acks = OrderAcks(tables, self.orders, wake=self.wake, is_sync=puts.is_sync, clock=clock)
        self._retries = Retries(tables, statistics, host=host)
        self.revival = Revival(
            tables,
            puts,
            self.log,
            self._retries,
            broker=settings.name,
            in_flight=self.in_flight,
            settled_ms=SettledTime(timers, clock).read_ms,
            clock=clock,
        )
        tables.topics.deletion_listeners.append(self._forget_topic)
        tables.groups.deletion_listeners += [self.orders.forget_group, self.in_flight.forget_group]
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.polls.start()
        self.notifications.start()
        self.revival.start()
        self._task = asyncio.get_running_loop().create_task(self._tick())

    async def stop(self) -> None:
        """Answer those who wait, and save how far ordered queues are."""
        await self.revival.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.polls.stop()
        await self.notifications.stop()
        self.giving.put_turn()
        await self.answering.stop()
        await self._save()

    def arrived(self, items: Sequence[Placed]) -> None:
        """Messages became visible. Called by the store, in any thread."""
        self.polls.arrived(items)
        self.notifications.arrived(items)

    def figures(self) -> PopFigures:
        """How it is doing at this moment."""
        return PopFigures(self.revival.figures(), self.log.written, self.revival.read, len(self.progress))

    def wake(self, topic: str, group: str, queue: int) -> None:
        """Something about a queue has changed: let one who waits for it pop, and one know."""
        self.polls.wake(topic, group, queue)
        self.notifications.wake(topic, group, queue)

    def _forget_topic(self, topic: str) -> None:
        self.progress.forget_topic(topic)
        self.orders.forget_topic(topic)
        self.in_flight.forget_topic(topic)
        self._retries.forget_topic(topic)

    async def _tick(self) -> None:
        """Commit what the disk has, free ordered queues whose time is up, save them from time to time."""
        number = 0
        while True:
            await asyncio.sleep(TICK_S)
            number += 1
            now = self._clock.now_ms()
            self.progress.settle()
            for key in self.orders.take_freed(now):
                self.wake(*key)
            if number % SECURE_TICKS == 0:
                await self._save(is_all=number % SAVE_TICKS == 0)

    async def _save(self, *, is_all: bool = True) -> None:
        """Have offsets committed that only wait for the disk; and, with `is_all`, ordered queues saved."""
        try:
            await self.progress.secure()
            if is_all:
                self.orders.expire(self._clock.now_ms())
                await self.orders.save()
        except EmberError as error:
            log.warning("progress of pops is not saved; it is tried again reason=%s", error)

    def _is_young(self, topic: str, queue: int) -> bool:
        """Whether the queue still has its first message, and not far from the end of the log."""
        store = self._tables.store
        entries = store.entries(topic, queue=queue, offset=0, limit=1)
        return bool(entries) and store.dispatched - entries[0].position <= YOUNG_BYTES
