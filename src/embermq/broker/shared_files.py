"""The files of a store that others may read through a broker: log, queues and index, and nothing else.

    commitlog/<20 digits>                      consumequeue/<topic>/<queue>/<20 digits>
    index/<17 digits>                          batchconsumequeue/<topic>/<queue>/<20 digits>
    checkpoint, abort

Names are taken apart and checked, so that no path leads elsewhere. Of the log, only what consumers can see is given.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

from embermq.errors import IllegalField, MessageNotFound
from embermq.files.mapped_file import MappedFile
from embermq.format.store_body import StoreEntry
from embermq.model.topic import is_directory_name
from embermq.store.layout import ABORT_FILE, CHECKPOINT_FILE, INDEX_FOLDER, LOG_FOLDER
from embermq.store.queues import BATCH_FOLDER, SIMPLE_FOLDER
from embermq.store.store import Store

LARGEST_READ: Final = 2 << 20  # bytes of one answer
LARGEST_FILE: Final = 1 << 48
_QUEUE_FOLDERS: Final = (SIMPLE_FOLDER, BATCH_FOLDER)
_SINGLE_FILES: Final = (CHECKPOINT_FILE, ABORT_FILE)
_MOST_DIGITS: Final = 20

Entries: TypeAlias = list[StoreEntry]
Folders: TypeAlias = dict[str, Entries]


class LogRange:
    """Bytes of one file of the log, in mapped memory."""

    def __init__(self, file: MappedFile, begin: int, end: int) -> None:
        self._file = file
        self._begin = begin
        self._end = end

    @property
    def is_resident(self) -> bool:
        """Whether they can be read without waiting for the disk."""
        return self._file.is_resident(self._begin, self._end)

    def fetch(self) -> None:
        """Wait for the disk. For threads that may. Raises OSError."""
        self._file.fetch(self._begin, self._end)

    def select(self) -> memoryview:
        """The bytes, not copied; none of a file that was just deleted."""
        return self._file.view[self._begin : self._end]


class SharedFiles:
    """Lists and reads them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self, folder: str, *, is_deep: bool) -> Folders:
        """What is in a folder, and with `is_deep` in all below it, by paths that begin at the folder. It may wait.

        A folder that is not there holds nothing. Raises IllegalField for one that is not shared.
        """
        names = folder.split("/") if folder else []
        found: Folders = {}
        self._list(names, "", found, is_deep=is_deep)
        return found

    def find_log(self, path: str, begin: int, size: int) -> LogRange | None:
        """Bytes of a file of the log, as far as they are visible; None if `path` is of another kind.

        Raises IllegalField or MessageNotFound.
        """
        match path.split("/"):
            case [folder, name] if folder == LOG_FOLDER and _is_number(name):
                file = self._store.log_files().find(int(name))
            case _:
                return None
        if file is None or file.start != int(name):
            raise MessageNotFound(f"the log has no file {name}; it was deleted, or is not made yet")
        end = min(begin + _check_range(begin, size), file.size, max(self._store.dispatched - file.start, 0))
        return LogRange(file, begin, end) if begin < end else LogRange(file, 0, 0)

    def read(self, path: str, begin: int, size: int) -> bytes:
        """Bytes of any other shared file; fewer at its end. It may wait.

        Raises IllegalField, MessageNotFound, or OSError.
        """
        place = self._place_of(path)
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MessageNotFound(f"no file {path[:300]!r}: {error.strerror}") from error
        try:
            return os.pread(descriptor, _check_range(begin, size), begin)
        finally:
            os.close(descriptor)

    def _list(self, names: Sequence[str], path: str, found: Folders, *, is_deep: bool) -> None:
        entries = self._entries_of(names)
        found[path] = entries
        for entry in entries:
            if is_deep and entry.is_folder:
                self._list([*names, entry.name], f"{path}/{entry.name}" if path else entry.name, found, is_deep=True)

    def _entries_of(self, names: Sequence[str]) -> Entries:
        match names:
            case []:
                every = _scan(self._store.path)
                folders = {LOG_FOLDER, INDEX_FOLDER, *_QUEUE_FOLDERS}
                shared = [each for each in every if each.name in (folders if each.is_folder else _SINGLE_FILES)]
                return sorted({StoreEntry(LOG_FOLDER, 0, True), *shared})
            case [name] if name == LOG_FOLDER:
                files = self._store.log_files().files  # which may lie in several folders
                return [StoreEntry(file.path.name, file.size, False) for file in files]
            case [name] if name == INDEX_FOLDER:
                return [each for each in _scan(self._store.path / name) if _is_file(each)]
            case [kind] if kind in _QUEUE_FOLDERS:
                return [each for each in _scan(self._store.path / kind) if each.is_folder]
            case [kind, topic] if kind in _QUEUE_FOLDERS and is_directory_name(topic):
                numbers = _scan(self._store.path / kind / topic)
                return [each for each in numbers if each.is_folder and _is_number(each.name)]
            case [kind, topic, queue] if kind in _QUEUE_FOLDERS and is_directory_name(topic) and _is_number(queue):
                return [each for each in _scan(self._store.path / kind / topic / queue) if _is_file(each)]
        raise IllegalField("folder", f"{'/'.join(names)[:300]!r} is none that is shared; see docs/protocol.md")

    def _place_of(self, path: str) -> Path:
        match path.split("/"):
            case [name] if name in _SINGLE_FILES:
                pass
            case [folder, name] if folder == INDEX_FOLDER and _is_number(name):
                pass
            case [kind, topic, queue, name] if (
                kind in _QUEUE_FOLDERS and is_directory_name(topic) and _is_number(queue) and _is_number(name)
            ):
                pass
            case _:
                raise IllegalField("path", f"{path[:300]!r} is no file that is shared; see docs/protocol.md")
        return self._store.path / path


def _scan(folder: Path) -> Entries:
    """What is in a folder, by name; nothing if it is not there."""
    try:
        with os.scandir(folder) as entries:
            return sorted(_entry(each) for each in entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _entry(found: os.DirEntry[str]) -> StoreEntry:
    is_folder = found.is_dir()
    try:
        return StoreEntry(found.name, 0 if is_folder else found.stat().st_size, is_folder)
    except FileNotFoundError:  # deleted meanwhile
        return StoreEntry(found.name, 0, False)


def _is_file(entry: StoreEntry) -> bool:
    return not entry.is_folder and _is_number(entry.name)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) <= _MOST_DIGITS


def _check_range(begin: int, size: int) -> int:
    """`size`, if it and `begin` can be."""
    if not 0 <= begin < LARGEST_FILE:
        raise IllegalField(
            "begin", f"{begin}; the bytes of a file are counted from 0, and are fewer than {LARGEST_FILE}"
        )
    if not 0 < size <= LARGEST_READ:
        raise IllegalField("size", f"{size}; 1 to {LARGEST_READ} bytes are given at a time")
    return size
