"""Memory that stands between appends and the file, in pooled use.

Appends fill a buffer as large as the file; `commit` copies it into the file in large
writes. The pool has a fixed number of buffers, so that memory stays bounded.
"""

from __future__ import annotations

import mmap
import threading
from collections import deque


class WriteBuffer:
    """One buffer, all zeros when borrowed."""

    __slots__ = ("_pool", "memory")

    def __init__(self, pool: WriteBufferPool, size: int) -> None:
        self._pool = pool
        self.memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def give_back(self) -> None:
        """Return it to its pool."""
        self._pool.give_back(self)


class WriteBufferPool:
    """`count` buffers of `size` bytes each. Safe from every thread."""

    def __init__(self, count: int, size: int) -> None:
        self.count = count
        self.size = size
        self._free = deque(WriteBuffer(self, size) for _ in range(count))
        self._returned = threading.Condition()

    @property
    def free(self) -> int:
        """How many can be borrowed now."""
        return len(self._free)

    def borrow(self, timeout: float = 0) -> WriteBuffer | None:
        """A buffer, waiting up to `timeout` seconds for one; None when all are out."""
        with self._returned:
            self._returned.wait_for(lambda: self._free, timeout)
            return self._free.popleft() if self._free else None

    def give_back(self, buffer: WriteBuffer) -> None:
        """Take `buffer` back, empty it, and hand its memory to the system until it is used again."""
        buffer.memory.madvise(mmap.MADV_DONTNEED)  # a private map reads as zeros afterwards
        with self._returned:
            assert buffer not in self._free and len(self._free) < self.count
            self._free.append(buffer)
            self._returned.notify()
