"""A store, looked at once before a read is planned: its log, how far it may be read, and what its queues hold.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

from embermq.errors import DataLoss
from embermq.scan.end_of_log import find_end, is_open
from embermq.scan.queue_entries import QueueEntries
from embermq.scan.splits import StorePlace
from embermq.scan.store_files import QueueFiles, StoreFiles


class QueueState(NamedTuple):
    """A queue of the store: its messages are [begin, end)."""

    topic: str
    queue: int
    begin: int
    end: int


class Survey:
    """One store as it is now. Queues are listed and looked at when they are asked for. To be closed."""

    def __init__(self, place: StorePlace) -> None:
        self.place = place
        self.store = StoreFiles(place)
        # Before files are listed: those that are there afterwards hold everything that it tells of.
        self._owner = self.store.system.ask_owner()
        self.files = self.store.find_log()
        told = self._owner.queues if self._owner else {}
        self._states = {queue: QueueState(*queue, *offsets) for queue, offsets in told.items()}
        self._listed: list[QueueEntries] = []
        self.begin = self.files[0].start if self.files else 0
        self.end, self._expected_end = find_end(self.store, self.files, lambda: self.queues, self._owner)

    @cached_property
    def queues(self) -> list[QueueEntries]:
        """All queues that are files, by topic and number."""
        return self._list(lambda topic: True)

    def select(self, accepts: Callable[[str], bool]) -> list[QueueEntries]:
        """The queues of accepted topics; others are not even listed."""
        if "queues" in self.__dict__:
            return [entries for entries in self.queues if accepts(entries.queue.topic)]
        return self._list(accepts)

    @cached_property
    def is_settled(self) -> bool:
        """Whether queues and index hold all that may be read; not so after a crash, before the owner repaired them."""
        return self._owner is not None or self.store.was_closed or is_open(self.store)

    @property
    def loss(self) -> DataLoss | None:
        """What is missing at the end of a log whose owner closed it. A copy may well have queues newer than its log."""
        end = self.files[-1].end if self.files else 0
        if not self.store.was_closed or self._expected_end <= end:
            return None
        reason = "queues know records there, but no file of the log holds them; restore the files"
        return DataLoss(self.place.name, what=f"log positions [{end}, {self._expected_end})", reason=reason)

    @cached_property
    def topics(self) -> frozenset[str]:
        """The topics that have queues."""
        return frozenset(self.store.find_topics())

    def states(self, queues: Iterable[QueueEntries]) -> list[QueueState]:
        """What these queues hold, as far as it may be read."""
        return [self._state_of(entries) for entries in queues]

    def close(self) -> None:
        for entries in self._listed:
            entries.close()

    def _list(self, accepts: Callable[[str], bool]) -> list[QueueEntries]:
        found = [
            QueueEntries(self.store, queue, end=self._find_end_of(queue)) for queue in self.store.find_queues(accepts)
        ]
        self._listed += found
        return found

    def _find_end_of(self, queue: QueueFiles) -> int | None:
        """Where the entries of a queue end, if the owner told: in batch queues, offsets are not numbers of entries."""
        state = self._states.get((queue.topic, queue.queue))
        return None if state is None or queue.is_batch else state.end

    def _state_of(self, entries: QueueEntries) -> QueueState:
        queue = entries.queue
        known = self._states.get((queue.topic, queue.queue))
        if known is None:
            begin, end = entries.find_from(self.begin), entries.find_from(self.end)
            known = QueueState(queue.topic, queue.queue, entries.offset_of(begin), entries.offset_of(end))
            self._states[queue.topic, queue.queue] = known
            entries.close()  # there may be thousands
        return known
