"""Things that may go only when nobody uses them any more.

    available ──shut──> shut, still held ──last release──> free to go

A holder keeps a file from being deleted. It does not keep its memory readable: any
view taken from a map does that by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self


class Holdable:
    """Counts who holds it; once shut it takes no new holders. Safe from every thread."""

    __slots__ = ("_guard", "_holds", "_is_disposed", "_must_dispose", "first_shutdown_ms", "is_available")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._holds = 0
        self._must_dispose = False
        self._is_disposed = False
        self.is_available = True
        self.first_shutdown_ms: int | None = None

    def acquire(self) -> bool:
        """Hold it, unless it is on its way out. Every True is to be paired with a `release`."""
        with self._guard:
            if self.is_available:
                self._holds += 1
            return self.is_available

    def release(self) -> None:
        """Give up one hold."""
        with self._guard:
            assert self._holds > 0, "released more often than acquired"
            self._holds -= 1
            is_last = self._is_last_use()
        if is_last:
            self._dispose()

    @contextmanager
    def hold(self) -> Iterator[Self]:
        """Hold it for the length of a `with`. Raises what `_gone` gives when it is on its way out."""
        if not self.acquire():
            raise self._gone()
        try:
            yield self
        finally:
            self.release()

    def _shut(self, now_ms: int) -> bool:
        """Take no more holders; True when there are none left."""
        with self._guard:
            self.is_available = False
            if self.first_shutdown_ms is None:
                self.first_shutdown_ms = now_ms
            return self._holds == 0

    def _dispose_when_free(self) -> None:
        """Take no more holders, and dispose now or with the last one that leaves."""
        with self._guard:
            self.is_available = False
            self._must_dispose = True
            is_last = self._is_last_use()
        if is_last:
            self._dispose()

    def _is_last_use(self) -> bool:
        """Whether the caller, who has the guard, is to dispose of it. A descriptor closed twice is another's."""
        if self._is_disposed or not self._must_dispose or self._holds:
            return False
        self._is_disposed = True
        return True

    def _dispose(self) -> None:
        """Let go of everything. Called once."""
        raise NotImplementedError

    def _gone(self) -> Exception:
        """What a would-be holder is told."""
        raise NotImplementedError
