"""One fixed-size, memory-mapped file. It knows positions, never messages.

    0          flushed       committed        written             size
    ├──────────────┼──────────────┼──────────────┼──────────────────┤
    │ safe on disk │ in the file  │ in memory    │ zeros, not yet used
    │              │              │ only         │

How bytes get from `written` to `flushed` is one of three ways:

    into the map         `committed` is `written`; `flush` syncs the pages. Where disk space is reserved for
                         a part of the file only, appends go into the file itself
    by a write buffer    `commit` writes them into the file, `flush` syncs it
    staged               `flush` does both at once: `committed` is `flushed`; see staging.py

One thread appends; any number may read what is already readable. Another thread may
commit and flush. Positions in here count from the beginning of the file.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Self

from embermq.errors import FileFull, FileSealed, OutOfRange, SyncFailed
from embermq.files import memory
from embermq.files.cells import Cell
from embermq.files.file_map import FileMap
from embermq.files.firming import Firming
from embermq.files.reserving import Reserving
from embermq.files.staging import ChunkPool, Staging
from embermq.files.write_buffer import WriteBuffer
from embermq.files.writing import HEAD, write_head_last
from embermq.files.zeroing import clear

PAGE = 4096  # what `least_pages` counts, whatever the machine's pages are


class MappedFile(FileMap):
    """The `size` bytes of a log that begin at position `start`."""

    __slots__ = (
        "_buffer", "_cause", "_committed", "_extent", "_firming", "_is_direct", "_is_overwritten", "_is_random",
        "_map_address", "_mapped_end", "_memory", "_reserving", "_staging", "_sync_lock", "flushed", "sealed", "start",
        "warm_end", "written_cell",
    )  # fmt: skip

    def __init__(
        self, path: Path, descriptor: int, mapping: memoryview, *, start: int, written: int, is_new: bool,
        read_only: bool, reserve_step: int,
    ) -> None:  # fmt: skip
        super().__init__(path, descriptor, mapping, read_only=read_only)
        self.start = start
        self.sealed = False
        self._cause: OSError | None = None
        self.written_cell = Cell()
        self.written = self.flushed = self._committed = written
        self.warm_end = 0  # up to where pages are warm, or are to be
        self._extent = written if is_new else self.size  # above this, all is zero unless `written` is higher
        self._reserving = Reserving(path, descriptor, self.size, reserve_step)
        self._firming: Firming | None = None
        self._mapped_end = 0  # below this, bytes may be written through memory
        self._map_address = 0  # where it is, once that was asked for
        self._memory: memoryview | mmap.mmap = mapping  # where appends go
        self._is_direct = True  # neither buffer nor staging
        self._buffer: WriteBuffer | None = None
        self._staging: Staging | None = None
        self._is_overwritten = False
        self._is_random = False
        # One sync at a time: the kernel reports a failed write-back once, so of two syncs side by
        # side one would be told of success. Appends never take this lock.
        self._sync_lock = Lock()

    @classmethod
    def open(
        cls, path: Path, size: int, *, start: int | None = None, written: int = 0, read_only: bool = False,
        buffer: WriteBuffer | None = None, chunks: ChunkPool | None = None, is_firmed: bool = False,
        reserve_step: int = 0,
    ) -> Self:  # fmt: skip
        """Map the file at `path`; a missing or empty one is made, full of zeros.

        `start` is the number its name spells, unless given. Disk space is reserved
        `reserve_step` bytes at a time, or all at once for 0. With `chunks` appends are staged. One that
        `is_firmed` has zeros written ahead of its appends, and can be written at its end only. The caller syncs
        the directory. Raises WrongFileSize, and OSError when the file cannot be made or opened.
        """
        begin = int(path.name) if start is None else start
        descriptor, mapping, is_new = memory.map_file(path, size, read_only=read_only)
        file = cls(
            path, descriptor, mapping, start=begin, written=written, is_new=is_new,
            read_only=read_only, reserve_step=reserve_step,
        )  # fmt: skip
        if buffer is not None:
            file.attach(buffer)
        if chunks is not None and not read_only:
            file.stage(chunks)
        if is_firmed and not read_only:
            file._firming = Firming(path)
        return file

    @property
    def written(self) -> int:
        """How far bytes were appended."""
        return self.written_cell.view[0]

    @written.setter
    def written(self, end: int) -> None:
        self.written_cell.view[0] = end

    @property
    def committed(self) -> int:
        """How far the bytes are in the file, not only in memory."""
        return self.written if self._is_direct else self._committed

    readable = committed

    @property
    def is_full(self) -> bool:
        """Whether not one more byte fits."""
        return self.written == self.size

    @property
    def is_dirty(self) -> bool:
        """Whether a `flush` has something to do."""
        return self._is_overwritten or self._flushable > self.flushed

    def reserve(self, end: int) -> None:
        """Get disk space for the bytes [0, end).

        A mapped write to space the disk does not have would kill the process (SIGBUS), so
        every write comes after this. Raises OSError (ENOSPC) with nothing changed.
        """
        begin = self._reserving.end
        if end > begin:
            if self._reserving.reserve(end):  # of zeros, no page is to be mapped by itself
                memory.populate(self._map, begin, self._reserving.end)
            self._find_mapped_end()

    def append(self, data: bytes | bytearray | memoryview, *, head: int = 0) -> int:
        """Add `data` after the last byte written and return its log position.

        Its first `head` bytes, HEAD at most, are written last: whoever finds something else than
        zeros there knows that the rest was written, even if the process was killed.
        Raises FileFull, FileSealed, or OSError when the disk is full; then nothing changed.
        """
        begin = self.written
        self._write(begin, data, head)
        self.written = begin + len(data)  # last, because readers trust every byte below it
        return self.start + begin

    def address(self, end: int) -> int:
        """Where the first byte of the file is in memory, for code that writes there itself, below `end`.

        It says what it did by `took` or `touched`. 0 where bytes can be written through the file only. Raises as
        `append` does.
        """
        if self.sealed or end > self._mapped_end:
            self._make_room(end)
        if self._staging is not None:
            return self._staging.address(end - self.written, self._committed)
        return self._memory_address() if end <= self._mapped_end else 0

    def offer(self) -> tuple[int, int]:
        """Where the first byte is in memory, and below which offset others may write there; 0 and 0 if nowhere."""
        if self.sealed or not self._is_direct or self._mapped_end <= self.written:
            return 0, 0
        return self._memory_address(), self._mapped_end

    def _memory_address(self) -> int:
        if self._memory is not self._map:
            return memory.address_of(self._memory)
        if not self._map_address:
            self._map_address = memory.address_of(self._map)
        return self._map_address

    def took(self, size: int) -> None:
        """Count `size` bytes as appended that were written at the end, where `address` allowed it."""
        assert self.written + size <= self._mapped_end
        if self._staging is not None:
            self._staging.end += size
        self.written += size

    def touched(self, end: int) -> None:
        """Know that bytes below `end` were written, where `address` allowed it, without moving a position."""
        self._is_overwritten = True
        self._extent = max(self._extent, end)

    def fill(self, data: bytes = b"", *, head: int = 0) -> None:
        """Append `data` and count the rest of the file as written; it stays zeros. As `append`."""
        self.check_not_sealed()
        self.reserve(self.size)
        self._write(self.written, data, head)
        self.written = self.size

    def write_at(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Put `data` at `offset` without moving a position. Not for files with a write buffer.

        Raises FileFull, FileSealed, or OSError when the disk is full; then nothing changed.
        """
        assert self._is_direct, "a buffered file can only be appended to"
        end = offset + len(data)
        if self.sealed or end > self._mapped_end:
            self._write_around_map(offset, data)
        else:
            self._map[offset:end] = data
        self._is_overwritten = True
        self._extent = max(self._extent, end)

    def write_numbers(self, form: struct.Struct, places: Mapping[int, int]) -> None:
        """Put numbers in the same `form` at many offsets. As `write_at`, but what fails may leave some of them."""
        assert self._is_direct, "a buffered file can only be appended to"
        if not places:
            return
        end = max(places) + form.size
        if self.sealed or end > self._mapped_end:
            for offset, number in places.items():
                self.write_at(offset, form.pack(number))
            return
        pack, size, memory = form.pack, form.size, self._map
        for offset, number in places.items():
            memory[offset : offset + size] = pack(number)
        self._is_overwritten = True
        self._extent = max(self._extent, end)

    def read(self, offset: int, size: int) -> bytes:
        """A copy of `size` bytes from `offset` on. Raises OutOfRange."""
        return bytes(self.select(offset, size))

    def select(self, offset: int, size: int) -> memoryview:
        """The `size` bytes from `offset` on, not copied; good for as long as it is kept.

        Raises OutOfRange for what is not readable, or not any more.
        """
        part = self.view[offset : offset + size]
        if offset < 0 or offset + size > self.committed or len(part) != size:
            raise OutOfRange(self.path, asked=offset, begin=0, end=self.committed if self.view else 0)
        return part

    def attach(self, buffer: WriteBuffer) -> None:
        """Send appends through `buffer` from now on; `commit` brings them into the file."""
        assert self._is_direct and self.written == 0 and len(buffer.memory) == self.size
        self._is_direct = False
        self._committed = 0
        self._memory = buffer.memory
        self._buffer = buffer
        self._find_mapped_end()

    def stage(self, chunks: ChunkPool) -> None:
        """Have appends wait in memory from now on; `flush` brings them into the file and onto the disk at once."""
        assert self._is_direct and not self.read_only
        self._is_direct = False
        self._committed = self.written
        self._staging = Staging(chunks, self.written)
        self._find_mapped_end()

    def commit(self, least_pages: int = 0) -> int:
        """Write what only the buffer has into the file; return how far that is.

        A file committed to its end gives its buffer back. Raises SyncFailed, and seals the
        file, when it cannot be written.
        """
        with self._sync_lock:
            buffer = self._buffer
            if buffer is None:
                return self.committed
            target = self.written  # appends go on meanwhile
            if self._is_due(target, self._committed, least_pages):
                self.check_not_sealed()
                self._write_through(buffer, target)
                self._committed = target
            if self._committed == self.size:
                self._detach()
            return self.committed

    def flush(self, least_pages: int = 0) -> int:
        """Force what is readable now, or staged, onto the disk; return how far that is.

        Nothing happens below `least_pages` pending pages, unless the file is full, and nothing
        to a file that is being destroyed. A failed sync is final: the kernel may have dropped
        the pages, so the file is sealed, SyncFailed raised, and no later sync believed.
        """
        with self._sync_lock:
            target = self._flushable  # appends go on while the disk works
            is_due = self._is_due(target, self.flushed, least_pages)
            if not is_due and (least_pages > 0 or not self._is_overwritten):
                return self.flushed
            self.check_not_sealed()
            if self._staging is not None:
                self._write_staged(self._staging, target)
            elif self._sync():
                self.flushed = max(self.flushed, target)
            return self.flushed

    def note_flushed(self, end: int) -> None:
        """What was written below `end` is on disk: the whole file system was synced."""
        with self._sync_lock:
            if not self.sealed:
                self.flushed = max(self.flushed, min(end, self._flushable))

    def sync(self) -> None:
        """Force the whole file onto the disk, whatever the positions say. Raises SyncFailed."""
        with self._sync_lock:
            self.check_not_sealed()
            self._sync()

    def set_end(self, end: int) -> None:
        """Say how far the file is written, as recovery found it. No byte is changed."""
        assert 0 <= end <= self.size and self._buffer is None
        with self._sync_lock:
            self._extent = max(self._extent, self.written)
            if self._staging is not None:
                self._staging.restart(end)
            if self._firming is not None:
                self._firming.skip(end)
            self.written = self._committed = self.flushed = end

    def truncate(self, end: int) -> None:
        """Forget everything from `end` on, and put zeros there, on disk too.

        Without them, records that were cut could come back after a crash.
        """
        assert 0 <= end <= self.size
        with self._sync_lock:
            self.check_not_sealed()
            extent = max(self._extent, self.written)
            if self._buffer is not None:
                clear(self._memory, end, self.written)
            if self._staging is not None:
                self._write_staged(self._staging, self.written)
                self._staging.restart(min(self.written, end))
            # Positions first: readers must not trust bytes that are being cleared.
            self.written = min(self.written, end)
            self._committed = min(self._committed, end)
            self.flushed = min(self.flushed, end)
            if clear(self._map, end, extent, descriptor=self._descriptor):
                self._sync()
            self._extent = end
            if self._firming is not None:
                self._firming.skip(self.written)

    def seal(self, cause: OSError | None = None) -> None:
        """Take no more appends and no more syncs, for `cause`; reading goes on."""
        self._cause = cause  # first, for whoever finds it sealed
        self.sealed = True

    def warm(self, begin: int, end: int) -> None:
        """Make [begin, end) ready for appends, as far as the disk has space.

        It gets zeros if it is firmed, onto the disk if it is staged; else its pages are mapped. Raises SyncFailed.
        """
        if self.acquire():
            try:
                with suppress(OSError):  # whoever appends will be told
                    self.reserve(end)
                if self._firming is not None:
                    self._firm(self._firming, end)
                self.warm_end = max(self.warm_end, end)
                if self._is_direct:
                    memory.populate(self._map, begin, min(end, self._mapped_end))
            except SyncFailed as error:
                self.seal(error.cause)
                raise
            finally:
                self.release()

    def fill_steps(self) -> None:
        """Have zeros written into disk space that is got from now on, but for the first step: see Reserving."""
        self._reserving.is_filled = True

    def advise_random(self) -> None:
        """Tell the kernel not to read ahead, so that the file is kept in single pages or in what is filled at once."""
        self.fill_steps()
        memory.expect_random(self._map)
        self._is_random = True
        self._find_mapped_end()

    def _dispose(self) -> None:
        self.sealed = True
        self.written_cell.give_back()
        if self._buffer is not None:
            self._detach()
        if self._staging is not None:
            self._staging.restart(0)
        if self._firming is not None:
            self._firming.close()
        super()._dispose()
        self._memory = self._map

    def _make_room(self, end: int) -> None:
        """See that bytes can be written below `end`, or say why not."""
        self.check_not_sealed()
        assert not self.read_only, f"{self.path} was opened for reading"
        if end > self.size:
            raise FileFull(f"{self.path}: {end - self.written} bytes wanted, {self.size - self.written} left")
        self.reserve(end)
        if self._firming is not None and self._is_direct:
            self._firm(self._firming, end)  # the preparer is not that far

    def _find_mapped_end(self) -> None:
        with self._guard:  # two threads may find different ones, and the first be the last to say it
            is_safe = not self._is_direct or self._is_random
            end = self._reserving.end if is_safe else self._reserving.mapped_end
            if self._firming is not None and self._is_direct:
                end = min(end, self._firming.end)
            self._mapped_end = end

    def _firm(self, firming: Firming, end: int) -> None:
        is_changed = firming.advance(end, self._reserving.end, unsynced=self.written - self.flushed)
        if is_changed and self._staging is not None:
            firming.sync()
        self._find_mapped_end()

    def _write(self, begin: int, data: bytes | bytearray | memoryview, head: int) -> None:
        if self.sealed or begin + len(data) > self._mapped_end:
            self._write_around_map(begin, data, head)
        elif self._staging is not None:
            self._staging.add(data, self._committed)
        else:
            self._write_mapped(begin, data, head)

    def _write_mapped(self, begin: int, data: bytes | bytearray | memoryview, head: int) -> None:
        with memoryview(data) as source:
            self._memory[begin + head : begin + len(source)] = source[head:]
            self._memory[begin : begin + head] = source[:head]

    def _write_around_map(self, begin: int, data: bytes | bytearray | memoryview, head: int = 0) -> None:
        """Write where memory may not be written yet, or say why that cannot be."""
        end = begin + len(data)
        self._make_room(end)
        if end <= self._mapped_end:
            self._write(begin, data, head)
            return
        self._extent = max(self._extent, end)  # a write that fails half-way is cleared by a truncate
        write_head_last(self._descriptor, data, begin, head=head)  # the map shows it at once

    def check_not_sealed(self) -> None:
        """Raise FileSealed if it takes no more appends."""
        if self.sealed:
            reason = "closed" if self._is_closed else f"sealed, because it could not be synced ({self._cause})"
            raise FileSealed(f"{self.path} is {reason}; open the store again")

    def _is_due(self, target: int, done: int, least_pages: int) -> bool:
        if target <= done:
            return False
        return self.is_full or target // PAGE - done // PAGE >= least_pages

    def _sync(self) -> bool:
        """Sync, unless the file is going away: then nothing may be claimed of it."""
        if not self.acquire():
            return False
        try:
            self._is_overwritten = False  # before the sync: what is overwritten during it needs another
            os.fdatasync(self._descriptor)  # covers pages changed through the map
        except OSError as error:
            self._is_overwritten = True
            self.seal(error)
            raise SyncFailed(self.path, error) from error
        finally:
            self.release()
        return True

    def _write_through(self, buffer: WriteBuffer, target: int) -> None:
        try:
            with memoryview(buffer.memory) as data:
                write_head_last(self._descriptor, data[self._committed : target], self._committed, head=HEAD)
        except OSError as error:
            self.seal(error)
            raise SyncFailed(self.path, error) from error

    @property
    def _flushable(self) -> int:
        return self.committed if self._staging is None else self.written

    def _write_staged(self, staging: Staging, target: int) -> None:
        """Bring what waits in memory onto the disk, unless the file is going away."""
        if not self.acquire():
            return
        try:
            is_full = target == self.size
            staging.write_out(self._descriptor, self._committed, target, firming=self._firming, is_full=is_full)
        except OSError as error:
            self.seal(error)
            raise SyncFailed(self.path, error) from error
        finally:
            self.release()
        self._committed = self.flushed = target

    def _detach(self) -> None:
        buffer = self._buffer
        assert buffer is not None
        self._memory = self._map
        self._buffer = None
        self._is_direct = True
        self._find_mapped_end()
        buffer.give_back()
