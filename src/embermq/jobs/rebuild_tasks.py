"""What tasks do to rebuild queues. Each may be run again: it writes the same bytes to the same places.

    scatter      a range of the log: entries straight to their places in the files of simple queues, for a record says
                 its offset; keys, and what belongs to other queues, to files of the staging folder
    fill_queue   a queue whose entries depend on those before them, by the live store's own code, from staging files

Where two records claim one place, what `scatter` wrote is removed, and `fill_queue` decides as the store would. On a
file system that cannot write to any place of a file, as some that stand for an object store, all queues are staged and
filled so, each made elsewhere and copied as a whole.
Index files are made from staged keys: see `rebuild_index`.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from embermq.errors import CorruptRecord, StoreError
from embermq.format.queue_entry import ENTRY, QUEUE_ENTRY_SIZE
from embermq.jobs.log_ranges import LogRange, Piece, RangeWalk, Walked
from embermq.jobs.progress import Report
from embermq.jobs.rebuild_index import StagedKeys, write_once
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.dispatching import light_copies
from embermq.log.extended_queue import ExtendedQueue
from embermq.log.index_keys import rows_of
from embermq.log.placed import Placed
from embermq.log.queue_kind import QueueKind
from embermq.model.flags import NOT_QUEUED
from embermq.model.properties import INNER_MULTI_DISPATCH
from embermq.model.topic import is_light_queue, is_system_topic
from embermq.store.queues import EXTENDED_FOLDER, SIMPLE_FOLDER, FileQueue, Queues, QueueSizes

if TYPE_CHECKING:
    from embermq.kernels.found_records import FoundRecords

QueueKey = tuple[str, int]  # topic and number

_MULTI_DISPATCH: Final = INNER_MULTI_DISPATCH.encode()
_MOST_OPEN: Final = 256  # files
_ROW: Final = 6  # numbers that are staged of a record: offset, position, size, tags code, store time, count
_LAST_OFFSET: Final = 1 << 50  # of those that are written to their places at once
_ITEMS_AT_ONCE: Final = 4_096


class Kinds(NamedTuple):
    """Which topics there are, and what kind of queue they call for."""

    known: frozenset[str] | None  # None: all
    batch: frozenset[str]
    has_extended: bool  # simple queues have extended entries
    is_scattered: bool = True  # entries may be written to their places, in whatever order they come

    def is_wanted(self, topic: str) -> bool:
        """Whether there is such a topic, or it is none of the table's business."""
        return self.known is None or topic in self.known or is_light_queue(topic) or is_system_topic(topic)

    def is_plain(self, topic: str) -> bool:
        """Whether the place of an entry follows from its offset alone."""
        return self.is_scattered and topic not in self.batch and not (self.has_extended and not is_light_queue(topic))


class ScatterTask(NamedTuple):
    """One range of the log."""

    number: int
    part: LogRange
    output: str  # the directory with the queues
    staging: str
    kinds: Kinds
    delay_levels: tuple[int, ...]
    queue_file_size: int
    with_index: bool
    only: frozenset[QueueKey] | None  # stage the records of these queues, and do nothing else


class Run(NamedTuple):
    """Offsets of one queue without a gap: [begin, end)."""

    begin: int
    end: int


class Scattered(NamedTuple):
    """What `scatter` found in its range."""

    walked: Walked
    runs: dict[QueueKey, list[Run]]  # of queues whose entries were written, in the order of the log
    staged: dict[QueueKey, str]  # files with what `fill_queue` needs
    keys_file: str
    key_count: int
    unknown: dict[str, int]  # topics that there are no more, and how many records they have
    last_store_time: int


class FillQueueTask(NamedTuple):
    """One queue."""

    topic: str
    queue: int
    kind: QueueKind
    files: tuple[str, ...]  # staged, in the order of the log
    output: str
    sizes: QueueSizes
    has_extended: bool
    is_apart: bool  # it is made elsewhere, and copied to the output as a whole
    old: str  # a directory whose extended entries may be used again


def scatter(task: ScatterTask, report: Report) -> Scattered:
    """Write the queue entries of a range, and stage the rest."""
    with_keys = task.with_index and task.only is None
    walk = RangeWalk(task.part, delay_levels=task.delay_levels, with_keys=with_keys)
    sorter = _Sorter(task)
    try:
        for piece in walk.iter_pieces(report):
            sorter.take(piece)
        return sorter.finish(walk.result)
    finally:
        sorter.close()


class _Sorter:
    """Brings each record's entries to where they belong."""

    def __init__(self, task: ScatterTask) -> None:
        self._task = task
        self._writer = EntryWriter(Path(task.output, SIMPLE_FOLDER), task.queue_file_size)
        self._keys = StagedKeys(Path(task.staging), task.number) if task.with_index and task.only is None else None
        self._runs: dict[QueueKey, list[Run]] = {}
        self._rows: dict[QueueKey, array[int]] = {}
        self._unknown: dict[str, int] = {}
        self._last_store_time = 0

    def take(self, piece: Piece) -> None:
        if isinstance(piece, list):
            self._take_items(piece)
        else:
            self._take_found(piece)

    def finish(self, walked: Walked) -> Scattered:
        staged = {}
        for index, (key, rows) in enumerate(self._rows.items()):
            suffix = "only" if self._task.only is not None else "rows"
            path = Path(self._task.staging, f"{self._task.number}-{index}.{suffix}")
            write_once(path, rows.tobytes())
            staged[key] = str(path)
        keys_file, key_count = self._keys.finish() if self._keys is not None else ("", 0)
        return Scattered(walked, self._runs, staged, keys_file, key_count, self._unknown, self._last_store_time)

    def close(self) -> None:
        self._writer.close()
        if self._keys is not None:
            self._keys.close()

    def _take_items(self, items: list[Placed]) -> None:
        if self._keys is not None:
            self._keys.add_rows(rows_of(items, after=-1))
        self._last_store_time = items[-1].store_time
        for item in items:
            if item.sys_flag & NOT_QUEUED:
                continue
            self._take_item(item)
            if _MULTI_DISPATCH in item.properties:
                for copy in light_copies(item):
                    self._take_item(copy)

    def _take_item(self, item: Placed) -> None:
        key = item.topic, item.queue
        if not self._is_wanted(key, 1):
            return
        if self._goes_straight(key, item.offset):
            self._write(key, item.offset, ENTRY.pack(item.position, item.size, item.tags_code))
        else:
            self._stage(key, [item])

    def _take_found(self, records: FoundRecords) -> None:
        if self._keys is not None:
            self._keys.add_table(records.keys)
        self._last_store_time = records[len(records) - 1].store_time
        for run in records.iter_runs():
            key = run.topic, run.queue
            if not self._is_wanted(key, len(run.entries) // QUEUE_ENTRY_SIZE):
                continue
            if self._goes_straight(key, run.offset):
                self._write(key, run.offset, run.entries)
            else:
                self._stage(key, (Placed(*record) for record in records.records_of(run)))

    def _is_wanted(self, key: QueueKey, count: int) -> bool:
        only, topic = self._task.only, key[0]
        if only is not None:
            return key in only
        if self._task.kinds.is_wanted(topic):
            return True
        self._unknown[topic] = self._unknown.get(topic, 0) + count
        return False

    def _goes_straight(self, key: QueueKey, offset: int) -> bool:
        return self._task.only is None and self._task.kinds.is_plain(key[0]) and 0 <= offset < _LAST_OFFSET

    def _write(self, key: QueueKey, offset: int, entries: bytes) -> None:
        self._writer.write(key, offset, entries)
        end = offset + len(entries) // QUEUE_ENTRY_SIZE
        runs = self._runs.setdefault(key, [])
        if runs and runs[-1].end == offset:
            runs[-1] = Run(runs[-1].begin, end)
        else:
            runs.append(Run(offset, end))

    def _stage(self, key: QueueKey, items: Iterable[Placed]) -> None:
        rows = self._rows.setdefault(key, array("q"))
        for item in items:
            rows.extend((item.offset, item.position, item.size, item.tags_code, item.store_time, item.count))


class EntryWriter:
    """Writes entries of simple queues to the places that their offsets call for."""

    def __init__(self, folder: Path, file_size: int) -> None:
        self._folder = folder
        self._file_size = file_size
        self._open: OrderedDict[tuple[QueueKey, int], int] = OrderedDict()

    def write(self, key: QueueKey, offset: int, entries: bytes) -> None:
        """Write entries from `offset` on. Raises OSError."""
        place, at = offset * QUEUE_ENTRY_SIZE, 0
        while at < len(entries):
            start = place - place % self._file_size
            size = min(len(entries) - at, start + self._file_size - place)
            os.pwrite(self._descriptor(key, start), entries[at : at + size], place - start)
            place, at = place + size, at + size

    def close(self) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def _descriptor(self, key: QueueKey, start: int) -> int:
        found = self._open.get((key, start))
        if found is not None:
            self._open.move_to_end((key, start))
            return found
        if len(self._open) >= _MOST_OPEN:
            os.close(self._open.popitem(last=False)[1])
        folder = self._folder / key[0] / str(key[1])
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / f"{start:020}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._open[key, start] = descriptor
        os.ftruncate(descriptor, self._file_size)  # another task may have done so: the same
        return descriptor


def fill_queue(task: FillQueueTask, report: Report) -> int:
    """Make one queue from what was staged for it; how many entries it has."""
    if not task.is_apart:
        return _fill_queue(task, Path(task.output))
    with tempfile.TemporaryDirectory(prefix="embermq-queue-") as folder:
        end = _fill_queue(task, Path(folder))
        shutil.copytree(folder, task.output, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return end


def _fill_queue(task: FillQueueTask, output: Path) -> int:
    queues = Queues(output, task.sizes, kind_of=lambda _: task.kind, extended=task.has_extended)
    queue = queues.get_or_make(task.topic, task.queue)
    queue.destroy()  # what was written by a run of this task that did not end
    bits = _OldBits(task) if task.has_extended else None
    try:
        for items in _iter_staged(task):
            _put(queue, items if bits is None else [bits.add_to(item) for item in items])
        queue.flush()
        return queue.max_offset
    finally:
        queues.close()
        if bits is not None:
            bits.close()


def _put(queue: FileQueue, items: list[Placed]) -> None:
    """Put records as the live dispatcher does: one that cannot be is passed over."""
    while items:
        try:
            queue.put(items)
            return
        except CorruptRecord as error:
            bad = next(number for number, item in enumerate(items) if item.position == error.position)
            queue.put(items[:bad])
            items = items[bad + 1 :]


def _iter_staged(task: FillQueueTask) -> Iterator[list[Placed]]:
    for path in task.files:
        rows = array("q")
        rows.frombytes(Path(path).read_bytes())
        numbers = iter(rows)
        items = [
            Placed(task.topic, task.queue, offset, position, size, code, store_time, 0, b"", count)
            for offset, position, size, code, store_time, count in zip(*[numbers] * _ROW, strict=True)
        ]
        for at in range(0, len(items), _ITEMS_AT_ONCE):
            yield items[at : at + _ITEMS_AT_ONCE]


class _OldBits:
    """Filter bits of extended entries: they are not in the log, so they come from the queue as it was."""

    def __init__(self, task: FillQueueTask) -> None:
        place = Path(task.topic, str(task.queue))
        self._queue: ConsumeQueue | None = ConsumeQueue(
            Path(task.old, SIMPLE_FOLDER) / place,
            task.topic,
            task.queue,
            file_size=task.sizes.simple,
            extended=ExtendedQueue(
                Path(task.old, EXTENDED_FOLDER) / place, file_size=task.sizes.extended, read_only=True
            ),
            read_only=True,
        )
        try:
            self._queue.load()
        except (StoreError, OSError):  # broken: that may be why it is made again
            self._queue = None

    def add_to(self, item: Placed) -> Placed:
        old = self._queue.read_extended(item.offset) if self._queue is not None else None
        if old is None or (old.tags_code, old.store_time) != (item.tags_code, item.store_time):
            return item
        return item._replace(filter_bits=old.bits)

    def close(self) -> None:
        if self._queue is not None:
            self._queue.close()
