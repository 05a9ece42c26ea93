"""Where in the last part of some files others were seen reading a moment ago.

    ├───────────────────┼──────── reader ── reader ──────────┤
                      begin         ↑ the last of them

Nobody says when reading ends, nor who it is that reads. So it is short what counts as a moment: in a second, a reader
who follows a fast writer is a gigabyte further.
"""

from __future__ import annotations

from typing import Final

MOMENT_S: Final = 0.1  # for at least so long, and until the second question after it, who was seen counts
_NOBODY: Final = 2**63


class Readers:
    """Those who read at `begin` or behind it."""

    __slots__ = ("_lowest", "_lowest_before", "_turned_at", "begin")

    def __init__(self) -> None:
        self.begin = 0
        self._lowest = self._lowest_before = _NOBODY
        self._turned_at = 0.0

    def note(self, position: int) -> None:
        """Somebody reads at `position`, who is likely to go on there. Cheap, and safe from every thread."""
        if self.begin <= position < self._lowest:
            self._lowest = position

    def find_last(self, now: float) -> int:
        """Where the last of them is, far behind everything if there is none. For one thread."""
        if now - self._turned_at >= MOMENT_S:
            self._turned_at = now
            self._lowest_before, self._lowest = self._lowest, _NOBODY
        return min(self._lowest_before, self._lowest)
