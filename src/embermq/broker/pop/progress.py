"""Where the pops of a queue go on.

    given        the next offset to be popped; in memory
    committed    the same in the table of consumer offsets, once the disk has the checkpoint

The table is saved every few seconds, and may never know more than the log does: a message before the committed
offset that no checkpoint names would be lost. After a crash the checkpoints that came since the last save
say how far the queues really were (see recovery.py); `position` is where those begin.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from embermq.store.offsets import ConsumerOffsets
from embermq.store.store import Store

Key = tuple[str, str, int]  # topic, group, queue


class _Given(NamedTuple):
    begin: int  # of the checkpoints in the log
    end: int
    steps: Sequence[tuple[Key, int]]  # next offsets


class PopProgress:
    """How far the pops of each queue are."""

    def __init__(self, store: Store, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._offsets = offsets
        self._given: dict[Key, int] = {}
        self._waiting: deque[_Given] = deque()
        self._has_popped = False
        self._position = 0

    def __len__(self) -> int:
        """How many pops wait for the disk."""
        return len(self._waiting)

    def find(self, topic: str, group: str, queue: int) -> int | None:
        """The next offset to be popped; None if the group never read the queue."""
        given = self._given.get((topic, group, queue))
        committed = self._offsets.find(topic, group, queue)
        return committed if given is None else max(given, committed or 0)

    def give(self, steps: Sequence[tuple[Key, int]], *, begin: int, end: int) -> None:
        """Messages up to these offsets are given away; their checkpoints lie in the log from `begin` to `end`."""
        self._has_popped = True
        for key, next_offset in steps:
            self._given[key] = next_offset
        self._waiting.append(_Given(begin, end, steps))

    def pass_over(self, key: Key, next_offset: int) -> None:
        """Nobody of the group wants the messages up to this offset."""
        if key in self._given:
            self._given[key] = next_offset
            self._waiting.append(_Given(self._waiting[-1].begin, self._waiting[-1].end, [(key, next_offset)]))
        else:
            self._offsets.commit(*key, next_offset)

    def restart(self, key: Key, offset: int) -> None:
        """Go on at `offset`, wherever the queue was."""
        self._drop(key)
        self._offsets.commit(*key, offset)

    def forget_topic(self, topic: str) -> None:
        """Nothing of a deleted topic is committed any more."""
        for key in [key for key in self._given if key[0] == topic]:
            self._drop(key)

    def settle(self) -> None:
        """Commit what the disk has the checkpoints of."""
        flushed = self._store.flushed if self._waiting else 0
        while self._waiting and self._waiting[0].end <= flushed:
            for key, next_offset in self._waiting.popleft().steps:
                if next_offset > (self._offsets.find(*key) or 0):
                    self._offsets.commit(*key, next_offset)
                if self._given.get(key) == next_offset:
                    del self._given[key]
        self._position = self._waiting[0].begin if self._waiting else self._store.dispatched

    async def secure(self) -> None:
        """Have the disk take the checkpoints of all pops so far, and commit these. Raises StoreUnwritable."""
        if self._waiting:
            await asyncio.to_thread(self._store.wait_for_disk, self._waiting[-1].end)
            self.settle()

    def position(self) -> int | None:
        """The log position before which every checkpoint is in the table of offsets; None if nothing was popped.

        May be asked in any thread, before the table is copied.
        """
        return self._position if self._has_popped else None

    def _drop(self, key: Key) -> None:
        self._given.pop(key, None)
        self._waiting = deque(
            each._replace(steps=[step for step in each.steps if step[0] != key]) for each in self._waiting
        )
