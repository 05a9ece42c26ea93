"""Folders of finished runs, kept until the system has forgotten their files.

To delete a file gives back the memory that its pages have in the cache, and memory that was given back is slow to get
again on a virtual machine: see bench/loadgen/full_memory.py. So a folder is deleted when folders of more bytes than the
memory has came after it: nothing of it is in the cache then.
"""

from __future__ import annotations

import atexit
import os
import shutil
from collections import deque
from pathlib import Path
from typing import Final

LEAST_FREE: Final = 16 * 1024**3  # bytes of disk that are left for the runs to come


class OldFolders:
    """Deletes folders late, and all of them when the program ends."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._kept: deque[tuple[Path, int]] = deque()
        self._size = 0
        atexit.register(self.clear)

    def keep(self, folder: Path) -> None:
        """Take a folder that nobody needs."""
        size = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
        self._kept.append((folder, size))
        self._size += size
        while self._size - self._kept[0][1] > self._memory:
            self._delete_oldest()
        while self._kept and shutil.disk_usage(folder.parent).free < LEAST_FREE:
            self._delete_oldest()

    def clear(self) -> None:
        while self._kept:
            self._delete_oldest()

    def _delete_oldest(self) -> None:
        folder, size = self._kept.popleft()
        self._size -= size
        shutil.rmtree(folder, ignore_errors=True)


def memory_size() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
