"""The files of a store, as found by listing its folders: the log, the queues, the index. Nothing is mapped or changed.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord, ForeignFile, MissingFile, StoreMissing, WrongFileSize
from embermq.files.paths import file_name
from embermq.format.batch_entry import BATCH_ENTRY_SIZE
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.scan.file_system import FileSystem, Found, open_file_system
from embermq.scan.splits import LogFile, StorePlace

LOG_FOLDER: Final = "commitlog"
QUEUE_FOLDER: Final = "consumequeue"
BATCH_FOLDER: Final = "batchconsumequeue"
INDEX_FOLDER: Final = "index"
CHECKPOINT_FILE: Final = "checkpoint"
ABORT_FILE: Final = "abort"

_ROCKSDB_SIGN: Final = "CURRENT"  # is in every RocksDB
_QUEUE_FOLDERS: Final = ((QUEUE_FOLDER, QUEUE_ENTRY_SIZE), (BATCH_FOLDER, BATCH_ENTRY_SIZE))
_SIGNS: Final = {LOG_FOLDER, QUEUE_FOLDER, BATCH_FOLDER, CHECKPOINT_FILE}  # one of them is in every store


class QueueFiles(NamedTuple):
    """The files of one queue, in order, and the size of its entries."""

    topic: str
    queue: int
    entry_size: int
    folder: str
    files: tuple[Found, ...]

    @property
    def is_batch(self) -> bool:
        return self.entry_size == BATCH_ENTRY_SIZE


class StoreFiles:
    """One store, looked at from outside. Raises StoreMissing where there is none."""

    def __init__(self, place: StorePlace) -> None:
        self.place = place
        self.system: FileSystem = open_file_system(place)
        try:
            self._names = {found.name for found in self.system.list("")}
        except OSError as error:
            raise StoreMissing(place.name, str(error)) from error
        if not self._names & _SIGNS:
            reason = "no such directory, or it is empty" if not self._names else f"no {LOG_FOLDER}/ is in it"
            raise StoreMissing(place.name, reason)

    @property
    def was_closed(self) -> bool:
        """Whether the last owner closed the store; not so while one works on it."""
        return ABORT_FILE not in self._names

    @property
    def has_rocksdb(self) -> bool:
        """Whether the queues are in a RocksDB."""
        return any(found.name == _ROCKSDB_SIGN and not found.is_folder for found in self.system.list(QUEUE_FOLDER))

    @property
    def keeps_queues(self) -> bool:
        """Whether queues are kept as files here; there may be none yet."""
        return not self._names.isdisjoint((QUEUE_FOLDER, BATCH_FOLDER)) and not self.has_rocksdb

    def find_log(self) -> tuple[LogFile, ...]:
        """The files of the log in order. Raises MissingFile, ForeignFile or WrongFileSize."""
        found = self._list_positions(LOG_FOLDER)
        files = tuple(LogFile(f"{LOG_FOLDER}/{each.name}", int(each.name), each.size) for each in found)
        usual = Counter(file.size for file in files).most_common(1)[0][0] if files else 0
        for before, file in pairwise(files):
            if before.size != usual:
                raise WrongFileSize(self.name_of(before.path), found=before.size, expected=usual)
            if file.start != before.end:
                raise MissingFile(self.name_of(f"{LOG_FOLDER}/{file_name(before.end)}"))
        return files

    def find_topics(self) -> set[str]:
        """The topics that have queues."""
        return {topic.name for folder, _ in _QUEUE_FOLDERS for topic in self.system.list(folder) if topic.is_folder}

    def find_queues(self, accepts: Callable[[str], bool]) -> list[QueueFiles]:
        """The queues of accepted topics that are files, by topic and number."""
        queues = []
        for folder, entry_size in _QUEUE_FOLDERS:
            for topic in self.system.list(folder):
                if topic.is_folder and accepts(topic.name):
                    queues += self._find_queues_of(topic.name, f"{folder}/{topic.name}", entry_size)
        return sorted(queues)

    def find_queue(self, topic: str, queue: int) -> QueueFiles | None:
        """One queue, if it is there."""
        for folder, entry_size in _QUEUE_FOLDERS:
            path = f"{folder}/{topic}/{queue}"
            files = self._list_positions(path)
            if files:
                return QueueFiles(topic, queue, entry_size, path, files)
        return None

    def find_index(self) -> tuple[Found, ...]:
        """The index files, oldest first. Raises CorruptRecord for one that lost what it held."""
        found = [each for each in self.system.list(INDEX_FOLDER) if len(each.name) == 17 and each.name.isdecimal()]
        while found and not found[-1].size:  # it was being made
            found.pop()
        for each in found:
            if not each.size:
                raise CorruptRecord(
                    0, f"{self.name_of(INDEX_FOLDER)}/{each.name} is empty, and files behind it are not"
                )
        return tuple(found)

    def read(self, path: str, begin: int = 0, size: int = -1) -> bytes:
        """Bytes of a small file; fewer than asked for at its end. Raises OSError."""
        file = self.system.open(path)
        try:
            if size >= 0:
                buffer = bytearray(size)
                return bytes(buffer[: file.read_into(memoryview(buffer), begin)])
            parts = []
            while True:
                buffer = bytearray(1 << 16)
                count = file.read_into(memoryview(buffer), begin)
                parts.append(bytes(buffer[:count]))
                begin += count
                if count < len(buffer):
                    return b"".join(parts)
        finally:
            file.close()

    def name_of(self, path: str) -> str:
        """A path for people."""
        return f"{self.place.name.rstrip('/')}/{path}"

    def _find_queues_of(self, topic: str, folder: str, entry_size: int) -> list[QueueFiles]:
        queues = []
        for queue in self.system.list(folder):
            if queue.is_folder and queue.name.isdecimal():
                path = f"{folder}/{queue.name}"
                queues.append(QueueFiles(topic, int(queue.name), entry_size, path, self._list_positions(path)))
        return queues

    def _list_positions(self, folder: str) -> tuple[Found, ...]:
        """The files of a folder that are named after positions; empty ones are being made, or were to be."""
        return tuple(each for each in _named_after_positions(self.system.list(folder), folder) if each.size)


def _named_after_positions(found: Sequence[Found], folder: str) -> list[Found]:
    files = [each for each in found if not each.is_folder]
    for file in files:
        if len(file.name) != 20 or not (file.name.isascii() and file.name.isdecimal()):
            raise ForeignFile(f"{folder}/{file.name}", "its name is not a position of 20 digits")
    return files
