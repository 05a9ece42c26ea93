"""Delivers the messages of the timer: what is visible enters the wheel, what is due leaves it.

    wake ─→ enqueue all ─→ slot due? ─→ put its messages, a few hundred at a time ─→ slot done ─→ …
                               └ no ─→ sleep until it is, or until messages arrive

A slot counts as done when all its messages are stored as safely as any. After a crash the slot that was under way is
delivered again as a whole: each of its messages comes twice at most, and none is lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from embermq.broker.puts import Puts
from embermq.broker.settings import BrokerSettings
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.timed_message import Redelivery, TimedMessages
from embermq.broker.timer_figures import TimerFigures, TimerRates, count_within
from embermq.broker.topics import BrokerTopics
from embermq.clock import Clock
from embermq.errors import EmberError, RequestError, StoreError
from embermq.format.record import DraftFields
from embermq.log.placed import Placed, queues_of
from embermq.model.topic import TIMER_TOPIC
from embermq.store.store import Store
from embermq.timers.slot_reading import Slot
from embermq.timers.timers import TimerForm, Timers
from embermq.timers.times import roll_window, snap_precision

if TYPE_CHECKING:
    from embermq.broker.fast_delivery import FastDelivery

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 512
UNITS_AT_ONCE: Final = 2_000  # of a chain; some milliseconds
MOST_BYTES: Final = 4 * 1024 * 1024
LONGEST_SLEEP_S: Final = 1.0  # so that a clock that was set is noticed
RETRY_S: Final = 0.5
EXPIRE_EVERY: Final = 30  # flushes


class TimerDelivery:
    """Gives messages that name a time to their topics when it has come."""

    def __init__(
        self,
        store: Store,
        timers: Timers,
        puts: Puts,
        topics: BrokerTopics,
        statistics: BrokerStatistics,
        *,
        flush_s: float,
        clock: Clock,
    ) -> None:
        self.timers = timers
        self._store = store
        self._topics = topics
        self._fast: FastDelivery | None = None  # where kernels are
        self._puts = puts
        self._statistics = statistics
        self._clock = clock
        self._flush_s = flush_s
        self._messages = TimedMessages(store, timers, topics, clock)
        self._rates = TimerRates(clock)
        self._arrival = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def use_kernels(self) -> None:
        """Have kernels deliver what is usual from now on; they must be loaded."""
        from embermq.broker.fast_delivery import FastDelivery

        self.timers.use_kernels()
        self._fast = FastDelivery(self._store, self.timers, self._topics)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks = [self._loop.create_task(self._run()), self._loop.create_task(self._keep_flushing())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.flush()
        self.timers.close()

    def arrived(self, items: Sequence[Placed]) -> None:
        """Messages became visible. Called by the store, in any thread."""
        if self._loop is not None and queues_of(items, TIMER_TOPIC):
            self._loop.call_soon_threadsafe(self._arrival.set)

    def wake(self) -> None:
        """Look at the clock now, not only when the next slot was thought to be due."""
        self._arrival.set()

    def figures(self) -> TimerFigures:
        """How it is doing at this moment."""
        timers, now, due = self.timers, self._clock.now_ms(), self.timers.next_time()
        enqueue_rate, dequeue_rate = self._rates.rates()
        return TimerFigures(
            late_ms=0 if due is None else max(now - due, 0),
            late=sum(count for time_ms, count in timers.iter_waiting() if time_ms < now - timers.form.precision),
            behind=timers.behind,
            waiting=sum(timers.waiting.counts.values()),
            by_topic=timers.waiting.counts,
            enqueued=timers.enqueued,
            dequeued=timers.dequeued,
            enqueue_rate=enqueue_rate,
            dequeue_rate=dequeue_rate,
            within=count_within(timers.iter_waiting(), now),
        )

    async def _run(self) -> None:
        while True:
            self._arrival.clear()
            try:
                wait_s = await self._turn()
            except Exception:
                log.exception("delivery of timer messages failed; it is tried again")
                wait_s = LONGEST_SLEEP_S
            if wait_s is None or wait_s > 0:
                # Not wait_for: Python 3.11's can lose the cancelling of this task.
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if wait_s is None else min(wait_s, LONGEST_SLEEP_S)):
                        await self._arrival.wait()

    async def _turn(self) -> float | None:
        """Do what there is to do; returns the seconds until there is more, None if nothing waits."""
        while self.timers.enqueue():
            await asyncio.sleep(0)
        reading = self.timers.next_slot()
        if reading is not None:
            while not reading.go_on(UNITS_AT_ONCE):
                await asyncio.sleep(0)  # for all others
            slot = reading.slot()
            self.timers.finish(slot, await self._deliver(slot))
            if self._puts.is_sync:
                self.timers.note_read()
            return 0.0
        due = self.timers.next_time()
        return None if due is None else max((due - self._clock.now_ms()) / 1000, 0.001)

    async def _deliver(self, slot: Slot) -> int:
        """Put all messages of a slot; returns the end of the log behind them."""
        end, begin = 0, 0
        while begin < len(slot.places):
            delivered = await self._deliver_fast(slot, begin)
            if delivered is not None:
                begin, after = delivered
                end = max(end, after)
                await asyncio.sleep(0)
                continue
            batch = self._messages.read(slot, begin, most=MOST_AT_ONCE, most_bytes=MOST_BYTES)
            end = max(end, await self._put(batch.messages))
            begin = batch.end
            await asyncio.sleep(0)  # for all others: a put that does not wait for the disk lets nobody else in
        return end

    async def _deliver_fast(self, slot: Slot, begin: int) -> tuple[int, int] | None:
        """Put messages from a unit on by kernels: the unit to go on with, the end of the log; None if they cannot."""
        fast = self._fast
        if fast is None or not self._puts.is_free:
            return None
        table = fast.read(slot, begin, now_ms=self._clock.now_ms(), most_bytes=MOST_BYTES)
        if table is None:
            return None
        try:
            appended = await self._puts.put_table(table)
        except StoreError as error:
            log.warning("timer messages wait count=%d reason=%s", len(table), error)
            await asyncio.sleep(RETRY_S)
            return begin, 0
        if appended.error is not None:
            log.warning("timer messages wait count=%d reason=%s", len(table) - len(appended.records), appended.error)
            await asyncio.sleep(RETRY_S)
        if not appended.pieces:
            return begin, 0
        fast.count(table, appended.records, self._statistics.count_put)
        return begin + len(appended.records), appended.pieces[-1].end

    async def _put(self, messages: Sequence[Redelivery]) -> int:
        """Put messages, waiting as long as the store takes none; one that can never be put is dropped, aloud."""
        drafts: list[DraftFields] = [each.draft for each in messages]
        while drafts:
            try:
                submitted = await self._puts.put(drafts)
            except RequestError as error:
                if len(messages) > 1:
                    return max([await self._put([each]) for each in messages])
                log.error("timer message dropped topic=%s reason=%s", messages[0].topic, error)
                return 0
            except StoreError as error:
                log.warning("timer messages wait count=%d reason=%s", len(drafts), error)
                await asyncio.sleep(RETRY_S)
            else:
                self._count(messages, submitted.sizes)
                return submitted.end
        return 0

    def _count(self, messages: Sequence[Redelivery], sizes: Sequence[int]) -> None:
        put: dict[tuple[str, int], list[int]] = {}
        for each, size in zip(messages, sizes, strict=True):
            put.setdefault((each.topic, each.draft[1]), []).append(size)
        for (topic, queue), each_size in put.items():
            self._statistics.count_put(topic, queue, len(each_size), sum(each_size))

    async def _keep_flushing(self) -> None:
        while True:
            for _ in range(EXPIRE_EVERY):
                await asyncio.sleep(self._flush_s)
                await self.flush()
                self._rates.sample(self.timers.enqueued, self.timers.dequeued)
            with suppress(OSError, EmberError):
                self.timers.expire()

    async def flush(self) -> None:
        """Bring wheel, units and progress onto the disk; what fails is said, and tried again."""
        snapshot = self.timers.snapshot()
        if snapshot is None:
            return
        try:
            await asyncio.to_thread(self.timers.flush, snapshot)
        except Exception as error:
            self.timers.give_back(snapshot)
            log.error("timer is not on disk; it is tried again reason=%s", error)


def open_timer_delivery(
    store: Store,
    puts: Puts,
    topics: BrokerTopics,
    statistics: BrokerStatistics,
    *,
    settings: BrokerSettings,
    clock: Clock,
) -> TimerDelivery | None:
    """Open the timer of a store; None if the broker has none."""
    if not settings.timers:
        return None
    precision = snap_precision(settings.timer_precision_ms)
    retention_ms = int(store.settings.retention_hours * 3_600_000)
    window = roll_window(settings.timer_roll_slots, precision=precision, retention_ms=retention_ms)
    timers = Timers(store, TimerForm(precision, window, settings.timer_file_size), clock=clock)
    return TimerDelivery(store, timers, puts, topics, statistics, flush_s=settings.timer_flush_ms / 1000, clock=clock)
