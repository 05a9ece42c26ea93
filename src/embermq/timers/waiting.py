"""How many messages wait for each topic: `config/timermetrics`, also what dashboards show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from embermq.errors import CorruptRecord
from embermq.files.durable import read_with_backup, replace_file
from embermq.format.timer_metrics import TimerMetrics, Waiting, decode_timer_metrics, encode_timer_metrics
from embermq.model.hashing import java_hash

TIMER_METRICS_FILE: Final = "timermetrics"


class WaitingCounts:
    """Counts of waiting messages by topic. Units know a topic by its hash only, so `name` is told both."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            metrics = read_with_backup(path, decode_timer_metrics) or TimerMetrics()
        except CorruptRecord:
            metrics = TimerMetrics()  # they are counted again
        self._version = metrics.version
        self._waiting = dict(metrics.waiting)
        self._names = {java_hash(topic): topic for topic in self._waiting}
        self._codes = {topic: code for code, topic in self._names.items()}
        self._is_changed = False

    def name(self, topic: str) -> int:
        """The hash of a topic, by which it is found from now on."""
        code = self._codes.get(topic)
        if code is None:
            code = self._codes[topic] = java_hash(topic)
            self._names[code] = topic
        return code

    def change(self, topic_hash: int, by: int, now_ms: int) -> None:
        """More or fewer messages wait for a topic."""
        topic = self._names.get(topic_hash)
        if topic is None or not by:
            return
        known = self._waiting.get(topic)
        self._waiting[topic] = Waiting(max((known.messages if known else 0) + by, 0), now_ms)
        self._is_changed = True

    def forget(self, topic: str) -> None:
        """The topic was deleted."""
        if self._waiting.pop(topic, None) is not None:
            self._is_changed = True

    def recount(self, counts: Counter[int], now_ms: int) -> None:
        """Believe these counts, by hash, instead of those that were kept."""
        found = {self._names[code]: count for code, count in counts.items() if code in self._names}
        for topic in {*self._waiting, *found}:
            if (self._waiting[topic].messages if topic in self._waiting else 0) != found.get(topic, 0):
                self._waiting[topic] = Waiting(found.get(topic, 0), now_ms)
                self._is_changed = True

    @property
    def counts(self) -> Mapping[str, int]:
        return {topic: each.messages for topic, each in self._waiting.items()}

    def metrics(self) -> TimerMetrics:
        return TimerMetrics(self._version, dict(self._waiting))

    def take_changes(self, now_ms: int) -> bytes | None:
        """What is to be saved, if anything changed."""
        if not self._is_changed:
            return None
        self._is_changed = False
        self._version = self._version.next(now_ms)
        return encode_timer_metrics(self.metrics())

    def save(self, data: bytes) -> None:
        self._path.parent.mkdir(exist_ok=True)
        replace_file(self._path, data, keep_backup=True)
