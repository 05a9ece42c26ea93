"""Drafts as a table, so that kernels write them: what a broker puts that was not received as a SEND.

Usual is: every draft is one message of one queue. What is not usual (light queues, inner batches, delay levels) is for
plain code. Only loaded where kernels are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from embermq.format.host import HOST_V4_SIZE, HOST_V6_SIZE
from embermq.format.record import DraftFields
from embermq.format.record_layout import MAX_PROPERTIES_SIZE, MAX_V1_TOPIC_SIZE
from embermq.kernels.byte_table import ByteTable
from embermq.kernels.columns import (
    DRAFT_BODY_AT,
    DRAFT_BODY_SIZE,
    DRAFT_BORN_HOST,
    DRAFT_BORN_TIME,
    DRAFT_FLAG,
    DRAFT_PREPARED_POSITION,
    DRAFT_PROPERTIES_AT,
    DRAFT_PROPERTIES_SIZE,
    DRAFT_QUEUE,
    DRAFT_RECONSUME_TIMES,
    DRAFT_SYS_FLAG,
    DRAFT_TOPIC,
    DRAFT_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.placing import QUEUES_WIDTH
from embermq.log.queue_table import QueueTable
from embermq.log.table_append import DraftTable, largest_body
from embermq.model.flags import SysFlag
from embermq.model.topic import LIGHT_PREFIX, SCHEDULE_TOPIC

MOST_TOPICS: Final = 4096  # that are known at a time
MOST_QUEUES: Final = 1024  # of a topic; drafts for queues behind these are not usual
_STORE_HOST: Final = 0  # the first of a table's hosts
_INNER: Final = b"INNER_"
_UNUSUAL: Final = (LIGHT_PREFIX.encode(), SCHEDULE_TOPIC.encode())
_ENTERED: Final = (0, SysFlag.COMMITTED)  # of what says where a transaction is: those that enter a queue


class DraftTables:
    """Makes tables. Used by the one writer thread; a table is used before the next is made."""

    def __init__(self, numbers: QueueTable, store_host: bytes, file_size: int) -> None:
        self._numbers = numbers
        self._store_host = store_host
        self._largest_body = largest_body(file_size)
        self._topics: dict[bytes, tuple[int, Table]] = {}  # number, and the rows of its queues, kept where they are
        self._queues: Table = np.zeros((16, QUEUES_WIDTH), np.int64)
        self._names = ByteTable()

    def make(self, drafts: Sequence[DraftFields]) -> DraftTable | None:
        """The same as a table; None if one of them is not usual."""
        topics, queues, bodies, properties, flags, sys_flags, born_times, hosts, retries, prepared = zip(
            *drafts, strict=True
        )
        if len(self._topics) > MOST_TOPICS:
            self._forget()
        marks, body_sizes, property_sizes = set(sys_flags), [*map(len, bodies)], [*map(len, properties)]
        if any(mark & SysFlag.INNER_BATCH or mark & SysFlag.TRANSACTION_MASK not in _ENTERED for mark in marks):
            return None
        source, texts = b"".join(bodies), b"".join(properties)
        if _INNER in texts or max(body_sizes) > self._largest_body or max(property_sizes) > MAX_PROPERTIES_SIZE:
            return None
        numbers = self._number_topics(topics, queues)
        own = ByteTable(self._store_host)
        if numbers is None or not {len(host) for host in hosts} <= {HOST_V4_SIZE, HOST_V6_SIZE}:
            return None
        table: Table = np.zeros((len(drafts), DRAFT_WIDTH), np.int64)
        try:
            for column, values in (
                (DRAFT_BODY_AT, [0, *accumulate(body_sizes[:-1])]), (DRAFT_BODY_SIZE, body_sizes),
                (DRAFT_PROPERTIES_AT, [0, *accumulate(property_sizes[:-1])]), (DRAFT_PROPERTIES_SIZE, property_sizes),
                (DRAFT_TOPIC, numbers), (DRAFT_QUEUE, queues), (DRAFT_FLAG, flags), (DRAFT_SYS_FLAG, sys_flags),
                (DRAFT_BORN_TIME, born_times), (DRAFT_BORN_HOST, [own.number_of(host) for host in hosts]),
                (DRAFT_RECONSUME_TIMES, retries), (DRAFT_PREPARED_POSITION, prepared),
            ):  # fmt: skip
                table[:, column] = values
        except OverflowError:
            return None  # plain code says which number has no place in a record
        if np.abs(table[:, [DRAFT_FLAG, DRAFT_SYS_FLAG, DRAFT_RECONSUME_TIMES]]).max() >= 2**31:
            return None
        return DraftTable(
            table, address_of(source or b"\0"), len(source), address_of(texts or b"\0"), len(texts),
            len(source) + len(texts), self._names.rows, self._queues[: len(self._topics)], own.rows, _STORE_HOST, b"",
            kept=(source, texts, own),
        )  # fmt: skip

    def _number_topics(self, topics: Sequence[bytes], queues: Sequence[int]) -> list[int] | None:
        """The numbers of topics, all of whose queues are known then; None if one of these is not usual."""
        known = self._topics
        for topic, queue in {*zip(topics, queues, strict=True)}:
            found = known.get(topic)
            if found is None or queue >= len(found[1]):
                is_usual = 0 < len(topic) <= MAX_V1_TOPIC_SIZE and not topic.startswith(_UNUSUAL)
                if not is_usual or not 0 <= queue < MOST_QUEUES:
                    return None
                self._learn(topic, queue)
            elif queue < 0:
                return None
        return [known[topic][0] for topic in topics]

    def _learn(self, topic: bytes, queue: int) -> None:
        """Know the queues of a topic up to this one."""
        number = self._names.number_of(topic)
        rows = np.array([self._numbers.row(topic, each) for each in range(queue + 1)], np.int64)
        self._topics[topic] = number, rows
        if number >= len(self._queues):
            self._queues = np.concatenate([self._queues, np.zeros_like(self._queues)])
        self._queues[number] = int(rows.ctypes.data), len(rows)

    def _forget(self) -> None:
        self._topics = {}
        self._names = ByteTable()
