"""Where the pops of a queue go on.

    given        the next offset to be popped; in memory, from before its checkpoint is in the log
    committed    the same in the table of consumer offsets, once the disk has the checkpoint

The table is saved every few seconds, and may never know more than the log does: a message before the committed
offset that no checkpoint names would be lost. After a crash the checkpoints that came since the last save
say how far the queues really were (see recovery.py); `position` is where those begin.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from embermq.store.offsets import ConsumerOffsets
from embermq.store.store import Store

Key = tuple[str, str, int]  # topic, group, queue


_NOT_PLACED: Final = 2**63 - 1  # an end that no disk reaches


@dataclass(slots=True)
class _Given:
    begin: int  # its checkpoints are not before this position of the log
    end: int  # they are before this one
    steps: Sequence[tuple[Key, int]]  # next offsets
    before: Sequence[tuple[Key, int | None]]  # what they were without it


class PopProgress:
    """How far the pops of each queue are."""

    def __init__(self, store: Store, offsets: ConsumerOffsets) -> None:
        """What the checkpoints in the log say is in the table already."""
        self._store = store
        self._offsets = offsets
        self._given: dict[Key, int] = {}
        self._waiting: deque[_Given] = deque()
        self._has_popped = offsets.saved_position is not None  # somebody, at some time
        self._position = store.dispatched

    def __len__(self) -> int:
        """How many pops wait for the disk."""
        return len(self._waiting)

    def find(self, topic: str, group: str, queue: int) -> int | None:
        """The next offset to be popped; None if the group never read the queue."""
        given = self._given.get((topic, group, queue))
        committed = self._offsets.find(topic, group, queue)
        return committed if given is None else max(given, committed or 0)

    def give(self, steps: Sequence[tuple[Key, int]]) -> None:
        """Messages up to these offsets are given away; `place` tells where their checkpoints are, or `undo`."""
        self._go_on(steps, self._store.dispatched, _NOT_PLACED)

    def begin(self) -> None:
        """Somebody pops: from now on, whoever saves the table says in it how far it knows the log.

        Without that its time would have to do, which says little of pops in the moment when it was saved.
        """
        self._has_popped = True

    def place(self, end: int) -> None:
        """The checkpoints of all that was given since the last time are in the log, before `end`."""
        for given in reversed(self._waiting):
            if given.end != _NOT_PLACED:
                break
            given.end = end

    def undo(self) -> None:
        """They are not, and never will be: go on where pops were before."""
        while self._waiting and self._waiting[-1].end == _NOT_PLACED:
            for key, offset in reversed(self._waiting.pop().before):
                if offset is None:
                    self._given.pop(key, None)
                else:
                    self._given[key] = offset

    def pass_over(self, key: Key, next_offset: int) -> None:
        """Nobody of the group wants the messages up to this offset."""
        if key in self._given and self._waiting:
            last = self._waiting[-1]
            self._go_on([(key, next_offset)], last.begin, last.end)
        else:
            self._given.pop(key, None)
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
            ends = [given.end for given in self._waiting if given.end != _NOT_PLACED]
            await asyncio.to_thread(self._store.wait_for_disk, max(ends, default=0))
            self.settle()

    def position(self) -> int | None:
        """The log position before which every checkpoint is in the table of offsets; None if nothing was popped.

        May be asked in any thread, before the table is copied.
        """
        return self._position if self._has_popped else None

    def _drop(self, key: Key) -> None:
        self._given.pop(key, None)
        for given in self._waiting:
            given.steps = [step for step in given.steps if step[0] != key]
            given.before = [each for each in given.before if each[0] != key]

    def _go_on(self, steps: Sequence[tuple[Key, int]], begin: int, end: int) -> None:
        before = [(key, self._given.get(key)) for key, _ in steps]
        self._given.update(steps)
        self._waiting.append(_Given(begin, end, steps, before))
