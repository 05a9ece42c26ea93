"""Messages that became visible, on their way from whichever thread made them so to the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from embermq.log.placed import Place, Placed, codes_by_queue

log = logging.getLogger(__name__)

Arrived = Mapping[Place, Sequence[int]]  # the hashes of the tags of what came


class Arrivals:
    """Gathers what came to queues that somebody waits for, and tells of it in the event loop, once for many."""

    def __init__(self, *, is_wanted: Callable[[Place], bool], tell: Callable[[Arrived], None]) -> None:
        self._is_wanted = is_wanted  # asked in any thread
        self._tell = tell
        self._arrived: dict[Place, list[int]] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()

    def stop(self) -> None:
        self._loop = None

    def add(self, items: Sequence[Placed]) -> None:
        """These became visible. In any thread."""
        loop = self._loop
        if loop is None:
            return
        with self._lock:
            is_called = bool(self._arrived)
            for place, codes in codes_by_queue(items, self._is_wanted).items():
                self._arrived.setdefault(place, []).extend(codes)
            if is_called or not self._arrived:
                return
        try:
            loop.call_soon_threadsafe(self._hand_on)
        except RuntimeError:
            log.debug("messages arrived after the event loop was closed")

    def _hand_on(self) -> None:
        with self._lock:
            arrived, self._arrived = self._arrived, {}
        self._tell(arrived)
