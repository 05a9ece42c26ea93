"""Memory that is full of cached file pages before anything is measured, as it is on any server after a while.

Then a page for new data is one that held old data. On a fresh machine it is one that was never touched; on a virtual
machine its first touch asks the host for it, and takes longer than all the rest that is done for a message. The same is
true of memory that a finished run gave back, so it is filled again before each run.
"""

from __future__ import annotations

import mmap
import os
import re
import tempfile
from pathlib import Path
from typing import Final

LEAST_FREE: Final = 640 * 1024 * 1024  # bytes; the system itself begins to make room below some of that
_LEFT_FREE: Final = 160 * 1024 * 1024
_STEP: Final = 4 * 1024 * 1024
_MEMORY: Final = Path("/proc/meminfo")


class FullMemory:
    """A file with nothing in it, larger than the memory; reading it takes memory, and no disk."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=folder, prefix="memory-")  # noqa: SIM115 (it lives as long as this)
        self._size = _bytes_of("MemTotal") // _STEP * _STEP
        self._file.truncate(self._size)
        self._at = 0
        self._buffer = bytearray(_STEP)

    def fill(self) -> None:
        """Have little memory left that nobody uses, and none of it never touched."""
        self._read()
        _touch_free()

    def _read(self) -> None:
        for _ in range(self._size // _STEP):
            if _bytes_of("MemFree") < LEAST_FREE:
                return
            os.preadv(self._file.fileno(), [self._buffer], self._at)
            self._at = (self._at + _STEP) % self._size


def _touch_free() -> None:
    """Touch what is left: files that grow by large blocks are given just those that nobody had a part of before."""
    size = _bytes_of("MemFree") - _LEFT_FREE
    if size > 0:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def _bytes_of(name: str) -> int:
    found = re.search(rf"{name}:\s*(\d+) kB", _MEMORY.read_text())
    assert found is not None, f"{_MEMORY} has no {name}"
    return int(found[1]) * 1024
