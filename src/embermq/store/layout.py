"""Where things lie in a store's directory, and which file sizes it was made with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from embermq.errors import ForeignFile
from embermq.format.batch_entry import BATCH_ENTRY_SIZE
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.log.key_index import detect_shape
from embermq.store.queues import BATCH_FOLDER, EXTENDED_FOLDER, SIMPLE_FOLDER, QueueSizes
from embermq.store.settings import GIB, MIB, StoreSettings

LOG_FOLDER = "commitlog"
INDEX_FOLDER = "index"
CONFIG_FOLDER = "config"
CHECKPOINT_FILE = "checkpoint"
ABORT_FILE = "abort"

DEFAULT_LOG_FILE_SIZE = GIB
DEFAULT_QUEUE_FILE_SIZE = 300_000 * QUEUE_ENTRY_SIZE
DEFAULT_BATCH_QUEUE_FILE_SIZE = 300_000 * BATCH_ENTRY_SIZE
DEFAULT_EXTENDED_QUEUE_FILE_SIZE = 48 * MIB
DEFAULT_INDEX_SLOTS = 5_000_000
DEFAULT_INDEX_ENTRIES = 20_000_000


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths and file sizes of one store."""

    root: Path
    log_paths: tuple[Path, ...]
    read_only_log_paths: tuple[Path, ...]
    log_file_size: int
    queue_sizes: QueueSizes
    index_slots: int
    index_entries: int

    @property
    def index_folder(self) -> Path:
        return self.root / INDEX_FOLDER

    @property
    def config_folder(self) -> Path:
        return self.root / CONFIG_FOLDER

    @property
    def checkpoint_file(self) -> Path:
        return self.root / CHECKPOINT_FILE

    @property
    def abort_file(self) -> Path:
        return self.root / ABORT_FILE


def find_layout(root: Path, settings: StoreSettings) -> Layout:
    """The layout that `settings` ask for; sizes left open are those of the files that are there."""
    log_paths = tuple(Path(path) for path in settings.log_paths) or (root / LOG_FOLDER,)
    read_only = tuple(Path(path) for path in settings.read_only_log_paths)
    slots, entries = _index_shape(root / INDEX_FOLDER, settings)
    simple = (
        settings.queue_file_size
        or _whole_entries(_queue_file_size(root / SIMPLE_FOLDER), QUEUE_ENTRY_SIZE)
        or DEFAULT_QUEUE_FILE_SIZE
    )
    return Layout(
        root=root,
        log_paths=log_paths,
        read_only_log_paths=read_only,
        log_file_size=settings.log_file_size or _usual_size((*log_paths, *read_only)) or DEFAULT_LOG_FILE_SIZE,
        queue_sizes=QueueSizes(
            simple=simple + -simple % QUEUE_ENTRY_SIZE,
            batch=settings.batch_queue_file_size
            or _whole_entries(_queue_file_size(root / BATCH_FOLDER), BATCH_ENTRY_SIZE)
            or DEFAULT_BATCH_QUEUE_FILE_SIZE,
            extended=settings.extended_queue_file_size
            or _queue_file_size(root / EXTENDED_FOLDER)
            or DEFAULT_EXTENDED_QUEUE_FILE_SIZE,
        ),
        index_slots=slots,
        index_entries=entries,
    )


def _usual_size(folders: Iterable[Path]) -> int | None:
    """The size that most files have: one that was cut short must not make the others look wrong."""
    sizes = Counter(
        path.stat().st_size
        for folder in folders
        if folder.is_dir()
        for path in sorted(folder.iterdir())
        if path.is_file() and path.name.isdecimal()
    )
    del sizes[0]  # files whose making was cut short
    return sizes.most_common(1)[0][0] if sizes else None


def _whole_entries(size: int | None, entry_size: int) -> int | None:
    """A size that was found, unless it is none that a queue file can have: then the file is to blame."""
    return size if size and size % entry_size == 0 else None


def _queue_file_size(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    for topic in sorted(folder.iterdir()):
        if topic.is_dir():
            size = _usual_size(path for path in topic.iterdir() if path.is_dir())
            if size is not None:
                return size
    return None


def _index_shape(folder: Path, settings: StoreSettings) -> tuple[int, int]:
    found = None
    if (settings.index_slots is None or settings.index_entries is None) and folder.is_dir():
        files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.stat().st_size]
        for path in files:
            if not path.name.isdecimal():
                raise ForeignFile(path, "index files are named after a time, in 17 digits")
        found = detect_shape(files[0]) if files else None
    slots, entries = found or (DEFAULT_INDEX_SLOTS, DEFAULT_INDEX_ENTRIES)
    return settings.index_slots or slots, settings.index_entries or entries
