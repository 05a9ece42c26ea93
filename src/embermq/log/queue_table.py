"""Numbers of queues that plain code and kernels both use, kept once, where both find them.

    row of a queue   next │ puts │ put size │ end │ memory │ first │ limit │ written
                     eight 64-bit numbers, in the byte order of the machine

The last five are about its entries: how many there are, and where kernels may write more: the entries [first, limit)
are those of the file in `memory`, and `written` is where that file says how far it is written. A limit of 0 leaves
it to plain code.

A queue has its row for as long as the process runs, also when its topic is deleted: it may come back. The memory is
reserved for as many queues as there can be, and used only for those that there are.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from typing import Final

from embermq.errors import StoreError
from embermq.kernels.columns import (
    QUEUE_PUT_SIZE,
    QUEUE_PUTS,
    QUEUE_WIDTH,
)

MOST_QUEUES: Final = 1 << 22
_NONE: Final[dict[int, int]] = {}


class QueueTable:
    """The rows of all queues. One thread changes them."""

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, MOST_QUEUES * QUEUE_WIDTH * 8, flags=flags)
        self._rows: dict[bytes, dict[int, int]] = {}
        self._names: list[tuple[bytes, int]] = []
        self.numbers = memoryview(self._memory).cast("q")
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def __len__(self) -> int:
        return len(self._names)

    def rows(self, topic: bytes) -> Mapping[int, int]:
        """Where the rows of a topic's queues begin in `numbers`, by queue."""
        return self._rows.get(topic, _NONE)

    def row(self, topic: bytes, queue: int) -> int:
        """Where the row of a queue begins in `numbers`; a new one is all zeros."""
        rows = self._rows.setdefault(topic, {})
        at = rows.get(queue)
        if at is None:
            if len(self._names) == MOST_QUEUES:
                raise StoreError(f"no queue {queue} of topic {topic.decode()!r}: limit {MOST_QUEUES} queues")
            at = rows[queue] = len(self._names) * QUEUE_WIDTH
            self._names.append((topic, queue))
        return at

    def name(self, row: int) -> tuple[bytes, int]:
        """Topic and queue of the row that begins there."""
        return self._names[row // QUEUE_WIDTH]

    def take_counts(self) -> list[tuple[bytes, int, int, int]]:
        """Topic, queue, messages and bytes of what kernels have put since this was last asked."""
        numbers, end = self.numbers, len(self._names) * QUEUE_WIDTH
        found = []
        for number, puts in enumerate(numbers[QUEUE_PUTS:end:QUEUE_WIDTH].tolist()):
            if puts:
                at = number * QUEUE_WIDTH
                found.append((*self._names[number], puts, numbers[at + QUEUE_PUT_SIZE]))
                numbers[at + QUEUE_PUTS] = numbers[at + QUEUE_PUT_SIZE] = 0
        return found

    def view(self, topic: bytes, queue: int) -> memoryview:
        """The numbers of a queue."""
        at = self.row(topic, queue)
        return self.numbers[at : at + QUEUE_WIDTH]


def private_row() -> memoryview:
    """A row of its own, for a queue that kernels need not know."""
    return memoryview(bytearray(QUEUE_WIDTH * 8)).cast("q")
