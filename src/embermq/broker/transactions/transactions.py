"""The transactions of a broker, put together: what is open, who asks about it, and who ends it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from embermq.broker.handlers.transactions import TransactionHandlers
from embermq.broker.puts import Puts
from embermq.broker.settings import BrokerSettings
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.broker.transactions.checking import Checker
from embermq.broker.transactions.halves import SentHalf
from embermq.broker.transactions.open_counts import METRICS_FILE, OpenCounts
from embermq.broker.transactions.open_halves import OpenHalves
from embermq.clock import Clock
from embermq.rpc.router import CheckTopic, Observe
from embermq.store.writer import Submitted


class Transactions:
    """Begins with what is open in the store; all of it runs in the event loop."""

    def __init__(
        self,
        tables: Tables,
        puts: Puts,
        statistics: BrokerStatistics,
        *,
        settings: Callable[[], BrokerSettings],
        clock: Clock,
        check_topic: CheckTopic,
        observe: Observe,
    ) -> None:
        store = tables.store
        self.halves = OpenHalves(store, tables.offsets)
        self.counts = OpenCounts(store.path / "config" / METRICS_FILE, clock=clock)
        self.checker = Checker(
            store,
            puts,
            tables.topics,
            tables.membership,
            self.halves,
            self.counts,
            settings=settings,
            clock=clock,
        )
        self.handlers = TransactionHandlers(
            store,
            puts,
            tables.topics,
            statistics,
            self.halves,
            self.counts,
            is_committed=self.checker.is_committed,
            settings=settings,
            clock=clock,
            check_topic=check_topic,
            observe=observe,
        )

    def note_stored(self, sent: Mapping[int, SentHalf], submitted: Submitted) -> None:
        """Half messages were stored, by their numbers in a put."""
        counts: Counter[str] = Counter()
        for number, half in sent.items():
            self.halves.note_sent(submitted.offsets[number], submitted.positions[number], half)
            counts[half.topic] += 1
        for topic, count in counts.items():
            self.counts.add(topic, count)

    def save(self) -> None:
        """Note how far everything is, for whoever starts next; the offsets are saved by those who keep them."""
        self.halves.save_progress()
        self.counts.save()
