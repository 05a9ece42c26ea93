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

MOST_QUEUES: Final = 1 << 22
ROW: Final = 8  # numbers

NEXT: Final = 0  # the offset that the next message gets
PUTS: Final = 1  # messages that kernels have put since they were counted
PUT_SIZE: Final = 2  # their bytes in the log
END: Final = 3  # the index of the next entry; readers trust what lies before it
MEMORY: Final = 4
FIRST: Final = 5
LIMIT: Final = 6
WRITTEN: Final = 7

_NONE: Final[dict[int, int]] = {}


class QueueTable:
    """The rows of all queues. One thread changes them."""

    def __init__(self) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self._memory = mmap.mmap(-1, MOST_QUEUES * ROW * 8, flags=flags)
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
            at = rows[queue] = len(self._names) * ROW
            self._names.append((topic, queue))
        return at

    def take_counts(self) -> list[tuple[bytes, int, int, int]]:
        """Topic, queue, messages and bytes of what kernels have put since this was last asked."""
        numbers, end = self.numbers, len(self._names) * ROW
        found = []
        for number, puts in enumerate(numbers[PUTS:end:ROW].tolist()):
            if puts:
                at = number * ROW
                found.append((*self._names[number], puts, numbers[at + PUT_SIZE]))
                numbers[at + PUTS] = numbers[at + PUT_SIZE] = 0
        return found

    def view(self, topic: bytes, queue: int) -> memoryview:
        """The numbers of a queue."""
        at = self.row(topic, queue)
        return self.numbers[at : at + ROW]


def private_row() -> memoryview:
    """A row of its own, for a queue that kernels need not know."""
    return memoryview(bytearray(ROW * 8)).cast("q")
