"""Asks producers how transactions ended that they did not tell of in time.

    open for transaction_timeout_ms, or for as long as its producer asked for
        ├─ a producer of its group is connected: put back behind the others, and asked about; the next time
        │  comes after transaction_check_interval_ms, then after twice and four times that, up to eight times
        ├─ none is: it waits for one, and is not counted as asked about
        └─ asked about transaction_check_max times, or older than messages are kept: given up

The copy, the message that is given up and the done marks of what they stand for go to the log in one piece, so that
a restart finds a transaction once.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from embermq.broker.client_calls import ask_transaction
from embermq.broker.membership import Membership
from embermq.broker.puts import Puts
from embermq.broker.settings import BrokerSettings
from embermq.broker.topics import BrokerTopics
from embermq.broker.transactions.halves import Half, checked_draft, done_drafts, given_up_draft
from embermq.broker.transactions.open_counts import OpenCounts
from embermq.broker.transactions.open_halves import Open, OpenHalves
from embermq.clock import Clock
from embermq.errors import EmberError, RequestError
from embermq.format.record import DraftFields
from embermq.model.topic import GIVEN_UP_TOPIC
from embermq.store.store import Store
from embermq.store.writer import Submitted

log = logging.getLogger(__name__)

MOST_AT_ONCE: Final = 256
MOST_BYTES: Final = 4 * 1024 * 1024
LOOK_S: Final = 1.0
RETRY_MS: Final = 1_000
LOOK_AGAIN_MS: Final = 60_000  # at those that wait for a producer
FAR: Final = 20_000  # half messages behind one that is open: it is put back, or all marks since then would be kept
MOST_DOUBLINGS: Final = 3
_INDEX_STEP_MS: Final = 1_000  # by which the index may be wrong
_HOUR_MS: Final = 3_600_000
_END_OF_TIME_MS: Final = 2**63 - 1


class _Step(NamedTuple):
    """What is done with one transaction."""

    half: Half
    draft: DraftFields | None = None  # a copy, or the message that is given up; None if the log has its end already
    checks: int | None = None  # of the copy
    is_asked: bool = False

    @property
    def gives_up(self) -> bool:
        return self.draft is not None and self.checks is None


class Checker:
    """Follows open transactions. All of it runs in the event loop."""

    def __init__(
        self,
        store: Store,
        puts: Puts,
        topics: BrokerTopics,
        membership: Membership,
        halves: OpenHalves,
        counts: OpenCounts,
        *,
        settings: Callable[[], BrokerSettings],
        clock: Clock,
    ) -> None:
        self._store = store
        self._puts = puts
        self._topics = topics
        self._membership = membership
        self._halves = halves
        self._counts = counts
        self._settings = settings
        self._clock = clock
        self._young: deque[tuple[int, list[int]]] = deque()  # offsets that nearly all end before they are looked at
        self._when: dict[int, int] = {}  # offsets to when they are looked at, in ms
        self._heap: list[tuple[int, int]] = []  # the same; what differs from it counts for nothing
        self._lonely: dict[str, set[int]] = {}  # offsets that wait for a producer, by group
        self._turns = itertools.count()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Find out what is open, and begin."""
        found = self._halves.load()
        self._counts.load(half.topic for half in found)
        for half in found:
            self._schedule(half.record.offset, self._due(half))
        if found:
            log.info("transactions open count=%d", len(found))
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            try:
                while await self.look() == MOST_AT_ONCE:
                    pass
            except Exception:
                log.exception("looking at open transactions failed; it is tried again")
            self._halves.save_progress()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> int:
        """Do what is due; how many transactions that were."""
        now, settings = self._clock.now_ms(), self._settings()
        found = self._halves.take_found()
        if found:
            self._young.append((now + settings.transaction_timeout_ms, found))
        while self._young and self._young[0][0] <= now:
            for offset in self._young.popleft()[1]:
                if self._halves.position_of(offset) is not None:
                    self._schedule(offset, now)
        self._visit_lonely(now)
        steps: list[_Step] = []
        count = size = 0
        while self._heap and self._heap[0][0] <= now and count < MOST_AT_ONCE and size < MOST_BYTES:
            when, offset = heapq.heappop(self._heap)
            if self._when.get(offset) != when:
                continue
            del self._when[offset]
            count += 1
            step = self._plan(offset, now)
            if step is not None:
                steps.append(step)
                size += step.half.record.size
        if steps:
            await self._take(steps)
        return count

    def _plan(self, offset: int, now: int) -> _Step | None:
        """What to do with a transaction that is due; None if nothing, for now or at all."""
        position = self._halves.position_of(offset)
        half = self._halves.read(Open(offset, position)) if position is not None else None
        if half is None:
            return None
        checks, settings, is_far = half.checks, self._settings(), self._halves.end - offset > FAR
        due = self._due(half)
        if due > now and not is_far:  # its producer asked for more time
            self._schedule(offset, min(due, now + LOOK_AGAIN_MS))
            return None
        if self.is_committed(half):
            return _Step(half)
        if due > now:
            return _Step(half, checked_draft(half, checks), checks)
        is_lonely = not self._membership.askable(half.group)
        is_old = now - half.record.born_time > self._store.settings.retention_hours * _HOUR_MS
        if checks >= settings.transaction_check_max or (is_old and (checks or is_lonely)):
            return _Step(half, given_up_draft(half.record))
        if not is_lonely:
            return _Step(half, checked_draft(half, checks + 1), checks + 1, is_asked=True)
        if is_far:
            return _Step(half, checked_draft(half, checks), checks)
        self._wait_for_producer(half, offset, now)
        return None

    async def _take(self, steps: Sequence[_Step]) -> None:
        """Store what the steps say, with marks for what they replace; then ask."""
        taken = [at for step in steps if (at := self._halves.take_at(step.half.record.offset)) is not None]
        drafts = [step.draft for step in steps if step.draft is not None]
        if any(step.gives_up for step in steps):
            self._topics.ensure(GIVEN_UP_TOPIC)
        marks, highest = done_drafts(
            [at.offset for at in taken],
            max_size=self._settings().transaction_mark_size,
            now_ms=self._clock.now_ms(),
            host=self._store.store_host(),
        )
        try:
            submitted = await self._puts.put([*drafts, *marks])
        except EmberError as error:
            log.warning("open transactions wait count=%d reason=%s", len(steps), error)
            self._halves.give_back(taken)
            is_one = isinstance(error, RequestError)  # one of them is to blame; the others are not
            if is_one and len(steps) > 1:
                for step in steps:
                    await self._take([step])
                return
            for at in taken:
                self._schedule(at.offset, self._clock.now_ms() + (LOOK_AGAIN_MS if is_one else RETRY_MS))
            return
        for offset, named in zip(submitted.offsets[len(drafts) :], highest, strict=True):
            self._halves.note_mark(offset, named)
        places = itertools.count()
        for step in steps:
            self._settle(step, submitted, next(places) if step.draft is not None else 0)

    def _settle(self, step: _Step, submitted: Submitted, place: int) -> None:
        """The log has what a step says."""
        half = step.half
        if step.checks is None:
            self._halves.forget(half, half.record.offset)
            self._counts.add(half.topic, -1)
            if step.gives_up:
                place_of = (half.topic, half.group, half.unique_id, half.checks)
                log.warning("transaction given up topic=%s group=%s id=%s checks=%d", *place_of)
            return
        copy = Open(submitted.offsets[place], submitted.positions[place])
        self._halves.replace(half, copy)
        if step.is_asked:
            assert step.draft is not None
            self._schedule(copy.offset, submitted.store_time + self._pause(step.checks))
            self._ask(half, copy, properties=step.draft[3])
        else:
            self._lonely.get(half.group, set()).discard(half.record.offset)
            self._wait_for_producer(half, copy.offset, submitted.store_time)

    def _ask(self, half: Half, copy: Open, *, properties: bytes) -> None:
        producers = self._membership.askable(half.group)
        if producers:
            chosen = producers[next(self._turns) % len(producers)]
            asked = half.record._replace(
                offset=copy.offset,
                position=copy.position,
                topic=half.topic,
                queue=half.queue,
                properties=properties,
            )
            ask_transaction(chosen, asked, unique_id=half.unique_id, broker_name=self._settings().name)

    def is_committed(self, half: Half) -> bool:
        """Whether the log has the committed message already, although no mark says so: a broker died in between."""
        if half.record.offset >= self._halves.found_at_start or not half.unique_id:
            return False
        begin = half.record.store_time - _INDEX_STEP_MS
        found = self._store.query_records(half.topic, half.unique_id, begin, _END_OF_TIME_MS, limit=MOST_AT_ONCE)
        return any(each.prepared_position == half.record.position for each in found)

    def _due(self, half: Half) -> int:
        """When a transaction is looked at."""
        checks = half.checks
        if checks:
            return half.record.store_time + self._pause(checks)
        record, immunity = half.record, half.immunity_ms
        if immunity is not None:  # since it was sent, because it may have been put back meanwhile
            return min(record.born_time, record.store_time) + immunity
        return record.store_time + self._settings().transaction_timeout_ms

    def _pause(self, checks: int) -> int:
        return self._settings().transaction_check_interval_ms << min(max(checks - 1, 0), MOST_DOUBLINGS)

    def _schedule(self, offset: int, when: int) -> None:
        self._when[offset] = when
        heapq.heappush(self._heap, (when, offset))

    def _wait_for_producer(self, half: Half, offset: int, now: int) -> None:
        self._lonely.setdefault(half.group, set()).add(offset)
        self._schedule(offset, now + LOOK_AGAIN_MS)

    def _visit_lonely(self, now: int) -> None:
        """Look at once at those whose producers are there now."""
        for group in [group for group in self._lonely if self._membership.askable(group)]:
            for offset in self._lonely.pop(group):
                if offset in self._when:
                    self._schedule(offset, now)
