"""Taking messages out of queues for one pop.

    retry topics first, in one pop of five; else last
        │
    topic, its queues beginning at a random one ─→ offset ─→ read ─→ a checkpoint a queue, or an ordered entry

Nothing is given away here: whoever asked stores the checkpoints first.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from embermq.broker.pop.asks import Ask
from embermq.broker.pop.in_flight import InFlight
from embermq.broker.pop.orders import OrderTable
from embermq.broker.pop.progress import Key, PopProgress
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.format.pop_fields import PoppedQueue, format_handle, format_order_counts
from embermq.format.record import MAX_PROPERTIES_SIZE, decode_record, encode_record
from embermq.model.pop import (
    FIFO_REVIVE_QUEUE,
    NORMAL,
    RETRY_V1,
    RETRY_V2,
    Checkpoint,
    Delivery,
    Handle,
    retry_topic_of,
)
from embermq.model.properties import POP_CK, format_properties
from embermq.model.topic import RETRY_PREFIX
from embermq.store.reading import Found, ReadStatus

MOST_BYTES: Final = 4 * 1024 * 1024
RETRY_FIRST_PERCENT: Final = 20
_CORRECTED: Final = (ReadStatus.TOO_SMALL, ReadStatus.BEYOND)
_PASSED_OVER: Final = (ReadStatus.NO_MATCH, ReadStatus.REMOVED)

Dice = Callable[[int], int]


@dataclass(slots=True)
class Taking:
    """What one pop found so far."""

    ask: Ask
    pop_time: int
    revive_queue: int
    broker: str
    queues: list[PoppedQueue] = field(default_factory=list)
    parts: list[bytes | memoryview] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    steps: list[tuple[Key, int]] = field(default_factory=list)  # where queues go on behind it
    order_counts: list[str] = field(default_factory=list)
    count: int = 0
    size: int = 0  # bytes
    rest: int = 0  # messages that are there and were not taken

    @property
    def left(self) -> int:
        """How many messages it may still take."""
        return self.ask.limit - self.count if self.size < MOST_BYTES else 0

    def handle(self, start: int) -> Handle:
        return Handle(start, self.pop_time, self.ask.invisible_ms, self.revive_queue, self.broker)


class PopReader:
    """Reads queues for pops."""

    def __init__(
        self,
        tables: Tables,
        progress: PopProgress,
        orders: OrderTable,
        in_flight: InFlight,
        statistics: BrokerStatistics,
        *,
        broker: str,
        is_young: Callable[[str, int], bool],
        dice: Dice = random.randrange,
    ) -> None:
        self._tables = tables
        self._progress = progress
        self._orders = orders
        self._in_flight = in_flight
        self._statistics = statistics
        self._broker = broker
        self._is_young = is_young
        self.dice = dice

    def take(self, ask: Ask, *, pop_time: int, revive_queue: int) -> Taking:
        """What there is for `ask`, from as many queues as it takes."""
        taking = Taking(ask, pop_time, FIFO_REVIVE_QUEUE if ask.is_fifo else revive_queue, self._broker)
        self._progress.begin()
        for topic, kind, queue in self._places(ask):
            if ask.is_fifo:
                self._take_in_order(taking, topic, queue)
            else:
                self._take(taking, topic, kind, queue)
        return taking

    def peek(self, ask: Ask, *, pop_time: int, revive_queue: int) -> Taking:
        """The same, without anything being given away."""
        taking = Taking(ask, pop_time, revive_queue, self._broker)
        for topic, kind, queue in self._places(ask):
            offset = self.start(ask, topic, queue)
            low, high = self._tables.store.offsets(topic, queue=queue)
            if taking.left <= 0:
                taking.rest += max(high - offset, 0)
                continue
            found = self._read(taking, topic, queue, min(max(offset, low), high))
            if found.records:
                self._add(taking, topic, kind, queue, found, start=found.records[0][0])
            taking.rest += max(found.max_offset - found.next_offset, 0)
        return taking

    def has_messages(self, ask: Ask, now: int) -> bool:
        """Whether a pop would find something, as far as offsets tell."""
        for topic, _, queue in self._places(ask):
            if self._tables.store.offsets(topic, queue=queue)[1] <= self.start(ask, topic, queue):
                continue
            key = (topic, ask.group, queue)
            if not ask.is_fifo or self._orders.find_block(key, ask.attempt, now) is None:
                return True
        return False

    def start(self, ask: Ask, topic: str, queue: int) -> int:
        """Where the group goes on, or begins, in a queue."""
        found = self._progress.find(topic, ask.group, queue)
        return self._first(ask, topic, queue) if found is None else found

    def _first(self, ask: Ask, topic: str, queue: int) -> int:
        """Where a group begins that never read the queue."""
        low, high = self._tables.store.offsets(topic, queue=queue)
        if not ask.begins_at_end or topic.startswith(RETRY_PREFIX):
            return low
        return 0 if low == 0 and self._is_young(topic, queue) else max(high - 1, 0)

    def _places(self, ask: Ask) -> Iterator[tuple[str, int, int]]:
        """Topic, kind and queue of all that is looked at, in turn."""
        own = ask.topic
        turn = self.dice(100)
        queues = [(turn + each) % own.read_queues for each in range(own.read_queues)] if ask.queue < 0 else [ask.queue]
        places = [(own.name, NORMAL, queue) for queue in queues]
        if ask.is_fifo:
            return iter(places)
        retries = [
            (name, kind, queue)
            for kind in (RETRY_V1, RETRY_V2)
            for name in [retry_topic_of(own.name, ask.group, version=kind)]
            for topic in [self._tables.topics.find(name)]
            if topic is not None
            for queue in range(topic.read_queues)
        ]
        return iter(retries + places if turn < RETRY_FIRST_PERCENT else places + retries)

    def _take(self, taking: Taking, topic: str, kind: int, queue: int) -> None:
        ask = taking.ask
        key = (topic, ask.group, queue)
        offset = self._begin(ask, key)
        if self._in_flight.is_full(key):
            return  # not even a rest: whoever waits is told when there is room again
        if taking.left <= 0:
            taking.rest += max(self._tables.store.offsets(topic, queue=queue)[1] - offset, 0)
            return
        run = self._take_run(taking, topic, queue, offset) if kind == NORMAL else None
        if run is not None:
            offsets, next_offset = tuple(run), run.stop
        else:
            offset, found = self._find(taking, key, offset)
            if not found.records:
                if found.status in _PASSED_OVER:
                    self._progress.pass_over(key, found.next_offset)
                return
            offsets, next_offset = tuple(self._add(taking, topic, kind, queue, found, start=offset)), found.next_offset
        delivery = Delivery(topic, ask.group, queue, offset, taking.pop_time, self._broker)
        taking.checkpoints.append(Checkpoint(delivery, offsets, ask.invisible_ms))
        taking.steps.append((key, next_offset))

    def _take_run(self, taking: Taking, topic: str, queue: int, start: int) -> range | None:
        """Take messages that follow each other as they lie, and tell their offsets; None if something is unusual."""
        ask = taking.ask
        if ask.accept is not None or ask.wanted is not None:
            return None
        found = self._tables.store.read_bytes(
            topic, queue=queue, offset=start, limit=taking.left, max_bytes=MOST_BYTES - taking.size
        )
        if found.records == 0 or found.records != found.next_offset - start:
            return None
        taking.parts += found.parts
        taking.rest += max(found.max_offset - found.next_offset, 0)
        offsets = range(start, found.next_offset)
        self._note(taking, topic, PoppedQueue(NORMAL, queue, start, offsets), found.size)
        return offsets

    def _take_in_order(self, taking: Taking, topic: str, queue: int) -> None:
        ask = taking.ask
        key = (topic, ask.group, queue)
        offset = self._begin(ask, key)
        if self._orders.find_block(key, ask.attempt, taking.pop_time) is not None:
            return
        if taking.left <= 0:
            taking.rest += max(self._tables.store.offsets(topic, queue=queue)[1] - offset, 0)
            return
        offset, found = self._find(taking, key, offset)
        if not found.records:
            if found.status in _PASSED_OVER:
                self._tables.offsets.commit(*key, found.next_offset)
            return
        done = self._orders.done_of(key)
        if done.issuperset(each[0] for each in found.records):  # what kept the queue has expired
            self._tables.offsets.commit(*key, found.next_offset)
            return
        order = self._orders.note_pop(
            key,
            [each[0] for each in found.records],
            pop_time=taking.pop_time,
            invisible_ms=ask.invisible_ms,
            attempt=ask.attempt,
        )
        kept = Found(
            found.status,
            found.next_offset,
            found.min_offset,
            found.max_offset,
            [each for each in found.records if each[0] not in done],
        )
        self._add(taking, topic, NORMAL, queue, kept, start=offset)
        least = min((order.counts.get(each, 0) for each in order.offsets), default=0)
        taking.order_counts.append(format_order_counts(NORMAL, queue, sorted(order.counts.items()), least))

    def _begin(self, ask: Ask, key: Key) -> int:
        """Where to begin; an operator's reset counts from here on, and so does a first offset."""
        topic, group, queue = key
        reset = self._tables.offsets.take_reset(topic, group, queue)
        if reset is not None:
            self._orders.forget_queue(key)
            self._in_flight.restart(key)
            self._progress.restart(key, reset)
            return reset
        known = self._progress.find(topic, group, queue)
        if known is not None:
            return known
        offset = self._first(ask, topic, queue)
        self._tables.offsets.commit(topic, group, queue, offset)
        return offset

    def _find(self, taking: Taking, key: Key, offset: int) -> tuple[int, Found]:
        """What is at an offset; or at the nearest that there is, if it is outside of the queue."""
        topic, _, queue = key
        found = self._read(taking, topic, queue, offset)
        if found.status in _CORRECTED:
            offset = found.next_offset
            self._progress.restart(key, offset)
            found = self._read(taking, topic, queue, offset)
        taking.rest += max(found.max_offset - found.next_offset, 0)
        return offset, found

    def _read(self, taking: Taking, topic: str, queue: int, offset: int) -> Found:
        found = self._tables.store.read(
            topic,
            queue=queue,
            offset=offset,
            limit=taking.left,
            max_bytes=MOST_BYTES - taking.size,
            accept=taking.ask.accept,
            wanted=taking.ask.wanted,
        )
        if not found.records:
            self._statistics.count_get(topic, queue, taking.ask.group, 0, 0)
        return found

    def _add(self, taking: Taking, topic: str, kind: int, queue: int, found: Found, *, start: int) -> list[int]:
        """Take what was found; its offsets."""
        offsets: list[int] = []
        size = 0
        for offset, position, data in found.records:
            offsets.append(offset)
            size += len(data)
            if kind == NORMAL:
                taking.parts.append(data)
            else:
                handle = format_handle(taking.handle(start), kind, queue, offset)
                taking.parts.append(_as_origin(data, position, taking.ask.topic.name, handle))
        self._note(taking, topic, PoppedQueue(kind, queue, start, offsets), size)
        return offsets

    def _note(self, taking: Taking, topic: str, popped: PoppedQueue, size: int) -> None:
        taking.queues.append(popped)
        taking.count += len(popped.offsets)
        taking.size += size
        self._statistics.count_get(topic, popped.queue, taking.ask.group, len(popped.offsets), size)


def _as_origin(data: bytes | memoryview, position: int, topic: str, handle: str) -> bytes | memoryview:
    """A message of a retry topic as one of the topic that it came from, with its handle.

    Where there is no room for that it stays what it is: a client makes the handle of one of a retry topic itself.
    """
    record = decode_record(data, position)
    properties = format_properties({**record.property_map(), POP_CK: handle})
    if len(properties) > MAX_PROPERTIES_SIZE:
        return data
    grown = len(topic.encode()) - len(record.topic.encode()) + len(properties) - len(record.properties)
    return encode_record(record._replace(topic=topic, properties=properties, size=record.size + grown))
