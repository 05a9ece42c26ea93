"""Entries of one size over a chain of files, addressed by index: what both kinds of queue stand on.

    file 0                  file 1
    ├ 0 │ 1 │ 2 │ … │ 299 ┤ ├ 300 │ 301 │ zeros …  ┤
                                        ↑ end

Entries point into the log in its order, so their positions rise with the index. A blank
entry fills an index that has no record; searches take the nearest record before it
instead. One thread writes. `end` is what readers trust: it moves on after entries are
written, and back before they are cut.

There may be more queues than files can be open: see open_chains.py. A chain that is suspended knows where it ends and
what its first and last entry were, so that opening and closing a store need not open it again.

The kernel is told not to read ahead in the file at the end: it would fill the memory
with the zeros of a file that is hardly begun, megabytes for every queue.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from embermq.errors import FileSealed
from embermq.files.file_chain import FileChain
from embermq.files.mapped_file import MappedFile
from embermq.kernels.columns import (
    QUEUE_END,
    QUEUE_FIRST,
    QUEUE_LIMIT,
    QUEUE_MEMORY,
    QUEUE_WRITTEN,
)
from embermq.log.entries_end import find_entries_end
from embermq.log.open_chains import OpenChains
from embermq.log.queue_table import private_row

RESERVE_STEP: Final = 65_536
_CHECKED_FILES: Final = 3  # how many of the last files are looked at for the end of the entries
_BLOCK: Final = 4_096  # entries compared at once where blank ones are skipped


class Entry(Protocol):
    """A record, as a queue knows it."""

    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def is_valid(self) -> bool: ...


E = TypeVar("E", bound=Entry)


class EntryChain(Generic[E]):
    """The entries that the files of one folder hold."""

    def __init__(
        self, folder: Path, layout: struct.Struct, make: Callable[[Iterable[Any]], E], *,
        file_size: int, blank: bytes = b"", read_only: bool = False, row: memoryview | None = None,
        open_chains: OpenChains | None = None,
    ) -> None:  # fmt: skip
        if file_size <= 0 or file_size % layout.size:
            raise ValueError(f"{folder}: files of {file_size} bytes for entries of {layout.size}")
        self._row = private_row() if row is None else row
        self._is_offered = row is not None
        self.end = 0
        self.per_file = file_size // layout.size
        self._is_asked = True  # since `is_used` was set
        self._used_end = 0  # where the entries ended then
        self._folder = folder
        self._file_size = file_size
        self._read_only = read_only
        self._open_chains = OpenChains() if open_chains is None else open_chains
        self._chain: FileChain | None = self._make_chain()  # while it is open
        self.first = 0  # the first index that is asked for
        self._kept: tuple[tuple[int, E | None], ...] = ()  # entries by index, while it is not
        self._kept_files = 0  # how many there are then
        self._layout = layout
        self._size = layout.size
        self._make = make
        self._blank = blank
        self._zeros = bytes(layout.size)

    def load(self) -> None:
        """Find the files and where their entries end; what follows that is forgotten.

        The end is searched, not scanned for: pages that a crash lost in the middle are found
        when their entries are read or put again.
        """
        chain = self._files
        chain.load()
        files = chain.files[-_CHECKED_FILES:]
        if files:
            files[-1].advise_random()
        found = find_entries_end([file.view for file in files], self._layout, self._is_valid)
        end = (files[0].start if files else 0) + found.size
        if not self._read_only:
            (chain.set_end if found.is_sound else chain.truncate)(end)
        self.end = end // self._size
        if files:
            self._open_chains.opened(self)

    @property
    def end(self) -> int:
        """The index of the next entry."""
        return self._row[QUEUE_END]

    @end.setter
    def end(self, index: int) -> None:
        self._row[QUEUE_END] = index

    def withhold(self) -> None:
        """Have no kernel write entries: something else is to be done for each."""
        self._is_offered = False
        self._row[QUEUE_LIMIT] = 0

    @property
    def begin(self) -> int:
        """The first index that has a place in the files."""
        return self._files.begin // self._size

    @property
    def has_files(self) -> bool:
        return self._kept_files > 0 if self._chain is None else bool(self._chain.files)

    @property
    def is_used(self) -> bool:
        """Whether somebody asked for entries, or added some, since it was set to False."""
        return self._is_asked or self.end != self._used_end

    @is_used.setter
    def is_used(self, is_used: bool) -> None:
        self._is_asked = is_used
        self._used_end = self.end

    @property
    def file_count(self) -> int:
        """How many files are open."""
        return len(self._chain.files) if self._chain is not None else 0

    @property
    def is_dirty(self) -> bool:
        """Whether a `flush` has something to do."""
        chain = self._chain
        return chain is not None and chain.flushed < chain.end

    def write(self, blocks: Iterable[bytes], *, at: int = 0) -> int:
        """Add the entries of all `blocks` and return the end they call for.

        Readers see them once `end` is set to that. Without files, the first block begins the
        file that covers index `at`. Raises OSError when the disk is full; then nothing changed.
        """
        had_files = self.has_files
        try:
            before = self._files.last
            for block in blocks:
                self._append(block, at)
            if self._files.last is not before:
                self._open_chains.opened(self)
            self._clear_behind()
            self._offer()
        except BaseException:
            if had_files:
                self._set_back(self.end)
            else:
                self._files.destroy()
            raise
        return self._files.end // self._size

    def find(self, index: int) -> E | None:
        """The entry at `index`, valid or not; None when there is none, or none any more."""
        data = self.select(index, index + 1) if index < self.end else None
        return None if data is None else self._make(self._layout.unpack(data))

    def read(self, begin: int, end: int) -> list[E]:
        """The entries [begin, end), up to the first that is gone or not valid."""
        entries: list[E] = []
        while begin < end:
            part = min(end, self._file_end(begin))
            data = self.select(begin, part)
            if data is None:
                break
            entries += map(self._make, self._layout.iter_unpack(data))
            begin = part
        broken = next((number for number, entry in enumerate(entries) if not entry.is_valid), None)
        return entries[:broken]

    def select(self, begin: int, end: int) -> memoryview | None:
        """The bytes of the entries [begin, end), not copied; None when they are not all in one file."""
        while True:
            chain = self._files
            data = chain.select(begin * self._size, (end - begin) * self._size)
            if data is not None or chain is self._chain:  # else it was closed meanwhile
                return data

    def file_of(self, index: int) -> MappedFile | None:
        """The file that has a place for the entry at `index`."""
        return self._files.find(index * self._size)

    def holds(self, begin: int, data: bytes) -> bool:
        """Whether the entries from index `begin` on are exactly those of `data`."""
        end = begin + len(data) // self._size
        if end > self.end:
            return False
        at = 0
        while begin < end:
            part = min(end, self._file_end(begin))
            stored = self.select(begin, part)
            if stored is None or bytes(stored) != data[at : at + len(stored)]:
                return False
            begin, at = part, at + len(stored)
        return True

    def find_from(self, position: int, begin: int) -> int:
        """The first index of [begin, end) whose record lies at or after `position`, else the end."""
        end = self.end
        if begin >= end or not self._is_early(begin, position):
            return begin
        found = bisect_left(range(end), position, lo=begin, hi=end, key=self._position_at)
        # Invalid entries counted as early ones; they may have hidden some that are late.
        while found > begin and not self._is_early(found - 1, position):
            found -= 1
        return found

    def first_record(self) -> int:
        """The first index that is not blank, else the end."""
        index, block = self.begin, 1
        while index < self.end:
            part = min(self.end, index + block, self._file_end(index))
            index += _count_leading(bytes(self.select(index, part) or b""), self._blank)
            if index < part:
                break
            block = _BLOCK
        return index

    def last_record(self, end: int) -> int | None:
        """The last index before `end` that is not blank; None if there is none."""
        begin, block = self.begin, 1
        while begin < end:
            part = max(begin, end - block, self._file_end(end - 1) - self.per_file)
            end -= _count_trailing(bytes(self.select(part, end) or b""), self._blank)
            if end > part:
                return end - 1
            block = _BLOCK
        return None

    def record_at(self, index: int) -> E | None:
        """The entry at `index` or, where that is blank, the nearest before it that is not."""
        if self._chain is None:
            for at, kept in self._kept:
                if at == index < self.end:
                    return kept
        data = self.select(index, index + 1) if 0 <= index < self.end else None
        if data is not None and data == self._blank:
            record = self.last_record(index)
            return None if record is None else self.find(record)
        return None if data is None else self._make(self._layout.unpack(data))

    def cut(self, index: int) -> None:
        """Forget the entries from `index` on; on return they are gone from the disk, too.

        A file that has none left is deleted. Only of a first file that does not begin at zero an
        empty one stays, to tell which index comes next.
        """
        self.end = index
        try:
            self._set_back(index)
        finally:
            self.end = self._files.end // self._size

    def delete_before(self, position: int) -> int:
        """Delete the files whose records all lie before `position`, never the last; return how many went."""
        if self._chain is None and self._kept_files < 2:  # the last one stays
            return 0

        def is_early(file: MappedFile) -> bool:
            return self._is_early((file.start + file.size) // self._size - 1, position)

        return len(self._files.delete_oldest(is_early))

    def flush(self, least_pages: int = 0) -> None:
        """Bring what is written onto the disk, unless it is suspended; then others will. Raises SyncFailed."""
        chain = self._chain
        if chain is None:
            return
        try:
            chain.flush(least_pages)
        except FileSealed:
            if chain is self._chain:  # else it was suspended meanwhile
                raise

    def unflushed(self) -> list[tuple[MappedFile, int]]:
        """The files that a `flush` has something to do for, and how far each is written."""
        chain = self._chain
        return [] if chain is None else [(file, file.written) for file in chain.files if file.is_dirty]

    def sync(self) -> None:
        """Bring everything onto the disk, also what `load` found there in memory. Raises SyncFailed."""
        self._files.sync()

    def destroy(self) -> None:
        """Delete the files and their folder."""
        self._row[QUEUE_LIMIT] = 0
        self.end = 0
        self._files.destroy()
        self._open_chains.closed(self)

    def close(self) -> None:
        """Let go of the files. Flush first."""
        self._row[QUEUE_LIMIT] = 0
        with self._open_chains.lock:
            if self._chain is None:
                self._chain = self._make_chain()  # so that nobody opens them again
            self._chain.close()
            self._open_chains.closed(self)

    def suspend(self) -> list[Path]:
        """Close the files until they are needed again; returns those that are not on disk. Nobody writes meanwhile."""
        chain = self._files
        self._kept = tuple((index, self.record_at(index)) for index in {self.first, self.end - 1} if index >= 0)
        self._kept_files = len(chain.files)
        unsynced = [file.path for file in chain.files if file.is_dirty]
        self._row[QUEUE_LIMIT] = 0
        self._chain = None  # first, so that a reader who finds nothing looks again
        chain.close()
        return unsynced

    @property
    def _files(self) -> FileChain:
        """The files, opened again if they were closed."""
        self._is_asked = True
        chain = self._chain
        return chain if chain is not None else self._open_again()

    def _open_again(self) -> FileChain:
        with self._open_chains.lock:
            if self._chain is not None:  # somebody else was faster
                return self._chain
            chain = self._make_chain()
            chain.load()
            if chain.last is not None:
                chain.last.advise_random()
                if not self._read_only:
                    chain.set_end(self.end * self._size)
            self._chain = chain
            if chain.files:
                self._open_chains.opened(self)
            return chain

    def _make_chain(self) -> FileChain:
        return FileChain(self._folder, self._file_size, reserve_step=RESERVE_STEP, read_only=self._read_only)

    def _append(self, block: bytes, at: int) -> None:
        data = memoryview(block)
        while data:
            file = self._files.append_file(at * self._size)
            if file.written == 0:
                file.advise_random()
            room = file.size - file.written
            file.append(data[:room])
            data = data[room:]

    def _offer(self) -> None:
        """Tell kernels where they may write the next entries: as far as the disk has space."""
        file = self._files.last
        if not self._is_offered or file is None:
            return
        row = self._row
        row[QUEUE_LIMIT] = 0
        row[QUEUE_MEMORY], end = file.offer()
        row[QUEUE_FIRST] = file.start // self._size
        row[QUEUE_WRITTEN] = file.written_cell.address
        row[QUEUE_LIMIT] = row[QUEUE_FIRST] + end // self._size

    def _clear_behind(self) -> None:
        """Put zeros over what a crash left behind the end, once the end gets there.

        Else the next load would take it for entries of this queue.
        """
        file = self._files.last
        if file is None or file.is_full:
            return
        if file.view[file.written : file.written + self._size] != self._zeros:
            self._files.truncate(file.start + file.written)

    def _file_end(self, index: int) -> int:
        """The index that the file after the one with `index` begins with."""
        return index - index % self.per_file + self.per_file

    def _is_valid(self, fields: tuple[Any, ...]) -> bool:
        return self._make(fields).is_valid

    def _position_at(self, index: int) -> int:
        record = self.record_at(index)
        return record.position if record is not None and record.is_valid else -1

    def _is_early(self, index: int, position: int) -> bool:
        record = self.record_at(index)
        return record is None or (record.is_valid and record.position < position)

    def _set_back(self, index: int) -> None:
        self._row[QUEUE_LIMIT] = 0
        position = index * self._size
        if position == 0:
            self._files.destroy()
        elif index % self.per_file or position == self._files.begin:
            self._files.truncate(position)
        elif self._files.find(position) is not None:
            # Cutting one entry more is what deletes the file that would be left empty. RocketMQ
            # would take its zeros for an entry.
            last = bytes(self.select(index - 1, index) or b"")
            self._files.truncate(position - self._size)
            self._append(last, index - 1)


def _count_leading(data: bytes, unit: bytes) -> int:
    """How often `data` repeats `unit` at its beginning."""
    most = len(data) // len(unit) if unit else 0
    return bisect_left(range(most), True, key=lambda count: not data.startswith(unit * (count + 1)))


def _count_trailing(data: bytes, unit: bytes) -> int:
    """How often `data` repeats `unit` at its end."""
    most = len(data) // len(unit) if unit else 0
    return bisect_left(range(most), True, key=lambda count: not data.endswith(unit * (count + 1)))
