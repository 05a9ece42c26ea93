"""Which queues each topic has on each broker.

Two versions of everything: what the broker told, and what clients are shown. They differ when an administrator
has taken the write permission of a broker away, and stay so until the broker tells something new.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from embermq.model.flags import Permission
from embermq.model.route import RoutedQueues

T = TypeVar("T")

READ_WRITE = int(Permission.READ | Permission.WRITE)


class _Queues(NamedTuple):
    told: RoutedQueues
    shown: RoutedQueues


class TopicQueues:
    """Queues by topic and broker."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, _Queues]] = {}
        self._mappings: dict[str, dict[str, Mapping[str, object]]] = {}  # of static topics; handed on as they came

    def names(self) -> list[str]:
        return sorted(self._topics)

    def names_of(self, brokers: Collection[str]) -> list[str]:
        """The topics that at least one of these brokers has."""
        return sorted(topic for topic, queues in self._topics.items() if not queues.keys().isdisjoint(brokers))

    def shown(self, topic: str) -> list[RoutedQueues]:
        """The queues of a topic by the names of their brokers, as clients are to see them."""
        return [queues.shown for _, queues in sorted(self._topics.get(topic, {}).items())]

    def mappings(self, topic: str) -> dict[str, Mapping[str, object]]:
        """The queues of a static topic, by broker; none of any other."""
        return dict(self._mappings.get(topic, {}))

    def tell(self, topic: str, queues: RoutedQueues, *, anew: bool = False) -> None:
        """Take what a broker says of a topic. If it said the same before, what is shown stays, unless told `anew`."""
        brokers = self._topics.setdefault(topic, {})
        before = brokers.get(queues.broker)
        if anew or before is None or before.told != queues:
            brokers[queues.broker] = _Queues(queues, queues)

    def tell_mapping(self, topic: str, broker: str, mapping: Mapping[str, object]) -> None:
        self._mappings.setdefault(topic, {})[broker] = mapping

    def forget_topic(self, topic: str, brokers: Collection[str] | None = None) -> None:
        """Drop a topic, or its queues on some brokers."""
        _forget(self._topics, topic, brokers)
        _forget(self._mappings, topic, brokers)

    def forget_broker(self, broker: str, *, except_for: Collection[str] = ()) -> list[str]:
        """Drop the queues of a broker, except for some topics; which ones were dropped."""
        gone = [topic for topic, brokers in self._topics.items() if broker in brokers and topic not in except_for]
        for topic in gone:
            self.forget_topic(topic, [broker])
        return gone

    def wipe_write(self, broker: str) -> int:
        """Show no queue of a broker as writable; how many topics that are."""
        return self._show(broker, lambda permission: permission & ~Permission.WRITE)

    def restore_write(self, broker: str) -> int:
        """Show every queue of a broker as readable and writable; how many topics that are."""
        return self._show(broker, lambda permission: READ_WRITE)

    def _show(self, broker: str, change: Callable[[int], int]) -> int:
        count = 0
        for brokers in self._topics.values():
            if broker not in brokers:
                continue
            told, shown = brokers[broker]
            brokers[broker] = _Queues(told, replace(shown, permission=change(shown.permission)))
            count += 1
        return count


def _forget(table: dict[str, dict[str, T]], topic: str, brokers: Collection[str] | None) -> None:
    found = table.get(topic, {})
    for broker in list(found) if brokers is None else brokers:
        found.pop(broker, None)
    if not found:
        table.pop(topic, None)
