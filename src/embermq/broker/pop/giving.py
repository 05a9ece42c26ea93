"""Storing what a pop or an ack decided, before anybody is told.

The log gets checkpoints and acks as one put; whoever asked is answered when the disk has them, as far as the
store's durability promises that. Nothing is held back here: while the disk is too far behind, pops and acks are
refused as busy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from embermq.broker.pop.in_flight import InFlight
from embermq.broker.pop.progress import PopProgress
from embermq.broker.pop.revive_log import ReviveLog
from embermq.broker.pop.taking import Taking
from embermq.broker.puts import Puts
from embermq.broker.statistics import BrokerStatistics
from embermq.errors import StoreBusy
from embermq.format.record import DraftFields
from embermq.store.store import Store

Finish = Callable[[Exception | None], None]


class Giving:
    """Brings checkpoints and acks into the log."""

    def __init__(
        self,
        store: Store,
        puts: Puts,
        revive_log: ReviveLog,
        progress: PopProgress,
        in_flight: InFlight,
        statistics: BrokerStatistics,
    ) -> None:
        self._store = store
        self._puts = puts
        self._log = revive_log
        self._progress = progress
        self._in_flight = in_flight
        self._statistics = statistics

    def give(self, taking: Taking, finish: Finish) -> None:
        """Store the checkpoints of a pop, and have its queues go on behind them. Raises StoreUnwritable."""
        drafts = [self._log.checkpoint(checkpoint, taking.revive_queue) for checkpoint in taking.checkpoints]
        begin, end = self._submit(drafts)
        for checkpoint in taking.checkpoints:
            self._statistics.count_checkpoint(checkpoint.delivery.topic, checkpoint.delivery.group)
            self._in_flight.gave(checkpoint.delivery.key, len(checkpoint.offsets))
        self._progress.give(taking.steps, begin=begin, end=end)
        self._puts.await_disk(end, finish)

    def store(self, drafts: Sequence[DraftFields], finish: Finish) -> None:
        """Store acks. Raises StoreUnwritable."""
        self._puts.await_disk(self._submit(drafts)[1], finish)

    async def put(self, drafts: Sequence[DraftFields]) -> None:
        """Store acks and wait."""
        await self._puts.put(drafts)

    def _submit(self, drafts: Sequence[DraftFields]) -> tuple[int, int]:
        if not self._puts.is_free:
            limit = self._store.settings.max_unflushed_bytes
            raise self._store.failure or StoreBusy(self._store.path, behind=limit, limit=limit, waited_ms=0)
        submitted = self._store.submit(drafts)
        return submitted.positions[0], submitted.end
