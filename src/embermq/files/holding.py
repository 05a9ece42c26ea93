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

    __slots__ = ("_guard", "_holds", "_must_dispose", "first_shutdown_ms", "is_available")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._holds = 0
        self._must_dispose = False
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
            disposable = self._must_dispose and self._holds == 0
        if disposable:
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
            disposable = self._holds == 0
        if disposable:
            self._dispose()

    def _dispose(self) -> None:
        """Let go of everything; may be called more than once."""
        raise NotImplementedError

    def _gone(self) -> Exception:
        """What a would-be holder is told."""
        raise NotImplementedError
