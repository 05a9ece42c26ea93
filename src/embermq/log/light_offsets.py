"""The next offsets of light queues, of which there may be a million: kept for those used lately, else looked up.

What was given but is not in its queue yet cannot be looked up. So offsets are kept in two generations: the older one is
let go only when the log is dispatched to where it ended when the younger one began.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

GENERATION: Final = 32_768  # queues


class LightOffsets:
    """The next offset of each light queue. One thread uses it."""

    def __init__(
        self, find: Callable[[str], int], *, log_end: Callable[[], int], dispatched: Callable[[], int]
    ) -> None:
        """`find` tells the next offset of a light queue as far as it is dispatched."""
        self._find = find
        self._log_end = log_end
        self._dispatched = dispatched
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}
        self._old_end = 0  # all offsets of the older generation were given to records before it

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._young) + len(self._old)

    def next(self, name: bytes) -> int:
        """The offset that the next message of this queue will get."""
        offset = self._young.get(name)
        if offset is None:
            offset = self._old.get(name)
        return self._find(name.decode()) if offset is None else offset

    def confirm(self, offsets: Mapping[bytes, int]) -> None:
        """These are the next ones: what came before is in the log."""
        self._young.update(offsets)
        if len(self._young) >= GENERATION and self._dispatched() >= self._old_end:
            self._old, self._young, self._old_end = self._young, {}, self._log_end()

    def forget(self, name: bytes) -> None:
        """The queue is deleted, and begins anew."""
        self._young.pop(name, None)
        self._old.pop(name, None)
