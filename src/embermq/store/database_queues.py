"""All queues of a store in one RocksDB, as RocketMQ keeps them with storeType=defaultRocksDB.

A queue costs no file, and no memory while nobody uses it: what is asked is looked up. So there may be a million.
Everything else is as with queues in files: one thread puts, any number may read, and the log is the truth.

    dispatched   up to where the log is in the queues, as the database says; with the entries, in one write
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embermq.errors import SettingsError
from embermq.format.queue_database import (
    CHECKPOINT_KEY,
    Bound,
    Unit,
    decode_bound,
    decode_bound_key,
    decode_position,
    decode_unit,
    encode_bound,
    encode_position,
    encode_unit,
    max_key,
    min_key,
    offset_of,
    queue_end,
    queue_prefix,
    unit_key,
)
from embermq.format.queue_entry import PRE_BLANK_SIZE, QueueEntry
from embermq.log.open_chains import OpenChains
from embermq.log.placed import Placed
from embermq.log.queue_kind import QueueKind
from embermq.log.time_search import first_at_or_after, last_at_or_before
from embermq.model.topic import CHECKPOINT_TOPIC, is_light_queue

if TYPE_CHECKING:
    from embermq.log.queue_database import QueueDatabase

log = logging.getLogger(__name__)

COUNT_UNKNOWN: Final = -1  # in a checkpoint: whoever wants queues in files has to make them
_MOST_KNOWN: Final = 65_536  # queues whose end is kept in memory
_CLEANED_AT_ONCE: Final = 10_000  # queues
_BLANK: Final = QueueEntry(0, PRE_BLANK_SIZE, 0)


def no_rocksdict(error: ImportError) -> SettingsError:
    return SettingsError(
        f"queues in a RocksDB need rocksdict ({error}); install it with `pip install embermq[rocksdb]`"
    )


class DatabaseQueue:
    """One queue, looked up whenever it is asked. It keeps nothing itself."""

    kind = QueueKind.SIMPLE
    is_dirty = False

    __slots__ = ("_owner", "_prefix", "queue", "topic")

    def __init__(self, owner: DatabaseQueues, topic: str, queue: int) -> None:
        self._owner = owner
        self._prefix = queue_prefix(topic.encode(), queue)
        self.topic = topic
        self.queue = queue

    @property
    def max_offset(self) -> int:
        """The next offset to be given."""
        last = self._owner.last_of(self.topic, self.queue)
        return 0 if last is None else last.offset + 1

    @property
    def min_offset(self) -> int:
        """The first offset whose record is still in the log, else the next one."""
        return self._owner.first_offset(self.topic, self.queue)

    @property
    def end_position(self) -> int:
        """The end of the last record in the log that the queue knows."""
        entry = self.last_entry()
        return 0 if entry is None else entry.position + entry.size

    def last_entry(self) -> QueueEntry | None:
        last = self._owner.last_of(self.topic, self.queue)
        unit = None if last is None else self.unit_at(last.offset)
        return None if unit is None else QueueEntry(*unit[:3])

    def read(self, offset: int, count: int) -> list[QueueEntry]:
        """The entries of [offset, offset + count), up to the last there is; blank ones where a message is missing."""
        end = min(self.max_offset, offset + count)
        if offset < self.min_offset or offset >= end:
            return []
        entries: list[QueueEntry] = []
        for at, unit in self.units(offset, end):
            entries += [_BLANK] * (at - offset - len(entries))
            entries.append(QueueEntry(*unit[:3]))
        return entries + [_BLANK] * (end - offset - len(entries))

    def units(self, begin: int, end: int) -> Iterator[tuple[int, Unit]]:
        """The units there are of [begin, end), with their offsets."""
        first, last = unit_key(self._prefix, begin), unit_key(self._prefix, end)
        for key, value in self._owner.database.units(first, last):
            yield offset_of(key), decode_unit(value)

    def unit_at(self, offset: int) -> Unit | None:
        data = self._owner.database.find_unit(unit_key(self._prefix, offset))
        return None if data is None else decode_unit(data)

    def read_extended(self, offset: int) -> None:
        """There are no extended entries."""

    def find_offset(
        self, time_ms: int, *, upper: bool, time_at: Callable[[QueueEntry], int | None] | None = None
    ) -> int:
        """The offset of the first message stored at `time_ms` or later, or the next offset if there is none.

        With `upper`, of the last message stored until then, or the smallest offset if there is none. Units know
        their times, so `time_at` is not asked.
        """
        begin, end = self.min_offset, self.max_offset

        def time_of(offset: int) -> int | None:
            unit = self.unit_at(offset)
            return None if unit is None else unit.store_time

        if not upper:
            return first_at_or_after(time_ms, begin, end, time_of)
        return max(begin, last_at_or_before(time_ms, begin, end, time_of))


class DatabaseQueues:
    """The queues by topic and number. One thread puts; any number may read."""

    table = None  # that kernels write entries by: there is no memory of queues that they could write to

    def __init__(self, folder: Path) -> None:
        """Open the database, or make it. Raises SettingsError without rocksdict, StoreLocked and DiskFailed."""
        try:
            from embermq.log.queue_database import QueueDatabase
        except ImportError as error:
            raise no_rocksdict(error) from error
        folder.mkdir(parents=True, exist_ok=True)
        self.database: QueueDatabase = QueueDatabase(folder)
        self.open_chains = OpenChains()  # its lock is taken by who puts
        self.dispatched = 0
        self._count = 0
        self._log_begin = 0
        self._last: dict[tuple[str, int], Bound] = {}
        self._first: dict[tuple[str, int], Bound] = {}
        self._newest: tuple[str, int] | None = None  # the queue with the last record of all, when they were loaded
        self._cleaned = b""  # up to this key, old units are deleted

    def load(self) -> None:
        """Find out how many there are, and what they hold."""
        found = self.database.find_bound(CHECKPOINT_KEY)
        self.dispatched = 0 if found is None else decode_position(found)
        newest = Bound(-1, -1)
        self._count = 0
        for key, value in self.database.bounds():
            topic, queue, is_max = decode_bound_key(key)
            if not is_max or topic == CHECKPOINT_TOPIC:
                continue
            self._count += 1
            bound = decode_bound(value)
            if bound.position > newest.position:
                newest, self._newest = bound, (topic, queue)

    def find(self, topic: str, queue: int) -> DatabaseQueue | None:
        return None if self.last_of(topic, queue) is None else DatabaseQueue(self, topic, queue)

    def get_or_make(self, topic: str, queue: int) -> DatabaseQueue:
        return DatabaseQueue(self, topic, queue)

    def last_of(self, topic: str, queue: int) -> Bound | None:
        """The last offset of a queue; None if it has none."""
        known = self._last.get((topic, queue))
        if known is not None:
            return known
        data = self.database.find_bound(max_key(topic.encode(), queue))
        return None if data is None else decode_bound(data)

    def first_offset(self, topic: str, queue: int) -> int:
        """The first offset of a queue whose record is still in the log, else its next one; 0 if it has none."""
        last = self.last_of(topic, queue)
        if last is None:
            return 0
        if last.position < self._log_begin:
            return last.offset + 1
        first = self._first.get((topic, queue))
        if first is None or not self._log_begin <= first.position <= last.position:
            first = self._find_from(DatabaseQueue(self, topic, queue), last, self._log_begin) or last
            if len(self._first) >= _MOST_KNOWN:
                self._first.clear()
            self._first[topic, queue] = first
        return first.offset

    def put(self, items: Iterable[Placed]) -> None:
        """Add the entries of `items` to their queues, at once; what is there already stays. Raises DiskFailed."""
        units: dict[bytes, bytes] = {}
        ends: dict[tuple[str, int], Bound] = {}
        gone: list[tuple[bytes, bytes]] = []
        dispatched = self.dispatched
        for item in items:
            key = item.topic, item.queue
            last = ends.get(key) or self.last_of(*key)
            dispatched = max(dispatched, item.position + item.size)
            prefix = queue_prefix(item.topic.encode(), item.queue)
            if last is not None and item.offset <= last.offset:
                if not self._is_missing(item, prefix, units):
                    continue
                if item.offset == 0:  # the topic was deleted and is used again: what comes later counts
                    gone.append((prefix, queue_end(prefix)))
                    last = None
            units[unit_key(prefix, item.offset)] = encode_unit(
                Unit(item.position, item.size, item.tags_code, item.store_time)
            )
            if last is None or item.offset > last.offset:
                ends[key] = Bound(item.position, item.offset + item.count - 1)
        self._count += sum(self.last_of(*key) is None for key in ends)
        bounds = [(max_key(topic.encode(), queue), encode_bound(bound)) for (topic, queue), bound in ends.items()]
        self.database.write(units.items(), [*bounds, (CHECKPOINT_KEY, encode_position(dispatched))], gone=gone)
        if len(self._last) >= _MOST_KNOWN:
            self._last.clear()
        self._last.update(ends)
        self.dispatched = dispatched

    def next_offsets(self, *, with_light: bool) -> Iterator[tuple[str, int, int]]:
        """Topic, number and next offset of all queues, or of all but the light ones."""
        for topic, queue in self._names():
            last = self.last_of(topic, queue) if with_light or not is_light_queue(topic) else None
            if last is not None:
                yield topic, queue, last.offset + 1

    def numbers_of(self, topic: str) -> list[int]:
        """The queues of a topic."""
        begin = max_key(topic.encode(), 0)
        numbers = []
        for key, _ in self.database.bounds(begin):
            if not key.startswith(begin[:-4]):
                break
            numbers.append(decode_bound_key(key).queue)
        return numbers if topic != CHECKPOINT_TOPIC else []

    def items(self) -> Iterator[tuple[str, int, DatabaseQueue]]:
        """Every queue with its topic and number, in their order."""
        for topic, queue in sorted(self._names()):
            yield topic, queue, DatabaseQueue(self, topic, queue)

    def __len__(self) -> int:
        return self._count

    @property
    def entry_count(self) -> int:
        """Nothing that a checkpoint could hold against queues in files."""
        return COUNT_UNKNOWN

    def last_entry(self) -> QueueEntry | None:
        """The entry of the newest record that any queue pointed to when they were loaded."""
        return None if self._newest is None else DatabaseQueue(self, *self._newest).last_entry()

    def cut(self, position: int) -> None:
        """Forget every entry for records at or after `position`; the log there was lost or is read again."""
        if position >= self.dispatched:
            return
        self._last.clear()
        self._first.clear()
        for topic, queue in list(self._names()):
            last = self.last_of(topic, queue)
            if last is not None and last.position >= position:
                self._cut_queue(DatabaseQueue(self, topic, queue), last, position)
        self.database.write((), [(CHECKPOINT_KEY, encode_position(position))])
        self.dispatched = position

    def correct_min(self, log_begin: int) -> None:
        """Know what the first position of the log is; what lies before it is asked for no more."""
        self._log_begin = log_begin

    def delete_before(self, log_begin: int) -> int:
        """Delete entries that lead to before the log's first position, of some thousand queues at a time.

        Returns of how many queues some went.
        """
        self._log_begin = log_begin
        gone, bound = [], b""
        for number, (key, _) in enumerate(self.database.bounds(self._cleaned)):
            bound = key
            if number == _CLEANED_AT_ONCE:
                break
            name = decode_bound_key(key)
            if not name.is_max or name.topic == CHECKPOINT_TOPIC:
                continue
            prefix = queue_prefix(name.topic.encode(), name.queue)
            first = next(self.database.units(prefix, queue_end(prefix)), None)
            if first is not None and decode_unit(first[1]).position < log_begin:
                gone.append((prefix, unit_key(prefix, self.first_offset(name.topic, name.queue))))
        else:
            bound = b""
        self._cleaned = bound
        if gone:
            self.database.write((), (), gone=gone)
        return len(gone)

    def flush(self) -> None:
        """Bring every changed queue to the disk. Raises SyncFailed."""
        self.database.flush()

    sync = flush

    def delete_topic(self, topic: str) -> None:
        """Destroy all queues of `topic`."""
        numbers = self.numbers_of(topic)
        name = topic.encode()
        prefixes = [queue_prefix(name, queue) for queue in numbers]
        bounds = [key_of(name, queue) for queue in numbers for key_of in (max_key, min_key)]
        self.database.forget(bounds, [(prefix, queue_end(prefix)) for prefix in prefixes])
        self._count -= len(numbers)
        for queue in numbers:
            self._last.pop((topic, queue), None)
            self._first.pop((topic, queue), None)

    def close(self) -> None:
        self.database.close()

    def _names(self) -> Iterator[tuple[str, int]]:
        """All queues, in the order of their keys."""
        for key, _ in self.database.bounds():
            topic, queue, is_max = decode_bound_key(key)
            if is_max and topic != CHECKPOINT_TOPIC:
                yield topic, queue

    def _is_missing(self, item: Placed, prefix: bytes, units: dict[bytes, bytes]) -> bool:
        """Whether an offset that was given before has no entry, or one that must give way to that of `item`."""
        key = unit_key(prefix, item.offset)
        data = units.get(key) or self.database.find_unit(key)
        if data is None:
            return True
        position = decode_unit(data).position
        if position == item.position:
            return False
        if item.offset > 0:
            log.error("offset taken, record passed over topic=%s offset=%d", item.topic, item.offset)
        return item.offset == 0 and position < item.position

    def _find_from(self, queue: DatabaseQueue, last: Bound, position: int) -> Bound | None:
        """The first entry of `queue` whose record lies at or after `position`."""
        low, high = 0, last.offset + 1  # entries before `low` lie before it, those from `high` on do not
        while low < high:
            middle = (low + high) // 2
            found = next(queue.units(middle, high), None)
            if found is not None and found[1].position < position:
                low = found[0] + 1
            else:
                high = middle
        offset, unit = next(queue.units(low, last.offset + 1), (0, None))
        return None if unit is None else Bound(unit.position, offset)

    def _cut_queue(self, queue: DatabaseQueue, last: Bound, position: int) -> None:
        name, number = queue.topic.encode(), queue.queue
        prefix = queue_prefix(name, number)
        first = self._find_from(queue, last, position)
        begin = unit_key(prefix, 0 if first is None else first.offset)
        kept = self.database.last_unit(prefix, begin)
        if kept is None:
            self._count -= 1
            self.database.forget([max_key(name, number), min_key(name, number)], [(begin, queue_end(prefix))])
        else:
            bound = Bound(decode_unit(kept[1]).position, offset_of(kept[0]))
            self.database.write((), [(max_key(name, number), encode_bound(bound))], gone=[(begin, queue_end(prefix))])
