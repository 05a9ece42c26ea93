"""All queues of a store: found on disk when it opens, made when a message needs one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from embermq.errors import SyncFailed, WrongQueueKind
from embermq.files.durable import sync_file, sync_file_system
from embermq.format.batch_entry import BatchEntry
from embermq.format.queue_entry import QueueEntry
from embermq.log.batch_queue import BatchQueue
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.extended_queue import ExtendedQueue
from embermq.log.open_chains import OpenChains
from embermq.log.placed import Placed
from embermq.log.queue_kind import QueueKind
from embermq.log.queue_table import QueueTable
from embermq.model.topic import is_light_queue
from embermq.store.database_queues import DatabaseQueue, DatabaseQueues

SIMPLE_FOLDER = "consumequeue"
BATCH_FOLDER = "batchconsumequeue"
EXTENDED_FOLDER = "consumequeue_ext"

MOST_SYNCS: Final = 256  # of single files; for more, the whole file system is synced at once

AnyQueue: TypeAlias = ConsumeQueue | BatchQueue | DatabaseQueue
FileQueue: TypeAlias = ConsumeQueue | BatchQueue


class QueueSizes(NamedTuple):
    """The file sizes of the three kinds of queue files."""

    simple: int
    batch: int
    extended: int


class Queues:
    """The queues by topic and number. One thread makes and changes them; any number may read."""

    def __init__(
        self,
        root: Path,
        sizes: QueueSizes,
        *,
        kind_of: Callable[[str], QueueKind | None],
        extended: bool = False,
        read_only: bool = False,
        table: QueueTable | None = None,
        most_files: int | None = None,
    ) -> None:
        """`most_files` are open at once; None: all there are."""
        self._root = root
        self._sizes = sizes
        self._kind_of = kind_of
        self._extended = extended
        self._read_only = read_only
        self.table = table
        self._queues: dict[tuple[str, int], FileQueue] = {}
        self._by_topic: dict[str, dict[int, FileQueue]] = {}
        self.open_chains = OpenChains(most_files)

    def load(self) -> None:
        """Open every queue that has a directory."""
        for kind, folder in ((QueueKind.SIMPLE, SIMPLE_FOLDER), (QueueKind.BATCH, BATCH_FOLDER)):
            for topic, queue, path in _queue_folders(self._root / folder):
                expected = self._kind_of(topic) or kind  # a topic that was just deleted may have left some
                if expected != kind:
                    raise WrongQueueKind(path, found=kind, expected=expected)
                self._add(topic, queue, kind)

    def find(self, topic: str, queue: int) -> FileQueue | None:
        return self._queues.get((topic, queue))

    def get_or_make(self, topic: str, queue: int) -> FileQueue:
        """The queue, made if this is the first message for it."""
        found = self._queues.get((topic, queue))
        return found or self._add(topic, queue, self._kind_of(topic) or QueueKind.SIMPLE)

    def put(self, items: Iterable[Placed]) -> None:
        """Add the entries of `items` to their queues. Raises as those do."""
        groups: dict[tuple[str, int], list[Placed]] = {}
        for item in items:
            groups.setdefault((item.topic, item.queue), []).append(item)
        with self.open_chains.lock:
            for (topic, number), group in groups.items():
                self.get_or_make(topic, number).put(group)

    def next_offsets(self, *, with_light: bool) -> Iterator[tuple[str, int, int]]:
        """Topic, number and next offset of all queues, or of all but the light ones."""
        for topic, queue, each in self.items():
            if with_light or not is_light_queue(topic):
                yield topic, queue, each.max_offset

    def numbers_of(self, topic: str) -> list[int]:
        """The queues of a topic."""
        return sorted(self._by_topic.get(topic, {}).copy())

    def items(self) -> Iterator[tuple[str, int, FileQueue]]:
        """Every queue with its topic and number, in their order."""
        for (topic, queue), each in sorted(self._queues.copy().items()):
            yield topic, queue, each

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def entry_count(self) -> int:
        """The sum of all next offsets: what a checkpoint remembers, to notice a queue that lost entries."""
        return sum(each.max_offset for each in self._all())

    @property
    def end_position(self) -> int:
        """The end of the last record that any queue points to."""
        return max((each.end_position for each in self._all()), default=0)

    def last_entry(self) -> QueueEntry | BatchEntry | None:
        """The entry of the newest record that any queue points to."""
        newest = max(self._all(), key=lambda each: each.end_position, default=None)
        return newest.last_entry() if newest is not None else None

    def cut(self, position: int) -> None:
        """Forget every entry for records at or after `position`; the log there was lost or is read again."""
        with self.open_chains.lock:
            for each in self._all():
                each.cut(position)

    def correct_min(self, log_begin: int) -> None:
        for each in self._all():
            each.correct_min(log_begin)

    def delete_before(self, log_begin: int) -> int:
        """Delete queue files that only point below the log's first position; returns how many."""
        with self.open_chains.lock:
            return sum(each.delete_before(log_begin) for each in self._all())

    def flush(self) -> None:
        """Bring every changed queue to the disk. Raises SyncFailed."""
        dirty = [each for each in self._all() if each.is_dirty]
        if len(dirty) > MOST_SYNCS:
            written = [place for each in dirty for place in each.unflushed()]
            self._sync_all()
            for file, end in written:
                file.note_flushed(end)
        for each in dirty:
            each.flush()
        # Last: one that was closed before its turn is among these.
        self._sync_closed()

    def sync(self) -> None:
        """Bring every queue to the disk, also what was found in memory only. Raises SyncFailed."""
        if len(self._queues) > MOST_SYNCS:
            self._sync_all()
            return
        for each in self._all():
            each.sync()

    def _sync_closed(self) -> None:
        paths = self.open_chains.take_unsynced()
        try:
            if len(paths) > MOST_SYNCS:
                self._sync_all()
                return
            for path in paths:
                with suppress(FileNotFoundError):  # deleted since
                    sync_file(path)
        except SyncFailed:
            self.open_chains.give_back(paths)
            raise
        except OSError as error:
            self.open_chains.give_back(paths)
            raise SyncFailed(self._root, error) from error

    def _sync_all(self) -> None:
        try:
            sync_file_system(self._root)
        except OSError as error:
            raise SyncFailed(self._root, error) from error

    def delete_topic(self, topic: str) -> None:
        """Destroy all queues of `topic`."""
        with self.open_chains.lock:
            gone = self._by_topic.pop(topic, {})
            for queue in gone:
                del self._queues[topic, queue]
            for each in gone.values():
                each.destroy()

    def close(self) -> None:
        for each in self._all():
            each.close()

    def _all(self) -> list[FileQueue]:
        """One step of the interpreter: the writer, who may add some, cannot get in between."""
        return list(self._queues.values())

    def _add(self, topic: str, queue: int, kind: QueueKind) -> FileQueue:
        added = self._queues[topic, queue] = self._open(topic, queue, kind)
        self._by_topic.setdefault(topic, {})[queue] = added
        return added

    def _open(self, topic: str, queue: int, kind: QueueKind) -> FileQueue:
        place = Path(topic, str(queue))
        opened: FileQueue
        if kind is QueueKind.BATCH:
            opened = BatchQueue(
                self._root / BATCH_FOLDER / place,
                topic,
                queue,
                file_size=self._sizes.batch,
                read_only=self._read_only,
                open_chains=self.open_chains,
            )
        else:
            opened = ConsumeQueue(
                self._root / SIMPLE_FOLDER / place,
                topic,
                queue,
                file_size=self._sizes.simple,
                extended=self._open_extended(topic, place),
                read_only=self._read_only,
                row=None if self.table is None else self.table.view(topic.encode(), queue),
                open_chains=self.open_chains,
            )
        opened.load()
        return opened

    def _open_extended(self, topic: str, place: Path) -> ExtendedQueue | None:
        folder = self._root / EXTENDED_FOLDER / place
        wanted = self._extended and not is_light_queue(topic)  # which have none in RocketMQ either
        if not wanted and not folder.is_dir():
            return None
        return ExtendedQueue(folder, file_size=self._sizes.extended, read_only=self._read_only)


def _queue_folders(folder: Path) -> Iterator[tuple[str, int, Path]]:
    if not folder.is_dir():
        return
    for topic in sorted(folder.iterdir()):
        if not topic.is_dir():
            continue
        for queue in sorted(topic.iterdir()):
            if queue.is_dir() and queue.name.isdecimal():
                yield topic.name, int(queue.name), queue


QueueStore: TypeAlias = Queues | DatabaseQueues
