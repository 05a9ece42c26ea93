"""Disk space for a file, got before anything is written: a mapped write that finds none kills the process.

The first mapped write to a page of space that is only reserved took 4 to 10 us on ext4. Zeros that were written in
pieces of 64 KiB took 0.7 us a page, and 0.14 to be mapped together. Entries of queues and of the index are small, so
that this was more than the rest that is done for them. Where it `is_filled`, zeros are written into all space but the
first step, which is all that most of very many queues ever need; and a file that grows gets more at a time.
"""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path

from embermq.files.writing import write_whole
from embermq.files.zeroing import iter_holes

_MOST_MORE = 1 << 20  # bytes that a file that grows gets beyond its step
_ZEROS = memoryview(bytes(1 << 21))

# The kernel keeps a file in aligned blocks of up to this many bytes. The first mapped write to one
# needs disk space for all of it, so that one which reaches beyond the reserved space can still end
# in SIGBUS. No kernel makes larger ones: its page index does not hold them. A file that is read at random
# is kept in single pages.
_LARGEST_BLOCK = mmap.PAGESIZE << 11


class Reserving:
    """The space of one file of `size` bytes, got in steps, or all at once for a `step` of 0. Safe from every thread."""

    __slots__ = ("_descriptor", "_guard", "_path", "_size", "_step", "end", "is_filled")

    def __init__(self, path: Path, descriptor: int, size: int, step: int) -> None:
        self.end = 0
        self.is_filled = False
        self._path = path
        self._descriptor = descriptor
        self._size = size
        self._step = step
        self._guard = threading.Lock()

    @property
    def mapped_end(self) -> int:
        """Up to where the file can be written through memory."""
        return self.end if self.end == self._size else self.end - self.end % _LARGEST_BLOCK

    def reserve(self, end: int) -> bool:
        """Get disk space for the bytes [0, end), and what is left of the step; whether there are zeros now.

        Raises OSError with nothing changed.
        """
        with self._guard:
            if end <= self.end:  # another thread was faster
                return False
            target, is_filled = self._target(end), self.is_filled and self.end > 0
            try:
                os.posix_fallocate(self._descriptor, self.end, target - self.end)
                if is_filled:
                    self._fill(target)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self._path)) from error
            self.end = target
        return is_filled

    def _target(self, end: int) -> int:
        step = self._step
        if not step:
            return self._size
        if self.is_filled:
            end = max(end, self.end + min(self.end, _MOST_MORE))
        return min(self._size, -(-end // step) * step)

    def _fill(self, target: int) -> None:
        """Write zeros up to `target` where there is no data; nobody writes there yet."""
        for first, last in iter_holes(self._descriptor, self.end, target):
            for at in range(first, last, len(_ZEROS)):
                write_whole(self._descriptor, _ZEROS[: last - at], at)
