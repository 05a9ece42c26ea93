"""Timers: messages of the timer's topic enter the wheel, and come out of it when their slot is read.

    rmq_sys_wheel_timer, queue 0 ─enqueue─→ units, wheel ─next_slot─→ chains of units ─finish─→ read time + 1 step
                       ↑                                       │
                       └────── put again, if it is a stop ─────┴─→ its topic

All of it is derived from the log. It is used in one thread, that of the event loop; only what `flush` does with a
snapshot may run in another. Nothing is read from a slot before everything visible is enqueued, so that a message that
cancels another is always seen in time.
"""

from __future__ import annotations

import heapq
import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from embermq.clock import Clock
from embermq.errors import CorruptRecord, OutOfRange
from embermq.format.record import Scanned, scan_record
from embermq.format.timer_check import TimerCheck
from embermq.format.timer_unit import DEFAULT, DELETE, ROLL, TIMER_UNIT, TIMER_UNIT_SIZE
from embermq.model.properties import (
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    UNIQ_KEY,
    find_property,
)
from embermq.model.topic import TIMER_TOPIC
from embermq.store.store import Store
from embermq.timers.progress import TIMER_CHECK_FILE, TimerProgress
from embermq.timers.recovery import recover_timers
from embermq.timers.slot_reading import Follow, Slot, SlotReading
from embermq.timers.times import floor_time, place_of
from embermq.timers.unit_log import UnitLog
from embermq.timers.waiting import TIMER_METRICS_FILE, WaitingCounts
from embermq.timers.wheel import TimerWheel

if TYPE_CHECKING:
    from embermq.timers.compiled import CompiledEnqueue

log = logging.getLogger(__name__)

WHEEL_FILE: Final = "timerwheel"
UNITS_FOLDER: Final = "timerlog"
MOST_AT_ONCE: Final = 512
LEAST_FAST: Final = 16  # messages; fewer are not worth the call of a kernel
_OUT: Final = TIMER_OUT_MS.encode()
_TOPIC: Final = REAL_TOPIC.encode()
_CANCELS: Final = TIMER_DEL_UNIQKEY.encode()
_ROLLS: Final = TIMER_ROLL_TIMES.encode()
_KEY: Final = UNIQ_KEY.encode()
_END_OF_TIME: Final = 2**62


@dataclass(frozen=True, slots=True)
class TimerForm:
    """How the timer's files are made."""

    precision: int  # ms of a step
    window: int  # ms that a message may lie ahead in the wheel
    file_size: int  # of the timer log


_Found = tuple[int, int, int]  # the time of a slot, flags, the hash of a topic


class _Chain:
    """The units that are being added to one slot."""

    def __init__(self, last: int) -> None:
        self.is_new = last < 0
        self.last = last
        self.first = -1  # of those that are added
        self.counts: Counter[int] = Counter()
        self.units = 0

    def add(self, place: int, code: int, change: int) -> None:
        if self.first < 0:
            self.first = place
        self.last = place
        self.counts[code] += change
        self.units += 1


class Snapshot(NamedTuple):
    """What a flush brings onto the disk."""

    check: TimerCheck
    slots: Mapping[int, bytes]
    metrics: bytes | None
    log_end: int  # of the log behind all that was delivered


class Timers:
    """The messages that wait."""

    def __init__(self, store: Store, form: TimerForm, *, clock: Clock) -> None:
        self._store = store
        self.form = form
        self._clock = clock
        config = store.path / "config"
        self.waiting = WaitingCounts(config / TIMER_METRICS_FILE)
        self._progress = TimerProgress(config / TIMER_CHECK_FILE)
        self._wheel = TimerWheel(store.path / WHEEL_FILE, precision=form.precision)
        self._units = UnitLog(store.path / UNITS_FOLDER, form.file_size)
        self._wheel.load()
        self._units.load()
        self._version = self._progress.check.version
        found = recover_timers(self._units, self._wheel, self._progress.check, store, now_ms=clock.now_ms())
        self.read_time = found.read_time
        self.queue_offset = found.queue_offset
        self._known_offset = found.known_offset
        self._rolled = self._find_rolled(found.known_offset)
        self._is_changed = found.is_changed
        self._delivered_end = 0
        self._follow: Follow | None = None
        self._compiled: CompiledEnqueue | None = None  # where kernels are
        self.enqueued = self.dequeued = 0  # messages since the start
        self._slots = [time for time, _ in self._wheel.iter_from(self.read_time)]
        heapq.heapify(self._slots)
        self._reading = self.read_time  # slots before it take no more units
        recovered = store.state().recovered
        if found.is_changed or not recovered.clean:
            self._recount()

    def enqueue(self) -> int:
        """Bring the next messages of the timer's topic into the wheel; returns how many there were.

        Raises OSError when the disk is full; nothing is changed then.
        """
        low, _ = self._store.offsets(TIMER_TOPIC, queue=0)
        offset = max(self.queue_offset, low)  # what expired before it was enqueued is gone
        if (count := self._enqueue_fast(offset)) > 0:
            return count
        entries = self._store.entries(TIMER_TOPIC, queue=0, offset=offset, limit=MOST_AT_ONCE)
        if not entries:
            return 0
        self._catch_up()
        write_ms = floor_time(self._clock.now_ms(), self.form.precision)
        chains: dict[int, _Chain] = {}  # by the times of slots
        end = self._units.end
        try:
            for number, entry in enumerate(entries):
                record = self._find(entry.position, entry.size)
                is_known = offset + number < self._known_offset
                found = None if record is None else self._place(record, write_ms, is_known=is_known)
                if record is not None and found is not None:
                    self._add(chains, found, record, write_ms)
            if chains:
                self._units.commit()
        except BaseException:
            self._units.discard(end)
            raise
        self._link(chains)
        self.queue_offset = offset + len(entries)
        self._is_changed = True
        return len(entries)

    def _enqueue_fast(self, offset: int) -> int:
        """The same by kernels, for usual messages from `offset` on; 0 if the first is not, or there is none."""
        compiled = self._compiled
        if compiled is None or offset < self._known_offset or self.behind < LEAST_FAST:
            return 0
        self._catch_up()
        write_ms = floor_time(self._clock.now_ms(), self.form.precision)
        waits = compiled.read(offset, write_ms, self.waiting.name)
        end, place = self._units.end, self._units.next_place()
        count = 0 if waits is None else min(len(waits), self._units.room())
        if waits is None or not count:
            self._units.discard(end)
            return 0
        found = compiled.units(waits[:count], place, write_ms=write_ms, read_ms=self._reading, last_of=self._last_of)
        chains: dict[int, _Chain] = {}
        for time_ms, first, last, units in found.runs:
            chain = chains[time_ms] = _Chain(self._last_of(time_ms))
            chain.first, chain.last, chain.units = first, last, units
        for (time_ms, code), messages in found.counts.items():
            chains[time_ms].counts[code] += messages
        try:
            self._units.add_many(found.units)
            self._units.commit()
        except BaseException:
            self._units.discard(end)
            raise
        self._link(chains)
        self.queue_offset = offset + count
        self._is_changed = True
        return count

    def _last_of(self, time_ms: int) -> int:
        """The place of the last unit of a slot; -1 if it has none."""
        slot = self._wheel.find(time_ms)
        return -1 if slot is None else slot.last

    @property
    def behind(self) -> int:
        """How many messages wait to be enqueued."""
        return max(self._store.offsets(TIMER_TOPIC, queue=0)[1] - self.queue_offset, 0)

    def next_time(self) -> int | None:
        """When the next slot with messages may be read, in ms; None if nothing waits."""
        return self._slots[0] + self.form.precision if self._slots else None

    def next_slot(self) -> SlotReading | None:
        """The next slot that is due; None if none is. Call it when everything is enqueued.

        It takes no more units from then on, so that it can be read in pieces.
        """
        due = self.next_time()
        if due is None or self._clock.now_ms() < due:
            return None
        self._reading = max(self._reading, due)
        return self._reading_of(self._slots[0])

    def read_unit(self, place: int) -> tuple[int, int, int, int]:
        """Of a unit that is due: its flags, when it was written, its record and that record's size."""
        found = self._units.position_at(place)
        if found is None:
            raise OutOfRange(self._store.path / UNITS_FOLDER, asked=place, begin=self._units.begin, end=self._units.end)
        _, flags, write_time, position, size, _ = found
        return flags, write_time, position, size

    def use_kernels(self) -> None:
        """Have kernels enqueue and follow chains from now on; they must be loaded."""
        from embermq.timers.compiled import CompiledChain, CompiledEnqueue

        self._follow = CompiledChain(self._units).follow
        self._compiled = CompiledEnqueue(self._store, precision=self.form.precision, window=self.form.window)

    def memory_of(self, place: int) -> tuple[tuple[int, memoryview], tuple[int, memoryview]] | None:
        """The files of a unit and its record: where each begins, and what can be read of it; None if one is gone."""
        units, unit = self._units.select_file(place), self._units.position_at(place)
        if units is None or unit is None:
            return None
        file = self._store.log_files().find(unit[3])
        return None if file is None else (units, (file.start, file.view[: file.committed]))

    def finish(self, slot: Slot, log_end: int) -> None:
        """All of a slot was delivered, before position `log_end` of the log."""
        heapq.heappop(self._slots)
        now = self._clock.now_ms()
        for code, count in slot.counts.items():
            self.waiting.change(code, -count, now)
        self.dequeued += len(slot.places)
        self.read_time = max(self.read_time, slot.time_ms + self.form.precision)
        self._delivered_end = max(self._delivered_end, log_end)
        self._is_changed = True

    def note_read(self) -> None:
        """Write down how far slots were read. Only where what was delivered is on disk already. Raises OSError."""
        self._progress.note_read(self.read_time)

    def count_at(self, time_ms: int) -> int:
        """How many messages wait in the slot of a time."""
        slot = self._wheel.find(time_ms)
        return slot.messages if slot is not None and time_ms >= self.read_time else 0

    def iter_waiting(self) -> Iterator[tuple[int, int]]:
        """The slots with messages: their time in ms, and how many."""
        for time_ms in self._slots:
            slot = self._wheel.find(time_ms)
            if slot is not None:
                yield time_ms, slot.messages

    def check(self) -> TimerCheck:
        """How far it is, whether that is on disk or not."""
        offset = self.queue_offset
        return TimerCheck(self.read_time, self._units.end, offset, offset, self._version)

    def snapshot(self) -> Snapshot | None:
        """What is to be brought onto the disk; None if nothing changed."""
        if not self._is_changed:
            return None
        self._is_changed = False
        self._version = self._version.next(self._clock.now_ms())
        metrics = self.waiting.take_changes(self._clock.now_ms())
        return Snapshot(self.check(), self._wheel.take_changes(), metrics, self._delivered_end)

    def flush(self, snapshot: Snapshot) -> None:
        """Bring a snapshot onto the disk, in the order in which one part relies on another. May run in a thread.

        Raises OSError, SyncFailed and FlushTimeout; give the snapshot back then.
        """
        self._store.wait_for_disk(snapshot.log_end)
        self._units.flush()
        self._wheel.save(snapshot.slots)
        self._progress.save(snapshot.check)
        if snapshot.metrics is not None:
            self.waiting.save(snapshot.metrics)

    def give_back(self, snapshot: Snapshot) -> None:
        """A flush failed: the next one brings what this one did not."""
        self._wheel.give_back(snapshot.slots)
        self._is_changed = True

    def expire(self) -> None:
        """Delete files of units whose records the log no longer has."""
        self._units.delete_before(self._store.log_files().begin)

    def close(self) -> None:
        self._units.close()

    def _catch_up(self) -> None:
        """Move the read time over slots that have nothing in them; or back, if the clock was set back."""
        now = floor_time(self._clock.now_ms(), self.form.precision)
        if now < self.read_time:
            self._step_back(now)
        else:
            self.read_time = max(self.read_time, min(now, self._slots[0] if self._slots else _END_OF_TIME))
            self._reading = max(self._reading, self.read_time)

    def _step_back(self, now: int) -> None:
        """Slots between `now` and the read time were delivered: they are emptied and used again."""
        for time_ms, slot in list(self._wheel.iter_from(now)):
            if time_ms < self.read_time:
                self._wheel.set(slot.time * self.form.precision, None)
        log.warning("clock was set back timer=%d now=%d", self.read_time, now)
        self.read_time = self._reading = now
        self._progress.set_back(now)

    def _find(self, position: int, size: int) -> Scanned | None:
        try:
            return scan_record(self._store.select_record(position, size), 0, position, check_body=False)
        except (OutOfRange, CorruptRecord) as error:
            log.error("timer message lost position=%d reason=%s", position, error)
            return None

    def _add(self, chains: dict[int, _Chain], found: _Found, record: Scanned, write_ms: int) -> None:
        """Add the unit of a message to the chain of its slot."""
        time_ms, flags, code = found
        chain = chains.get(time_ms)
        if chain is None:
            chain = chains[time_ms] = _Chain(self._last_of(time_ms))
        place = self._units.next_place()
        unit = TIMER_UNIT.pack(
            TIMER_UNIT_SIZE, chain.last, flags, write_ms, time_ms - write_ms, record.position, record.size, code, 0
        )
        self._units.add(unit)
        chain.add(place, code, -1 if flags & DELETE else 1)

    def _place(self, record: Scanned, write_ms: int, *, is_known: bool) -> _Found | None:
        """The slot of a message, its flags and its topic's hash; None if there is nothing to wait for."""
        out, topic = find_property(record.properties, _OUT), find_property(record.properties, _TOPIC)
        if out is None or not out.isdigit() or topic is None:
            log.error("timer message dropped, it tells no time or no topic position=%d", record.position)
            return None
        precision, window = self.form.precision, self.form.window
        slot_ms = floor_time(min(int(out), _END_OF_TIME), precision)
        flags = DEFAULT
        if find_property(record.properties, _CANCELS) is not None:
            flags |= DELETE
        if is_known and (
            slot_ms < self.read_time or rolls_of(record.properties) < self._rolled.get(_name_of(record), 0)
        ):
            return None  # it was delivered, or put again
        place = place_of(slot_ms, write_ms=write_ms, read_ms=self._reading, window=window, precision=precision)
        if place.is_roll:
            flags |= ROLL
        code = self.waiting.name(topic.decode())
        return place.time_ms, flags, code

    def _find_rolled(self, end: int) -> dict[bytes, int]:
        """How often messages before an offset of the timer's topic were put again, where that ever happened."""
        rolled: dict[bytes, int] = {}
        offset = self.queue_offset
        while offset < end:
            entries = self._store.entries(TIMER_TOPIC, queue=0, offset=offset, limit=MOST_AT_ONCE)
            if not entries:
                break
            for entry in entries:
                record = self._find(entry.position, entry.size)
                if record is not None and (rolls := rolls_of(record.properties)):
                    rolled[_name_of(record)] = rolls
            offset += len(entries)
        return rolled

    def _link(self, chains: Mapping[int, _Chain]) -> None:
        """Have the wheel know what was added."""
        now = self._clock.now_ms()
        for time_ms, chain in chains.items():
            if chain.is_new:
                heapq.heappush(self._slots, time_ms)
            self._wheel.link(time_ms, chain.first, chain.last, sum(chain.counts.values()))
            for code, count in chain.counts.items():
                self.waiting.change(code, count, now)
            self.enqueued += chain.units

    def _reading_of(self, time_ms: int) -> SlotReading:
        slot = self._wheel.find(time_ms)
        assert slot is not None
        return SlotReading(self._units, time_ms, slot.last, cancelled_by=self._cancelled_by, follow=self._follow)

    def _cancelled_by(self, position: int, size: int) -> Iterator[bytes]:
        """What the message at a position cancels: one of its own topic, never of one that its sender may not touch."""
        record = self._find(position, size)
        if record is not None:
            topic, key = (find_property(record.properties, name) for name in (_TOPIC, _CANCELS))
            if topic is not None and key is not None and key.startswith(topic + b"+"):
                yield key

    def _recount(self) -> None:
        """Count what waits for each topic, from all units of slots that are not read."""
        for topic in self._store.topics():
            self.waiting.name(topic)
        counts: Counter[int] = Counter()
        for time_ms in self._slots:
            reading = self._reading_of(time_ms)
            reading.go_on()
            counts.update(reading.slot().counts)
        self.waiting.recount(counts, self._clock.now_ms())
        self._is_changed = True


def rolls_of(properties: bytes) -> int:
    """How often a message was put into the wheel again."""
    text = find_property(properties, _ROLLS) or b""
    return int(text) if text.isdigit() and len(text) <= 9 else 0


def _name_of(record: Scanned) -> bytes:
    """What tells a message from all others: its topic, what it cancels if anything, and its unique key."""
    return b"+".join(find_property(record.properties, name) or b"" for name in (_TOPIC, _CANCELS, _KEY))
