"""Messages of a slot as they are stored again: in their topic, or in the timer's if the slot was only a stop."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from embermq.broker.topics import BrokerTopics
from embermq.clock import Clock
from embermq.errors import CorruptRecord, OutOfRange
from embermq.format.record import MAX_PROPERTIES_SIZE, DraftFields, Record
from embermq.format.timer_unit import DELETE, ROLL
from embermq.model.properties import (
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER_ENQUEUE_MS,
    UNIQ_KEY,
    find_property,
    format_properties,
    parse_properties,
)
from embermq.model.topic import HALF_TOPIC, TIMER_TOPIC
from embermq.store.store import Store
from embermq.timers.slot_reading import Slot
from embermq.timers.timers import Timers, rolls_of

log = logging.getLogger(__name__)

_TOPIC, _QUEUE, _KEY = REAL_TOPIC.encode(), REAL_QUEUE.encode(), UNIQ_KEY.encode()
_HALF: Final = HALF_TOPIC.encode()
_ENQUEUED: Final = TIMER_ENQUEUE_MS.encode() + b"\x01"


class Redelivery(NamedTuple):
    """A message on its way out of the timer."""

    topic: str
    draft: DraftFields


class Batch(NamedTuple):
    """Some messages of a slot, and the index of the unit to go on with."""

    messages: list[Redelivery]
    end: int


class TimedMessages:
    """Makes drafts of the messages that units stand for."""

    def __init__(self, store: Store, timers: Timers, topics: BrokerTopics, clock: Clock) -> None:
        self._store = store
        self._timers = timers
        self._topics = topics
        self._clock = clock

    def read(self, slot: Slot, begin: int, *, most: int, most_bytes: int) -> Batch:
        """The messages of a slot from its unit `begin` on: of so many units at most, and no larger than needed."""
        found: list[Redelivery] = []
        size, index, now = 0, begin, b"%d" % self._clock.now_ms()
        end = min(begin + most, len(slot.places))
        while index < end and size < most_bytes:
            flags, write_time, position, record_size = self._timers.read_unit(slot.places[index])
            index += 1
            if flags & DELETE and not flags & ROLL:
                continue
            message = self._read_one(slot, flags, write_time, position, now)
            if message is not None:
                found.append(message)
                size += record_size
        return Batch(found, index)

    def _read_one(self, slot: Slot, flags: int, write_time: int, position: int, now: bytes) -> Redelivery | None:
        """The message of a unit; None, said aloud where it is a loss, if there is none to deliver."""
        try:
            record = self._store.read_record(position)
        except (OutOfRange, CorruptRecord) as error:
            log.error("timer message lost position=%d reason=%s", position, error)
            return None
        properties = record.properties
        topic, queue = find_property(properties, _TOPIC), find_property(properties, _QUEUE)
        if record.topic != TIMER_TOPIC or topic is None or queue is None or not queue.isdigit() or topic == _HALF:
            log.error("timer message dropped, it names no topic position=%d", position)
            return None
        times = b"TIMER_ENQUEUE_MS\x01%d\x02TIMER_DEQUEUE_MS\x01%b\x02" % (write_time, now)
        if flags & ROLL:
            times += b"TIMER_ROLL_TIMES\x01%d\x02" % (rolls_of(properties) + 1)
            return Redelivery(TIMER_TOPIC, _draft(record, TIMER_TOPIC.encode(), 0, _with_times(properties, times)))
        if slot.cancelled and topic + b"+" + (find_property(properties, _KEY) or b"") in slot.cancelled:
            return None
        name = topic.decode()
        if self._topics.find(name) is None:
            log.warning("timer message dropped, its topic was deleted topic=%s", name)
            return None
        return Redelivery(name, _draft(record, topic, int(queue), _with_times(properties, times)))


def _with_times(properties: bytes, times: bytes) -> bytes:
    """The properties as they are in the record, with ours behind them; without, where there is no room for them."""
    before = properties
    if _ENQUEUED in properties:  # it was put again on the way
        new = parse_properties(times)
        properties = format_properties({n: v for n, v in parse_properties(properties).items() if n not in new})
    whole = (properties if properties.endswith(b"\x02") else properties + b"\x02") + times
    return whole if len(whole) <= MAX_PROPERTIES_SIZE else before


def _draft(record: Record, topic: bytes, queue: int, properties: bytes) -> DraftFields:
    return (
        topic, queue, record.body, properties, record.flag, record.sys_flag, record.born_time,
        record.born_host, record.reconsume_times, 0,
    )  # fmt: skip
