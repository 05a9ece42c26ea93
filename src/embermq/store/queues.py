"""All queues of a store: found on disk when it opens, made when a message needs one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

from embermq.errors import WrongQueueKind
from embermq.files.open_files import allow_open_files
from embermq.format.batch_entry import BatchEntry
from embermq.format.queue_entry import QueueEntry
from embermq.log.batch_queue import BatchQueue
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.extended_queue import ExtendedQueue
from embermq.log.queue_kind import QueueKind
from embermq.log.queue_table import QueueTable
from embermq.model.topic import is_light_queue

SIMPLE_FOLDER = "consumequeue"
BATCH_FOLDER = "batchconsumequeue"
EXTENDED_FOLDER = "consumequeue_ext"

_QUEUES_AT_ONCE = 128  # between two looks at the limit of open files
_DESCRIPTORS = 4  # of a queue: two for each file, and many have two files
_SPARE_DESCRIPTORS = 1024  # for all the rest, and for the queues until the next look

AnyQueue: TypeAlias = ConsumeQueue | BatchQueue


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
    ) -> None:
        self._root = root
        self._sizes = sizes
        self._kind_of = kind_of
        self._extended = extended
        self._read_only = read_only
        self.table = table
        self._queues: dict[tuple[str, int], AnyQueue] = {}
        self._making = threading.Lock()

    def load(self) -> None:
        """Open every queue that has a directory."""
        for kind, folder in ((QueueKind.SIMPLE, SIMPLE_FOLDER), (QueueKind.BATCH, BATCH_FOLDER)):
            for topic, queue, path in _queue_folders(self._root / folder):
                expected = self._kind_of(topic) or kind  # a topic that was just deleted may have left some
                if expected != kind:
                    raise WrongQueueKind(path, found=kind, expected=expected)
                self._queues[topic, queue] = self._open(topic, queue, kind)

    def find(self, topic: str, queue: int) -> AnyQueue | None:
        return self._queues.get((topic, queue))

    def get_or_make(self, topic: str, queue: int) -> AnyQueue:
        """The queue, made if this is the first message for it."""
        found = self._queues.get((topic, queue))
        if found is not None:
            return found
        with self._making:
            made = self._open(topic, queue, self._kind_of(topic) or QueueKind.SIMPLE)
            # Readers iterate over the table without a lock, so it is replaced, not changed.
            self._queues = {**self._queues, (topic, queue): made}
        return made

    def items(self) -> Iterator[tuple[str, int, AnyQueue]]:
        """Every queue with its topic and number, in their order."""
        for (topic, queue), each in sorted(self._queues.items()):
            yield topic, queue, each

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def entry_count(self) -> int:
        """The sum of all next offsets: what a checkpoint remembers, to notice a queue that lost entries."""
        return sum(each.max_offset for each in self._queues.values())

    @property
    def end_position(self) -> int:
        """The end of the last record that any queue points to."""
        return max((each.end_position for each in self._queues.values()), default=0)

    def last_entry(self) -> QueueEntry | BatchEntry | None:
        """The entry of the newest record that any queue points to."""
        newest = max(self._queues.values(), key=lambda each: each.end_position, default=None)
        return newest.last_entry() if newest is not None else None

    def cut(self, position: int) -> None:
        """Forget every entry for records at or after `position`; the log there was lost or is read again."""
        for each in self._queues.values():
            each.cut(position)

    def correct_min(self, log_begin: int) -> None:
        for each in self._queues.values():
            each.correct_min(log_begin)

    def delete_before(self, log_begin: int) -> int:
        """Delete queue files that only point below the log's first position; returns how many."""
        return sum(each.delete_before(log_begin) for each in self._queues.values())

    def flush(self) -> None:
        """Bring every changed queue to the disk."""
        for each in list(self._queues.values()):
            each.flush()

    def sync(self) -> None:
        """Bring every queue to the disk, also what was found in memory only."""
        for each in self._queues.values():
            each.sync()

    def delete_topic(self, topic: str) -> None:
        """Destroy all queues of `topic`."""
        gone = {key: each for key, each in self._queues.items() if key[0] == topic}
        self._queues = {key: each for key, each in self._queues.items() if key[0] != topic}
        for each in gone.values():
            each.destroy()

    def close(self) -> None:
        for each in self._queues.values():
            each.close()

    def _open(self, topic: str, queue: int, kind: QueueKind) -> AnyQueue:
        if len(self._queues) % _QUEUES_AT_ONCE == 0:
            allow_open_files(len(self._queues) * _DESCRIPTORS + _SPARE_DESCRIPTORS)
        place = Path(topic, str(queue))
        opened: AnyQueue
        if kind is QueueKind.BATCH:
            opened = BatchQueue(
                self._root / BATCH_FOLDER / place, topic, queue, file_size=self._sizes.batch, read_only=self._read_only
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
