"""Messages that wait, where kernels take them: what these have to know, and who is told of half messages.

Only loaded where kernels are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from embermq.broker.fast_answers import StoredTurn
from embermq.broker.fast_peers import FastPeer
from embermq.broker.fast_topics import FastTopics
from embermq.broker.handlers.send import SendHandlers
from embermq.broker.intake import Intake, born_of
from embermq.broker.settings import BrokerSettings
from embermq.broker.transactions.halves import CHECK_ROOM, HALF_QUEUE, SentHalf
from embermq.kernels import parked
from embermq.kernels.columns import (
    DRAFT_BODY_AT,
    DRAFT_BODY_SIZE,
    DRAFT_BORN_TIME,
    DRAFT_FLAG,
    DRAFT_OFFSET,
    DRAFT_PROPERTIES_AT,
    DRAFT_PROPERTIES_SIZE,
    DRAFT_SYS_FLAG,
    RECORD_POSITION,
)
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.send_rows import (
    ASKED,
    ASKED_SIZE,
    ASKS,
    ASKS_COMMIT,
    FIRST_DRAFT,
    QUEUE,
    TOPIC,
)
from embermq.model.topic import HALF_TOPIC
from embermq.store.writer import Submitted

_HALF = HALF_TOPIC.encode()


class FastParking:
    """Says to kernels what Intake and Parking say to ordinary code."""

    def __init__(self, intake: Intake, handlers: SendHandlers) -> None:
        self._intake = intake
        self._handlers = handlers
        self._table: Table = np.zeros(parked.PARKING_SIZE, np.int64)
        self._numbers = self._table.data
        self.address = int(self._table.ctypes.data)
        self._broker = b""
        self._settings: BrokerSettings | None = None
        self._known = 0, 0, 0

    def refresh(self, topics: FastTopics) -> None:
        """Know what holds now; to be called before messages are looked at."""
        intake, numbers = self._intake, self._numbers
        numbers[parked.NOW] = intake.parking.own_now_ms()
        settings, room = intake.settings, intake.max_properties - len(intake.suffix_bytes)
        known = topics.timer, topics.half, room
        if settings is self._settings and known == self._known:
            return
        limits = intake.parking.limits()
        self._settings, self._known = settings, known
        broker = settings.name.encode()
        if broker != self._broker:
            self._broker = broker  # kept, because its address is
            numbers[parked.BROKER], numbers[parked.BROKER_SIZE] = address_of(broker), len(broker)
        numbers[parked.TIMER_NUMBER] = topics.timer if limits.is_unlimited else -1
        numbers[parked.HALF_NUMBER] = topics.half if settings.transactions else -1
        numbers[parked.PRECISION], numbers[parked.MOST_DELAY] = limits.precision, limits.most_delay_ms
        numbers[parked.PROPERTIES_MOST] = room
        numbers[parked.CHECK_ROOM] = CHECK_ROOM

    def note_halves(
        self, shares: Sequence[tuple[FastPeer, int]], turn: StoredTurn, received: memoryview, topics: FastTopics
    ) -> None:
        """Tell of half messages that are stored, before their senders know; bodies lie in `received`."""
        rows, table, records = turn.rows, turn.table, turn.records
        numbers = np.flatnonzero(rows.rows[: shares[-1][1], ASKS] == ASKS_COMMIT)
        firsts = rows.rows[numbers, FIRST_DRAFT]
        numbers, firsts = numbers[firsts < len(records)], firsts[firsts < len(records)]
        if not len(numbers):
            return
        texts, suffix = rows.scratch.data, table.suffix
        halves: dict[int, SentHalf] = {}
        groups: dict[bytes, str] = {}
        share, noted = -1, -1
        host, rows_end = b"", 0
        found = zip(numbers.tolist(), rows.rows[numbers].tolist(), table.drafts[firsts].tolist(), strict=True)
        for number, row, draft in found:
            while number >= rows_end:
                share += 1
                host, rows_end = born_of(shares[share][0].peer).host, shares[share][1]
            name = bytes(texts[row[ASKED] : row[ASKED] + row[ASKED_SIZE]])
            group = groups.get(name)
            if group is None or noted != share:
                group = groups[name] = name.decode()
                self._handlers.note_half_sender(group, shares[share][0])
                noted = share
            body_at, properties_at = draft[DRAFT_BODY_AT], draft[DRAFT_PROPERTIES_AT]
            hidden = (
                _HALF, HALF_QUEUE, bytes(received[body_at : body_at + draft[DRAFT_BODY_SIZE]]),
                bytes(texts[properties_at : properties_at + draft[DRAFT_PROPERTIES_SIZE]]) + suffix,
                draft[DRAFT_FLAG], draft[DRAFT_SYS_FLAG], draft[DRAFT_BORN_TIME], host, 0, 0,
            )  # fmt: skip
            halves[len(halves)] = SentHalf(hidden, topics.titles[row[TOPIC]], row[QUEUE], group, is_immune=False)
        offsets: list[int] = table.drafts[firsts, DRAFT_OFFSET].tolist()
        positions: list[int] = records[firsts, RECORD_POSITION].tolist()
        self._handlers.note_halves(halves, Submitted(offsets, positions, [], 0, 0))
