"""The file `abort`: while it is there, the store is open, or was not closed.

It also tells other processes, through mapped memory and at no cost, up to where the log is dispatched: whoever reads
the files of an open store reads no further.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from embermq.files.durable import sync_directory
from embermq.format.running_mark import MARK_SIZE, POSITION_AT, encode_mark


class RunningMark:
    """By it the next opening, ours or RocketMQ's, knows that this one did not end cleanly."""

    def __init__(self, path: Path) -> None:
        self.is_made = False
        self._path = path
        self._position = memoryview(bytearray(8)).cast("q")  # mapped once the mark is made

    def silence(self) -> None:
        """Have a mark that a crash left say no position: recovery may cut the log before it. Raises OSError."""
        if self._path.exists():
            self._path.write_text(str(os.getpid()))

    def make(self) -> None:
        """Leave the mark. Raises OSError."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.pwrite(descriptor, encode_mark(os.getpid(), self._position[0]), 0)
            os.ftruncate(descriptor, MARK_SIZE)
            os.fsync(descriptor)  # which also gives it its place on the disk, before it is written through a map
            mapped = mmap.mmap(descriptor, MARK_SIZE)
        finally:
            os.close(descriptor)
        self._position = memoryview(mapped)[POSITION_AT:MARK_SIZE].cast("q")
        sync_directory(self._path.parent)
        self.is_made = True

    def publish(self, position: int) -> None:
        """Tell everybody that the log is dispatched up to `position`."""
        self._position[0] = position

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
        sync_directory(self._path.parent)
