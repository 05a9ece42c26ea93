"""Disk space for a file, got before anything is written: a mapped write that finds none kills the process."""

from __future__ import annotations

import mmap
import os
import threading
from pathlib import Path

# The kernel keeps a file in aligned blocks of up to this many bytes. The first mapped write to one
# needs disk space for all of it, so that one which reaches beyond the reserved space can still end
# in SIGBUS. No kernel makes larger ones: its page index does not hold them. A file that is read at random
# is kept in single pages.
_LARGEST_BLOCK = mmap.PAGESIZE << 11


class Reserving:
    """The space of one file of `size` bytes, got in steps, or all at once for a `step` of 0. Safe from every thread."""

    __slots__ = ("_descriptor", "_guard", "_path", "_size", "_step", "end")

    def __init__(self, path: Path, descriptor: int, size: int, step: int) -> None:
        self.end = 0
        self._path = path
        self._descriptor = descriptor
        self._size = size
        self._step = step
        self._guard = threading.Lock()

    @property
    def mapped_end(self) -> int:
        """Up to where the file can be written through memory."""
        return self.end if self.end == self._size else self.end - self.end % _LARGEST_BLOCK

    def reserve(self, end: int) -> None:
        """Get disk space for the bytes [0, end), and what is left of the step. Raises OSError with nothing changed."""
        step = self._step
        target = min(self._size, -(-end // step) * step) if step else self._size
        with self._guard:
            if target <= self.end:  # another thread was faster
                return
            try:
                os.posix_fallocate(self._descriptor, self.end, target - self.end)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self._path)) from error
            self.end = target
