"""One fixed-size, memory-mapped file. It knows positions, never messages.

    0          flushed       committed        written             size
    ├──────────────┼──────────────┼──────────────┼──────────────────┤
    │ safe on disk │ in the file  │ in the write │ zeros, not yet used
    │              │              │ buffer only  │

Without a write buffer `committed` is `written`: appends go straight into the map, or into the
file itself where disk space is reserved for a part of it only.

One thread appends; any number may read what is already readable. Another thread may
commit and flush. Positions in here count from the beginning of the file.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Self

from embermq.errors import FileFull, FileSealed, OutOfRange, SyncFailed, WrongFileSize
from embermq.files import memory
from embermq.files.holding import Holdable
from embermq.files.write_buffer import WriteBuffer
from embermq.files.writing import write_head_last
from embermq.files.zeroing import clear, find_last_nonzero

HEAD = 8  # bytes that one instruction writes, so that they are there or not
PAGE = 4096  # what `least_pages` counts, whatever the machine's pages are

# The kernel keeps a file in aligned blocks of up to this many bytes. The first mapped write to one
# needs disk space for all of it, so that one which reaches beyond the reserved space can still end
# in SIGBUS. No kernel makes larger ones: its page index does not hold them.
_LARGEST_BLOCK = mmap.PAGESIZE << 11

_NOTHING = memoryview(b"")
_NO_MAP = mmap.mmap(-1, 1)  # stands in for the map of a closed file


class MappedFile(Holdable):
    """The `size` bytes of a log that begin at position `start`."""

    __slots__ = (
        "_buffer", "_committed", "_descriptor", "_extent", "_is_closed", "_is_locked",
        "_is_overwritten", "_map", "_mapped_end", "_memory", "_reserve_step", "_reserved",
        "_sync_lock", "flushed", "path", "read_only", "sealed", "size", "start", "view", "warm_end",
        "written",
    )  # fmt: skip

    def __init__(
        self, path: Path, descriptor: int, mapping: mmap.mmap, *, start: int, written: int, is_new: bool,
        read_only: bool, reserve_step: int,
    ) -> None:  # fmt: skip
        super().__init__()
        self.path = path
        self.start = start
        self.size = len(mapping)
        self.read_only = read_only
        self.sealed = False
        self.view = memoryview(mapping).toreadonly()
        self.written = self.flushed = self._committed = written
        self.warm_end = 0  # up to where warm pages were asked for; the preparer's
        self._extent = written if is_new else self.size  # above this, all is zero unless `written` is higher
        self._reserved = 0
        self._mapped_end = 0  # below this, bytes may be written through memory; see _LARGEST_BLOCK
        self._reserve_step = reserve_step
        self._descriptor = descriptor
        self._map = mapping
        self._memory = mapping  # where appends go
        self._buffer: WriteBuffer | None = None
        self._is_overwritten = False
        self._is_locked = False
        self._is_closed = False
        # One sync at a time: the kernel reports a failed write-back once, so of two syncs side by
        # side one would be told of success. Appends never take this lock.
        self._sync_lock = Lock()

    @classmethod
    def open(
        cls, path: Path, size: int, *, start: int | None = None, written: int = 0, read_only: bool = False,
        buffer: WriteBuffer | None = None, reserve_step: int = 0,
    ) -> Self:  # fmt: skip
        """Map the file at `path`; a missing or empty one is made, full of zeros.

        `start` is the number its name spells, unless given. Disk space is reserved
        `reserve_step` bytes at a time, or all at once for 0. The caller syncs the directory.
        Raises WrongFileSize, and OSError when the file cannot be made or opened.
        """
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        try:
            found = os.fstat(descriptor).st_size
            if found == 0 and not read_only:
                os.ftruncate(descriptor, size)
            elif found != size:
                raise WrongFileSize(path, found=found, expected=size)
            access = mmap.ACCESS_READ if read_only else mmap.ACCESS_WRITE
            mapping = mmap.mmap(descriptor, size, access=access)
            begin = int(path.name) if start is None else start
        except BaseException:
            os.close(descriptor)
            raise
        if read_only:
            os.close(descriptor)
            descriptor = -1
        file = cls(
            path, descriptor, mapping, start=begin, written=written, is_new=found == 0,
            read_only=read_only, reserve_step=reserve_step,
        )  # fmt: skip
        if buffer is not None:
            file.attach(buffer)
        return file

    @property
    def committed(self) -> int:
        """How far the bytes are in the file, not only in a write buffer."""
        return self.written if self._buffer is None else self._committed

    readable = committed

    @property
    def is_full(self) -> bool:
        """Whether not one more byte fits."""
        return self.written == self.size

    @property
    def is_dirty(self) -> bool:
        """Whether a `flush` has something to do."""
        return self._is_overwritten or self.committed > self.flushed

    @property
    def modified_ms(self) -> int:
        """When the file was last changed, as its directory says."""
        return os.stat(self.path).st_mtime_ns // 1_000_000

    def reserve(self, end: int) -> None:
        """Get disk space for the bytes [0, end).

        A mapped write to space the disk does not have would kill the process (SIGBUS), so
        every write comes after this. Raises OSError (ENOSPC) with nothing changed.
        """
        if end <= self._reserved:
            return
        step = self._reserve_step
        target = min(self.size, -(-end // step) * step) if step else self.size
        try:
            os.posix_fallocate(self._descriptor, self._reserved, target - self._reserved)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._reserved = max(self._reserved, target)  # the preparer may have got further meanwhile
        self._find_mapped_end()

    def append(self, data: bytes | bytearray | memoryview, *, head: int = 0) -> int:
        """Add `data` after the last byte written and return its log position.

        Its first `head` bytes, HEAD at most, are written last: whoever finds something else than
        zeros there knows that the rest was written, even if the process was killed.
        Raises FileFull, FileSealed, or OSError when the disk is full; then nothing changed.
        """
        begin = self.written
        end = begin + len(data)
        if self.sealed or end > self._mapped_end:
            self._write_around_map(begin, data, head)
        else:
            self._write_mapped(begin, data, head)
        self.written = end  # last, because readers trust every byte below it
        return self.start + begin

    def append_with(self, write: Callable[[memoryview, int], int]) -> int:
        """Let `write` put bytes straight into the free space, and return their log position.

        It is given that space and the log position where it begins, and returns how many
        bytes it used. It must not keep the view. If it raises, nothing was appended.
        """
        begin = self.written
        self._make_room(self.size)
        with memoryview(self._memory) as whole, whole[begin:] as space:
            try:
                used = write(space, self.start + begin)
            except BaseException:
                clear(self._memory, begin, self.size, descriptor=None if self._buffer else self._descriptor)
                raise
        assert 0 <= used <= self.size - begin, f"{used} bytes used of {self.size - begin}"
        self.written = begin + used
        return self.start + begin

    def fill(self) -> None:
        """Count the rest of the file as written; it stays zeros."""
        self._make_room(self.size)
        self.written = self.size

    def write_at(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Put `data` at `offset` without moving a position. Not for files with a write buffer.

        Raises FileFull, FileSealed, or OSError when the disk is full; then nothing changed.
        """
        assert self._buffer is None, "a buffered file can only be appended to"
        end = offset + len(data)
        if self.sealed or end > self._mapped_end:
            self._write_around_map(offset, data)
        else:
            self._map[offset:end] = data
        self._is_overwritten = True
        self._extent = max(self._extent, end)

    def write_numbers(self, form: struct.Struct, places: Mapping[int, int]) -> None:
        """Put numbers in the same `form` at many offsets. As `write_at`, but what fails may leave some of them."""
        assert self._buffer is None, "a buffered file can only be appended to"
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
        assert self._buffer is None and self.written == 0 and len(buffer.memory) == self.size
        self._committed = 0
        self._memory = buffer.memory
        self._buffer = buffer
        self._find_mapped_end()

    def commit(self, least_pages: int = 0) -> int:
        """Write what only the buffer has into the file; return how far that is.

        A file committed to its end gives its buffer back. Raises SyncFailed, and seals the
        file, when it cannot be written.
        """
        with self._sync_lock:
            buffer = self._buffer
            if buffer is None:
                return self.written
            target = self.written  # appends go on meanwhile
            if self._is_due(target, self._committed, least_pages):
                self._check_not_sealed()
                self._write_through(buffer, target)
                self._committed = target
            if self._committed == self.size:
                self._detach()
            return self.committed

    def flush(self, least_pages: int = 0) -> int:
        """Force what is readable now onto the disk; return how far that is.

        Nothing happens below `least_pages` pending pages, unless the file is full, and nothing
        to a file that is being destroyed. A failed sync is final: the kernel may have dropped
        the pages, so the file is sealed, SyncFailed raised, and no later sync believed.
        """
        with self._sync_lock:
            target = self.committed  # appends go on while the disk works
            is_due = self._is_due(target, self.flushed, least_pages)
            if not is_due and (least_pages > 0 or not self._is_overwritten):
                return self.flushed
            self._check_not_sealed()
            if self._sync():
                self.flushed = max(self.flushed, target)
            return self.flushed

    def sync(self) -> None:
        """Force the whole file onto the disk, whatever the positions say. Raises SyncFailed."""
        with self._sync_lock:
            self._check_not_sealed()
            self._sync()

    def set_end(self, end: int) -> None:
        """Say how far the file is written, as recovery found it. No byte is changed."""
        assert 0 <= end <= self.size and self._buffer is None
        with self._sync_lock:
            self._extent = max(self._extent, self.written)
            self.written = self._committed = self.flushed = end

    def truncate(self, end: int) -> None:
        """Forget everything from `end` on, and put zeros there, on disk too.

        Without them, records that were cut could come back after a crash.
        """
        assert 0 <= end <= self.size
        with self._sync_lock:
            self._check_not_sealed()
            extent = max(self._extent, self.written)
            if self._buffer is not None:
                clear(self._memory, end, self.written)
            # Positions first: readers must not trust bytes that are being cleared.
            self.written = min(self.written, end)
            self._committed = min(self._committed, end)
            self.flushed = min(self.flushed, end)
            if clear(self._map, end, extent, descriptor=self._descriptor):
                self._sync()
            self._extent = end

    def find_last_nonzero(self, begin: int) -> int | None:
        """Where the last byte from `begin` on is that is not zero, written or not."""
        return find_last_nonzero(self._map, begin, self.size, descriptor=self._descriptor)

    def seal(self) -> None:
        """Take no more appends and no more syncs; reading goes on."""
        self.sealed = True

    def warm(self, begin: int, end: int) -> None:
        """Bring the pages of [begin, end) into memory, ready for writing, as far as the disk has space."""
        if self.acquire():
            try:
                with suppress(OSError):  # whoever appends will be told
                    self.reserve(end)
                memory.populate(self._map, begin, min(end, self._mapped_end))
            finally:
                self.release()

    def lock_pages(self) -> None:
        """Keep the pages in memory once they are used. Raises OSError where the system forbids it."""
        memory.lock(self._map)
        self._is_locked = True

    def unlock_pages(self) -> None:
        """Undo `lock_pages`."""
        if self._is_locked:
            self._is_locked = False
            memory.unlock(self._map)

    def advise_random(self) -> None:
        """Tell the kernel not to read ahead."""
        self._map.madvise(mmap.MADV_RANDOM)

    def destroy(self, *, force: bool = False, now_ms: int | None = None) -> bool:
        """Delete the file once nobody holds it; True when it is gone.

        After the first call it takes no new holders. `force` deletes it under their feet: what
        they have selected stays readable. The caller syncs the directory.
        """
        is_free = self._shut(time.time_ns() // 1_000_000 if now_ms is None else now_ms)
        if not (is_free or force):
            return False
        self.path.unlink(missing_ok=True)
        self.close()
        return True

    def close(self) -> None:
        """Let go of map and descriptor, now or with the last holder. Selected views stay readable."""
        self._dispose_when_free()

    def _dispose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = self.sealed = True
        # Never mmap.close(): it fails while a view is out. The map goes with its last view.
        self.view = _NOTHING
        if self._buffer is not None:
            self._detach()
        self._map = self._memory = _NO_MAP
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _gone(self) -> Exception:
        return OutOfRange(self.path, asked=0, begin=0, end=0)

    def _make_room(self, end: int) -> None:
        """See that bytes can be written below `end`, or say why not."""
        self._check_not_sealed()
        assert not self.read_only, f"{self.path} was opened for reading"
        if end > self.size:
            raise FileFull(f"{self.path}: {end - self.written} bytes wanted, {self.size - self.written} left")
        self.reserve(end)

    def _find_mapped_end(self) -> None:
        is_safe = self._buffer is not None or self._reserved == self.size
        self._mapped_end = self._reserved - (0 if is_safe else self._reserved % _LARGEST_BLOCK)

    def _write_mapped(self, begin: int, data: bytes | bytearray | memoryview, head: int) -> None:
        with memoryview(data) as source:
            self._memory[begin + head : begin + len(source)] = source[head:]
            self._memory[begin : begin + head] = source[:head]

    def _write_around_map(self, begin: int, data: bytes | bytearray | memoryview, head: int = 0) -> None:
        """Write where memory may not be written yet, or say why that cannot be."""
        end = begin + len(data)
        self._make_room(end)
        if end <= self._mapped_end:
            self._write_mapped(begin, data, head)
            return
        self._extent = max(self._extent, end)  # a write that fails half-way is cleared by a truncate
        write_head_last(self._descriptor, data, begin, head=head)  # the map shows it at once

    def _check_not_sealed(self) -> None:
        if self.sealed:
            reason = "closed" if self._is_closed else "sealed, because it could not be synced"
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
            self.seal()
            raise SyncFailed(self.path, error) from error
        finally:
            self.release()
        return True

    def _write_through(self, buffer: WriteBuffer, target: int) -> None:
        try:
            with memoryview(buffer.memory) as data:
                write_head_last(self._descriptor, data[self._committed : target], self._committed, head=HEAD)
        except OSError as error:
            self.seal()
            raise SyncFailed(self.path, error) from error

    def _detach(self) -> None:
        buffer = self._buffer
        assert buffer is not None
        self._memory = self._map
        self._buffer = None
        self._find_mapped_end()
        buffer.give_back()
