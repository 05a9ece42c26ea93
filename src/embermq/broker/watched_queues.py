"""The queues whose messages are for the broker itself: those that wait for their time, are compacted or revived."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from embermq.log.placed import Batch, Placed
from embermq.log.queue_table import QueueTable


class WatchedQueues:
    """Knows quickly that messages concern nobody here, as nearly all do."""

    def __init__(self, table: QueueTable, topics: tuple[str, ...], more: Callable[[], tuple[str, ...]]) -> None:
        self._table = table
        self._topics = topics
        self._more = more  # the same tuple as long as they are the same
        self._known: tuple[tuple[str, ...], int] = (), 0
        self._rows: set[int] = set()

    def may_have(self, items: Sequence[Placed]) -> bool:
        """Whether some of these records may be in such queues."""
        if not isinstance(items, Batch):
            return True
        more, count = self._more(), len(self._table)
        if more is not self._known[0] or count != self._known[1]:
            topics = (*self._topics, *more)
            self._rows = {row for topic in topics for row in self._table.rows(topic.encode()).values()}
            self._known = more, count
        return items.may_be_in(self._rows)
