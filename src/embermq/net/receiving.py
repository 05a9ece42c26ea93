"""Where bytes are received: memory that connections share, and what is left of a frame between two reads.

    ├ kept: others still work on it ┼ part of a frame ┼ what is received next   …   ┤
    0                              end

A read goes behind what is kept. Nobody needs it any longer when the read is dealt with, unless somebody asks for it
to be kept. A frame that is large gets memory of its own, so that its parts are not moved again and again.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Final

READ_SIZE: Final = 256 * 1024  # bytes received at once, at most
LARGE_FRAME: Final = 64 * 1024
SHARED_SIZE: Final = 8 * 1024 * 1024


class ReceiveBuffer:
    """The memory. One thread uses it, for one read at a time."""

    def __init__(self, size: int = READ_SIZE + LARGE_FRAME) -> None:
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.size = size
        self.read_size = READ_SIZE
        self.end = 0
        self.view = memoryview(self._memory)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self.make_room: Callable[[], None] = lambda: None  # have those who keep bytes finish with them

    def begin(self, part: bytes) -> memoryview:
        """Put the part of a frame that is there already behind what is kept; the space to receive the rest in."""
        if self.size - self.end < READ_SIZE + LARGE_FRAME:
            self.make_room()
        end = self.end
        self.view[end : end + len(part)] = part
        return self.view[end + len(part) : end + len(part) + READ_SIZE]

    def keep(self, end: int) -> None:
        """Leave the bytes before `end` alone until `free`."""
        self.end = end

    def free(self) -> None:
        """Nobody needs what was kept."""
        self.end = 0
