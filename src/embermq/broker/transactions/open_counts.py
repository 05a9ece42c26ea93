"""How many transactions are open, by topic; kept in config/transactionMetrics for RocketMQ's brokers and for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from embermq.clock import Clock
from embermq.files.durable import make_directory, read_with_backup, replace_file
from embermq.format.transaction_metrics import TransactionTable, decode_transactions, encode_transactions
from embermq.model.version import DataVersion

METRICS_FILE: Final = "transactionMetrics"


class OpenCounts:
    """Counts by topic. One thread counts; `save` may be called from any."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        table = read_with_backup(path, decode_transactions)
        self._version = table.version if table is not None else DataVersion()
        self._counts = dict(table.counts) if table is not None else {}
        self._is_changed = False
        self.committed: Counter[str] = Counter()  # by topic, since the start
        self.rolled_back: Counter[str] = Counter()

    def load(self, topics: Iterable[str]) -> None:
        """Begin with one open transaction for each of these topics, whatever the file said."""
        counted: dict[str, int] = {}
        for topic in topics:
            counted[topic] = counted.get(topic, 0) + 1
        for topic in {*self._counts, *counted}:
            self.add(topic, counted.get(topic, 0) - self.count(topic))

    def count(self, topic: str) -> int:
        return self._counts.get(topic, (0, 0))[0]

    def items(self) -> list[tuple[str, int]]:
        """Topics with open transactions, and how many these are."""
        return [(topic, count) for topic, (count, _) in self._counts.items() if count]

    def add(self, topic: str, number: int) -> None:
        """So many more are open; fewer, if it is negative."""
        if number:
            self._counts[topic] = (self.count(topic) + number, self._clock.now_ms())
            self._is_changed = True

    def save(self) -> None:
        """Bring the counts to disk if they changed since the last time."""
        if not self._is_changed:
            return
        self._is_changed = False
        self._version = self._version.next(self._clock.now_ms())
        make_directory(self._path.parent)
        replace_file(
            self._path, encode_transactions(TransactionTable(self._version, self._counts.copy())), keep_backup=True
        )
