"""One file in memory, for as long as somebody uses it. It knows nothing of what is written there."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from embermq.errors import OutOfRange
from embermq.files import memory
from embermq.files.holding import Holdable
from embermq.files.zeroing import find_last_nonzero

_NOTHING = memoryview(b"")
_NO_MAP = memoryview(bytearray(1))  # stands in for the map of a closed file


class FileMap(Holdable):
    """The file at `path`, mapped whole. `view` stays readable when the file is closed, or deleted."""

    __slots__ = ("_descriptor", "_is_closed", "_is_locked", "_map", "path", "read_only", "size", "view")

    def __init__(self, path: Path, descriptor: int, mapping: memoryview, *, read_only: bool) -> None:
        super().__init__()
        self.path = path
        self.size = len(mapping)
        self.read_only = read_only
        self.view = mapping.toreadonly()
        self._descriptor = descriptor
        self._map = mapping
        self._is_locked = False
        self._is_closed = False

    @property
    def modified_ms(self) -> int:
        """When the file was last changed, as its directory says."""
        return os.stat(self.path).st_mtime_ns // 1_000_000

    def find_last_nonzero(self, begin: int) -> int | None:
        """Where the last byte from `begin` on is that is not zero, written or not."""
        return find_last_nonzero(self._map, begin, self.size, descriptor=self._descriptor)

    def is_resident(self, begin: int, end: int) -> bool:
        """Whether [begin, end) can be read without waiting for the disk; False where nobody can tell."""
        return not self.read_only and not self._is_closed and memory.is_resident(self._map, begin, end)

    def fetch(self, begin: int, end: int) -> None:
        """Have [begin, end) come from the disk, and wait for it. For threads that may. Raises OSError."""
        descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.pread(descriptor, end - begin, begin)
        finally:
            os.close(descriptor)

    def forget_pages(self, begin: int, end: int) -> None:
        """Have the kernel let go of the pages [begin, end), as far as they are on the disk; readers find them there.

        Not if the file is going away.
        """
        if not self.acquire():
            return
        try:
            with suppress(OSError):  # it is a wish
                memory.forget(self._map, begin, end)  # first, because pages that somebody has mapped are kept
                os.posix_fadvise(self._descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)
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
        self._is_closed = True
        # The map goes with its last view.
        self.view = _NOTHING
        self._map = _NO_MAP
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _gone(self) -> Exception:
        return OutOfRange(self.path, asked=0, begin=0, end=0)
