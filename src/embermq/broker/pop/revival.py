"""Delivers again what was popped and not acknowledged in time.

    revive topic, queue by queue:   ck   ck   ack   bAck   ck …
        ck  ─→ pending, until every ack that came in time has arrived, too
        ack ─→ its messages are done
    due ─→ what is not done is stored in the retry topic, and an ack says so, in one put ─→ progress
           what cannot be stored, for a reason of its own, is tried again every minute, and keeps nobody else waiting

A checkpoint arrives a second before its messages are due, its acks when they are: the timer tells how far it is.
Because what was revived is acknowledged as well, a crash does not make us, or RocketMQ, revive it again.
Progress is the offset of group CID_RMQ_SYS_REVIVE_GROUP, as RocketMQ means it: that of the last record that is
done with.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from embermq.broker.pop.figures import ReviveFigures
from embermq.broker.pop.in_flight import InFlight
from embermq.broker.pop.retrying import Retries
from embermq.broker.pop.revive_log import ReviveLog
from embermq.broker.puts import Puts
from embermq.broker.tables import Tables
from embermq.clock import Clock
from embermq.errors import CorruptRecord, EmberError, RequestError
from embermq.format.pop_records import ACK_TAG, BATCH_ACK_TAG, CHECKPOINT_TAG, decode_ack, decode_checkpoint
from embermq.format.record import DraftFields, Record, decode_record
from embermq.log.placed import Placed, queues_of
from embermq.model.pop import REVIVE_GROUP, Ack, Checkpoint, Delivery
from embermq.model.properties import TAGS, find_property

log = logging.getLogger(__name__)

LOOK_S: Final = 0.5
AT_ONCE: Final = 512  # records
MOST_BYTES: Final = 8 * 1024 * 1024
SLACK_MS: Final = 1000  # an ack that came just in time may still be on its way into the log
MOST_ORPHANS: Final = 10_000
MOST_FINISHED: Final = 10_000
MOST_REVIVED: Final = 256  # messages of one put
AGAIN_MS: Final = 60_000


@dataclass(slots=True)
class _Pending:
    checkpoint: Checkpoint
    record: int  # its offset in the revive queue
    done: set[int] = field(default_factory=set)
    not_before_ms: int = 0  # later than its time, where it could not be revived

    def open_offsets(self) -> list[int]:
        return [offset for offset in self.checkpoint.offsets if offset not in self.done]


class ReviveQueue:
    """What is known of one revive queue."""

    def __init__(self, number: int, next_offset: int) -> None:
        self.number = number
        self.next_offset = next_offset
        self.revived = 0  # messages
        self.pending: OrderedDict[Delivery, _Pending] = OrderedDict()
        self._orphans: OrderedDict[Delivery, set[int]] = OrderedDict()  # acks that came before their checkpoints
        self._finished: OrderedDict[Delivery, None] = OrderedDict()  # after a crash the timer may bring one again

    def add_checkpoint(self, checkpoint: Checkpoint, record: int) -> None:
        delivery = checkpoint.delivery
        if delivery not in self.pending and delivery not in self._finished:
            self.pending[delivery] = _Pending(checkpoint, record, self._orphans.pop(delivery, set()))

    def add_ack(self, ack: Ack) -> None:
        known = self.pending.get(ack.delivery)
        if known is not None:
            known.done.update(ack.offsets)
            return
        self._orphans.setdefault(ack.delivery, set()).update(ack.offsets)
        if len(self._orphans) > MOST_ORPHANS:
            self._orphans.popitem(last=False)

    def _finish(self, delivery: Delivery) -> None:
        del self.pending[delivery]
        self._finished[delivery] = None
        if len(self._finished) > MOST_FINISHED:
            self._finished.popitem(last=False)

    def take_due(self, before_ms: int, now_ms: int) -> list[_Pending]:
        """The first that are due and not done; what is done is dropped."""
        due: list[_Pending] = []
        count = 0
        for delivery, pending in list(self.pending.items()):
            if pending.checkpoint.revive_time >= before_ms:
                continue
            still_open = pending.open_offsets()
            if not still_open:
                self._finish(delivery)
                continue
            if pending.not_before_ms > now_ms:
                continue
            due.append(pending)
            count += len(still_open)
            if count >= MOST_REVIVED:
                break
        return due

    @property
    def progress(self) -> int:
        """The offset of the last record before which, and with which, all is done."""
        first = min((pending.record for pending in self.pending.values()), default=self.next_offset)
        return first - 1


class Revival:
    """Reads the revive topic and revives, one task for all queues."""

    def __init__(
        self,
        tables: Tables,
        puts: Puts,
        revive_log: ReviveLog,
        retries: Retries,
        *,
        broker: str,
        in_flight: InFlight,
        settled_ms: Callable[[], int],
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._puts = puts
        self._log = revive_log
        self._retries = retries
        self._broker = broker
        self._in_flight = in_flight
        self._clock = clock
        self.read: Counter[tuple[int, str]] = Counter()  # records by queue and kind
        self._settled_ms = settled_ms  # every record that waits for a time before it has arrived
        self._queues = [ReviveQueue(number, self._next_offset(number)) for number in range(revive_log.queues)]
        self._arrival = asyncio.Event()
        self._lock = asyncio.Lock()  # of a round
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def arrived(self, items: Sequence[Placed]) -> None:
        """Messages became visible. Called by the store, in any thread."""
        if self._loop is not None and queues_of(items, self._log.topic):
            self._loop.call_soon_threadsafe(self._arrival.set)

    def figures(self) -> list[ReviveFigures]:
        """How each revive queue is doing."""
        now = self._clock.now_ms()
        return [
            ReviveFigures(
                behind=self._end(queue.number) - queue.next_offset,
                pending=len(queue.pending),
                late_ms=max([0, *(now - each.checkpoint.revive_time for each in queue.pending.values())]),
                revived=queue.revived,
            )
            for queue in self._queues
        ]

    async def round(self) -> None:
        """Look at what arrived, and revive what is due."""
        async with self._lock:
            before_ms = self._settled_ms() - SLACK_MS  # first: what settles while we read has not been read
            for queue in self._queues:
                try:
                    self._read(queue)
                    while due := queue.take_due(before_ms, self._clock.now_ms()):
                        await self._revive(queue, [(pending, pending.open_offsets()) for pending in due])
                    self._commit(queue)
                except EmberError as error:
                    log.warning("revival waits queue=%d reason=%s", queue.number, error)

    async def _run(self) -> None:
        while True:
            try:
                await self.round()
            except Exception:
                log.exception("revival failed; it is tried again")
            self._arrival.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._arrival.wait()
                    await asyncio.sleep(LOOK_S / 10)  # more will come

    def _read(self, queue: ReviveQueue) -> None:
        """Take in all that arrived since the last time."""
        store, topic = self._tables.store, self._log.topic
        while True:
            found = store.read(topic, queue=queue.number, offset=queue.next_offset, limit=AT_ONCE, max_bytes=MOST_BYTES)
            for offset, position, data in found.records:
                self._take_in(queue, decode_record(data, position), offset)
            if found.next_offset <= queue.next_offset:
                return
            queue.next_offset = found.next_offset

    def _take_in(self, queue: ReviveQueue, record: Record, offset: int) -> None:
        tag = (find_property(record.properties, TAGS.encode()) or b"").decode(errors="replace")
        self.read[queue.number, tag] += 1
        try:
            if tag == CHECKPOINT_TAG:
                queue.add_checkpoint(decode_checkpoint(record.body), offset)
            elif tag in (ACK_TAG, BATCH_ACK_TAG):
                queue.add_ack(decode_ack(record.body, broker=self._broker))
        except CorruptRecord as error:
            log.error(
                "record of the revive topic cannot be read queue=%d offset=%d reason=%s", queue.number, offset, error
            )

    async def _revive(self, queue: ReviveQueue, due: Sequence[tuple[_Pending, list[int]]]) -> None:
        """Store these messages of these checkpoints again; if one is to blame that they cannot be, the others."""
        try:
            drafts: list[DraftFields] = []
            for pending, offsets in due:
                checkpoint = pending.checkpoint
                drafts += self._retries.drafts(checkpoint, offsets)
                ack = Ack(checkpoint.delivery, tuple(offsets))
                drafts.append(self._log.ack(ack, queue.number, deliver_ms=checkpoint.revive_time))
            await self._puts.put(drafts)
        except RequestError as error:
            alone = [(pending, [offset]) for pending, offsets in due for offset in offsets]
            if len(alone) > 1:
                for each in alone:
                    await self._revive(queue, [each])
                return
            ((pending, offsets),) = due
            pending.not_before_ms = self._clock.now_ms() + AGAIN_MS
            topic, group, number, *_ = pending.checkpoint.delivery
            place = (topic, number, offsets[0], group)
            log.error("message cannot be revived topic=%s queue=%d offset=%d group=%s reason=%s", *place, error)
            return
        for pending, offsets in due:
            queue.revived += len(offsets)
            self._in_flight.took_back(pending.checkpoint.delivery.key, len(offsets))
            pending.done.update(offsets)

    def _commit(self, queue: ReviveQueue) -> None:
        progress = queue.progress
        if progress > (self._tables.offsets.find(self._log.topic, REVIVE_GROUP, queue.number) or -1):
            self._tables.offsets.commit(self._log.topic, REVIVE_GROUP, queue.number, progress)

    def _next_offset(self, number: int) -> int:
        low, high = self._tables.store.offsets(self._log.topic, queue=number)
        done = self._tables.offsets.find(self._log.topic, REVIVE_GROUP, number)
        return min(max(low, -1 if done is None else done + 1, 0), high)

    def _end(self, number: int) -> int:
        return self._tables.store.offsets(self._log.topic, queue=number)[1]
