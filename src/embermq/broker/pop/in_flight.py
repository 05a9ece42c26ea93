"""How many messages of each queue are with the consumers of a group, where that is limited.

Counted in memory alone, as in RocketMQ: a broker that starts counts from zero. Ordered pops need no limit, because
they wait for what they gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from embermq.broker.pop.progress import Key
from embermq.broker.settings import BrokerSettings


class InFlight:
    """Messages that were popped, and neither acknowledged nor given to somebody else since."""

    def __init__(self, settings: BrokerSettings, *, wake: Callable[[str, str, int], None]) -> None:
        self._counts: Counter[Key] = Counter()
        self._wake = wake  # told of queues that may be popped again
        self.use(settings)

    def use(self, settings: BrokerSettings) -> None:
        """Work with these settings from now on."""
        self._limit = settings.max_popped if settings.limits_popped else None
        if self._limit is None:
            self._counts.clear()

    def is_full(self, key: Key) -> bool:
        """Whether the consumers of a queue have to acknowledge some messages before they get more."""
        return self._limit is not None and self._counts[key] >= self._limit

    def gave(self, key: Key, count: int) -> None:
        if self._limit is not None:
            self._counts[key] += count

    def took_back(self, key: Key, count: int) -> None:
        """So many were acknowledged, or go to the retry topic."""
        if key not in self._counts:
            return
        was_full = self.is_full(key)
        self._counts[key] -= count
        if was_full and not self.is_full(key):
            self._wake(*key)
        if self._counts[key] <= 0:
            del self._counts[key]

    def restart(self, key: Key) -> None:
        """An operator has set where the group goes on."""
        self._counts.pop(key, None)

    def forget_topic(self, topic: str) -> None:
        self._forget([key for key in self._counts if key[0] == topic])

    def forget_group(self, group: str) -> None:
        self._forget([key for key in self._counts if key[1] == group])

    def _forget(self, keys: list[Key]) -> None:
        for key in keys:
            del self._counts[key]
