"""Numbers at fixed places in memory, for what plain code and kernels both change: how far a file is written.

A cell is one 64-bit number. It belongs to whoever took it until it is given back.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from typing import Final

MOST_CELLS: Final = 1 << 22

_memory: Final = mmap.mmap(-1, MOST_CELLS * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
_numbers: Final = memoryview(_memory).cast("q")
_address: Final = ctypes.addressof(ctypes.c_char.from_buffer(_memory))
_guard: Final = threading.Lock()
_free: Final[list[int]] = []
_next = 0


class Cell:
    """One number; `view[0]` is it, and `address` where it is."""

    __slots__ = ("_place", "address", "view")

    def __init__(self) -> None:
        global _next  # noqa: PLW0603
        with _guard:
            if _free:
                self._place = _free.pop()
            else:
                self._place = _next
                _next += 1
        self.address = _address + self._place * 8
        self.view = _numbers[self._place : self._place + 1]
        self.view[0] = 0

    def give_back(self) -> None:
        """Let others have its place; the number stays with this object, elsewhere."""
        if self._place < 0:
            return
        kept = memoryview(bytearray(8)).cast("q")
        kept[0] = self.view[0]
        self.view = kept
        with _guard:
            _free.append(self._place)
        self._place = -1
        self.address = 0
