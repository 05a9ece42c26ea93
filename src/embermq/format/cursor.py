"""Bounds-checked reading: nothing is taken that is not there."""

from __future__ import annotations


class Truncated(ValueError):
    """More bytes were asked for than are left. Codecs turn it into CorruptRecord."""


class Cursor:
    """Reads `data` from `at` on, and moves on by what it read."""

    __slots__ = ("_data", "at")

    def __init__(self, data: memoryview | bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def take(self, size: int) -> bytes:
        """The next `size` bytes. Raises Truncated, and stays, if there are not that many."""
        if size < 0 or size > self.left:
            raise Truncated(f"{size} bytes wanted at {self.at}, {self.left} left")
        begin = self.at
        self.at += size
        return bytes(self._data[begin : self.at])

    def unsigned(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def signed(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big", signed=True)
