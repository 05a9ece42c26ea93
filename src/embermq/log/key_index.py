"""Finds records by key and time: index files, each a hash table over one stretch of the log.

A record is filed under its unique id and under each of its keys, together with its topic. Only hashes
are kept, so what is found may be another record's: whoever looks a key up compares it with `keys_of` the
record found.

One thread puts, cuts and deletes; any number may find and one may flush meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from embermq.clock import Clock
from embermq.errors import CorruptRecord, ForeignFile
from embermq.files.durable import make_directory, sync_directory
from embermq.format.index_entry import FIRST_ENTRY
from embermq.log.index_file import UNUSED, IndexFile, detect_shape
from embermq.log.index_keys import keys_of, rows_of
from embermq.log.index_repair import cut_file
from embermq.log.placed import Batch, Placed
from embermq.model.hashing import key_hash

if TYPE_CHECKING:
    from embermq.kernels.compiling import Table

__all__ = ["MAX_FOUND", "KeyIndex", "detect_shape", "keys_of", "name_of"]

MAX_FOUND: Final = 64  # positions that one look-up gives at most
FOREVER_MS: Final = 2**63 - 1

_NAME_SIZE: Final = 17  # yyyyMMddHHmmssSSS

log = logging.getLogger(__name__)


class KeyIndex:
    """The index files of one store, oldest first."""

    def __init__(self, folder: Path, *, slots: int, entries: int, clock: Clock, read_only: bool = False) -> None:
        self.folder = folder
        self._slots = slots
        self._entries = entries
        self._clock = clock
        self._read_only = read_only
        self._files: tuple[IndexFile, ...] = ()  # replaced, never changed, because readers walk over it
        self._is_whole = True  # known to hold nothing torn

    def load(self) -> None:
        """Open the files that are there.

        Raises ForeignFile, WrongFileSize or CorruptRecord, and opens none, if one of them is no index file
        of this shape. They can still be given up with `destroy`, and the index filled anew from the log.
        """
        self.close()
        files: list[IndexFile] = []
        try:
            for path in self._paths():
                files.append(self._open(path))
        except BaseException:
            for file in files:
                file.close()
            raise
        self._files = tuple(files)
        self._is_whole = False

    @property
    def file_count(self) -> int:
        return len(self._files)

    @property
    def entry_count(self) -> int:
        return sum(file.entry_count for file in self._files)

    @property
    def begin_position(self) -> int:
        """Where the first record begins that the index knows of; 0 if it knows none."""
        return self._files[0].header.begin_position if self._files else 0

    @property
    def end_position(self) -> int:
        """Where the newest record begins that the index knows of; -1 if it knows none."""
        for file in reversed(self._files):
            header = file.header
            if header.next_entry > FIRST_ENTRY or header.end_position > 0:
                return header.end_position
        return -1

    @property
    def end_time(self) -> int:
        """When the newest record was stored that the index knows of; 0 if it knows none."""
        return self._files[-1].header.end_time if self._files else 0

    @property
    def newest_begin_time(self) -> int:
        """When the first record of the newest file was stored; without a file, at the end of time."""
        return self._files[-1].header.begin_time if self._files else FOREVER_MS

    @property
    def is_dirty(self) -> bool:
        return any(file.is_dirty for file in self._files)

    def put(self, items: Sequence[Placed]) -> None:
        """File records under their keys, in the order of the log; those filed already are passed over.

        Raises OSError, and files none of them, when the disk has no space for it.
        """
        if isinstance(items, Batch) and items.keys is not None:
            self._put_table(items.keys)
            return
        rows = rows_of(items, after=self.end_position)
        at = 0
        for file, count in self._make_room(len(rows)):
            file.put(rows[at : at + count])
            at += count

    def offer(self, count: int) -> tuple[IndexFile, int] | None:
        """The file that the next `count` keys may be put into by a kernel, and where it is; None if plain code must.

        It counts as changed from now on.
        """
        newest = self._files[-1] if self._files else None
        if newest is None:
            return None
        number = newest.next_entry
        if number == FIRST_ENTRY or number + count > newest.entries:
            return None
        address = newest.make_ready(number + count)
        return (newest, address) if address else None

    def _put_table(self, keys: Table) -> None:
        if not len(keys):
            return
        if keys[0, 1] <= self.end_position:  # the second column is the position
            keys = keys[keys[:, 1] > self.end_position]
        newest = self._files[-1] if self._files else None
        if newest is not None and newest.entry_count and len(keys) <= newest.room:  # nearly always
            newest.put_table(keys)
            return
        at = 0
        for file, count in self._make_room(len(keys)):
            file.put_table(keys[at : at + count])
            at += count

    def find(self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = FOREVER_MS, limit: int = 32) -> list[int]:
        """Positions of at most `limit`, and never more than MAX_FOUND, records; see iter_positions."""
        found = self.iter_positions(topic, key, begin_ms=begin_ms, end_ms=end_ms)
        return list(islice(found, max(0, min(limit, MAX_FOUND))))

    def iter_positions(self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = FOREVER_MS) -> Iterator[int]:
        """Positions of records of `topic` that may have `key` and were stored in that time, newest first."""
        wanted = key_hash(topic, key)
        for file in reversed(self._files):
            yield from file.iter_positions(wanted, begin_ms=begin_ms, end_ms=end_ms)
            if file.begins_before(begin_ms):
                break

    def cut(self, position: int) -> None:
        """Forget every entry whose record begins at or after `position`, and repair what a crash has torn.

        Everything put for records before `position` must have been flushed before the crash.
        """
        if self._is_whole and position > self.end_position:
            return
        while self._files and cut_file(self._files[-1], position) == 0:
            *before, last = self._files
            self._files = tuple(before)
            last.mapped.destroy(force=True)
            sync_directory(self.folder)  # or it could come back
            log.info("removed index file=%s cut=%d", last.path.name, position)
        self._is_whole = True

    def delete_before(self, log_begin: int) -> int:
        """Delete files whose records all begin before `log_begin`, but never the last; return how many."""
        count = 0
        while len(self._files) > 1 and self._files[0].header.end_position < log_begin:
            first, *rest = self._files
            self._files = tuple(rest)
            first.mapped.destroy(force=True)  # whoever reads it now may finish
            count += 1
        return count

    def flush(self) -> None:
        """Force everything put before this call onto the disk. Raises SyncFailed."""
        for file in self._files:
            file.flush()

    def destroy(self) -> None:
        """Delete all index files, loaded or not, whatever is in them."""
        for file in self._files:
            file.mapped.destroy(force=True)
        self._files = ()
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                if _is_index_name(path.name):
                    path.unlink(missing_ok=True)
            sync_directory(self.folder)

    def close(self) -> None:
        for file in self._files:
            file.close()
        self._files = ()

    def _paths(self) -> list[Path]:
        """The files of the folder, oldest first."""
        if not self.folder.is_dir():
            return []
        paths = sorted(path for path in self.folder.iterdir() if not path.is_dir())
        for path in paths:
            if not _is_index_name(path.name):
                raise ForeignFile(path, "index files are named after a time, in 17 digits")
        while paths and paths[-1].stat().st_size == 0:  # a crash came while it was made
            empty = paths.pop()
            if not self._read_only:
                empty.unlink()
        for path in paths:
            if path.stat().st_size == 0:  # what it held, if anything, can only be had from the log
                raise CorruptRecord(0, f"{path} is empty, and files behind it are not")
        return paths

    def _open(self, path: Path) -> IndexFile:
        return IndexFile.open(path, slots=self._slots, entries=self._entries, read_only=self._read_only)

    def _make_room(self, count: int) -> list[tuple[IndexFile, int]]:
        """The files that `count` entries go into, and how many into each; their disk space is reserved."""
        shares: list[tuple[IndexFile, int]] = []
        at = len(self._files) - 1
        while at > 0 and self._files[at].entry_count == 0:  # made when there was no space for the rest
            at -= 1
        at = max(at, 0)
        while count:
            file = self._files[at] if at < len(self._files) else self._add_file()
            share = min(count, file.room)
            if share:
                file.reserve(share)
                shares.append((file, share))
            count -= share
            at += 1
        return shares

    def _add_file(self) -> IndexFile:
        make_directory(self.folder)
        name, header = name_of(self._clock.now_ms()), UNUSED
        if self._files:
            newest = self._files[-1]
            name, header = max(name, f"{int(newest.path.name) + 1:017}"), newest.header
        file = IndexFile.create(self.folder / name, slots=self._slots, entries=self._entries, after=header)
        self._files = (*self._files, file)
        log.info("made index file=%s", name)
        return file


def name_of(now_ms: int) -> str:
    """The name of an index file that is made at this time: in local time, as RocketMQ has it."""
    seconds, ms = divmod(now_ms, 1000)
    return f"{datetime.fromtimestamp(seconds):%Y%m%d%H%M%S}{ms:03}"


def _is_index_name(name: str) -> bool:
    return len(name) == _NAME_SIZE and name.isascii() and name.isdecimal()
