"""Storing what pops and acks decided, before anybody is told.

    pop ─→ its queues go on behind it ─┐
    ack ───────────────────────────────┼─→ at the end of the turn: one put ─→ the disk has it ─→ all are answered
    pop ─→ …                          ─┘                             └→ refused: queues go back, all are told

A turn is one of the event loop: what it brought, from all connections, goes to the log together. Whoever asked is
answered when the disk has it, as far as the store's durability promises that. Nothing is held back here: while the
disk is too far behind, pops and acks are refused as busy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from embermq.broker.pop.in_flight import InFlight
from embermq.broker.pop.progress import PopProgress
from embermq.broker.pop.revive_log import ReviveLog
from embermq.broker.pop.taking import Taking
from embermq.broker.puts import Puts
from embermq.broker.statistics import BrokerStatistics
from embermq.errors import StoreBusy
from embermq.format.record import DraftFields
from embermq.model.pop import Checkpoint
from embermq.store.store import Store

Finish = Callable[[Exception | None], None]


class _Share(NamedTuple):
    """What one request, or one read, has in a turn."""

    drafts: Sequence[DraftFields]
    checkpoints: Sequence[Checkpoint]  # of a pop
    finish: Finish


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
        self._turn: list[_Share] = []

    def give(self, taking: Taking, finish: Finish) -> None:
        """Store the checkpoints of a pop, and have its queues go on behind them. Raises StoreUnwritable."""
        self._check()
        drafts = [self._log.checkpoint(checkpoint, taking.revive_queue) for checkpoint in taking.checkpoints]
        self._progress.give(taking.steps)
        for checkpoint in taking.checkpoints:
            self._in_flight.gave(checkpoint.delivery.key, len(checkpoint.offsets))
        self._add(_Share(drafts, taking.checkpoints, finish))

    def store(self, drafts: Sequence[DraftFields], finish: Finish) -> None:
        """Store acks. Raises StoreUnwritable."""
        self._check()
        self._add(_Share(drafts, (), finish))

    async def put(self, drafts: Sequence[DraftFields]) -> None:
        """Store acks and wait."""
        await self._puts.put(drafts)

    def put_turn(self) -> None:
        """Store what this turn brought."""
        turn, self._turn = self._turn, []
        if not turn:
            return

        def finish(error: Exception | None) -> None:
            for share in turn:
                share.finish(error)

        try:
            end = self._store.submit([draft for share in turn for draft in share.drafts]).end
        except Exception as error:
            self._take_back(turn)
            finish(error)
            return
        self._progress.place(end)
        for share in turn:
            for checkpoint in share.checkpoints:
                self._statistics.count_checkpoint(checkpoint.delivery.topic, checkpoint.delivery.group)
        self._puts.await_disk(end, finish)

    def _check(self) -> None:
        """Raises StoreUnwritable while nothing may be stored."""
        if not self._puts.is_free:
            limit = self._store.settings.max_unflushed_bytes
            raise self._store.failure or StoreBusy(self._store.path, behind=limit, limit=limit, waited_ms=0)

    def _add(self, share: _Share) -> None:
        if not self._turn:
            asyncio.get_running_loop().call_soon(self.put_turn)
        self._turn.append(share)

    def _take_back(self, turn: Sequence[_Share]) -> None:
        """Nothing of a turn is in the log, so that its messages were given to nobody."""
        self._progress.undo()
        for share in turn:
            for checkpoint in share.checkpoints:
                self._in_flight.took_back(checkpoint.delivery.key, len(checkpoint.offsets))
