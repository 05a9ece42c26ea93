"""How far one queue is read, for one member of a group.

    committable        next
    ├──────────────────┼──────────────
    │ pulled, not done │ not pulled

What is below `committable` is done. Messages may be done in any order, but only the offset before which
all are done can be given to the broker; so after a crash those behind it come again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from embermq.format.wire_json import BrokerQueue

MOST_MESSAGES: Final = 1000  # of one queue that are pulled and not done
MOST_BYTES: Final = 32 * 1024 * 1024


class QueueProgress:
    """What was pulled of one queue, and what of it is done.

    `finish` may be called by any thread; everything else belongs to the event loop.
    """

    def __init__(self, queue: BrokerQueue, offset: int) -> None:
        self.queue = queue
        self.next_offset = offset
        self.generation = 0  # of the messages that count; a reset begins a new one
        self.is_dropped = False  # another member has it now
        self.pulled_at_ms = 0
        self.committed = -1  # what the broker was told last
        self._open: deque[tuple[int, int]] = deque()  # offset and size, in order
        self._done: set[int] = set()
        self._bytes = 0
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._is_full = False

    @property
    def waiting(self) -> int:
        """Messages that are pulled and not done."""
        return len(self._open) - len(self._done)

    @property
    def waiting_bytes(self) -> int:
        return self._bytes

    @property
    def committable(self) -> int:
        """The offset before which everything is done."""
        while self._open and self._open[0][0] in self._done:
            offset, size = self._open.popleft()
            self._done.discard(offset)
            self._bytes -= size
        return self._open[0][0] if self._open else self.next_offset

    def add(self, offset: int, size: int) -> None:
        """A message was pulled that someone will finish."""
        self._open.append((offset, size))
        self._bytes += size

    def finish(self, offset: int, generation: int) -> None:
        """A message is done; one from before a reset does not count any more."""
        if generation != self.generation or self.is_dropped:
            return
        self._done.add(offset)
        if self._is_full and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._room.set)

    def restart(self, offset: int) -> None:
        """Go on at `offset`; what was pulled so far counts no more."""
        self.generation += 1
        self.next_offset = offset
        self._open.clear()
        self._done.clear()
        self._bytes = 0
        self._room.set()

    async def wait_room(self) -> None:
        """Return when there is room for more."""
        while self._has_no_room():
            self._room.clear()
            self._is_full = True
            # What was finished between the question and this line did not wake us.
            if self._has_no_room():
                await self._room.wait()
        self._is_full = False

    def _has_no_room(self) -> bool:
        _ = self.committable  # takes away what is done
        return len(self._open) >= MOST_MESSAGES or self._bytes >= MOST_BYTES
