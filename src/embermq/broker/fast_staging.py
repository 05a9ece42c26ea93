"""Staged messages by kernels: checked and kept, and drafted when they are published, a chunk in one call.

What kernels leave alone is for plain code, a chunk at a time; both give the same bytes. Only loaded where kernels are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from embermq.broker.intake import CLIENTS_FLAGS, UNIQUE_KEY_ROOM, Born, Intake
from embermq.broker.statistics import BrokerStatistics
from embermq.errors import CorruptRecord
from embermq.format.staged import KeptChunk, read_shared
from embermq.kernels.byte_table import ByteTable
from embermq.kernels.columns import BYTES_WIDTH, DRAFT_WIDTH, RECORD_QUEUE, RECORD_SIZE
from embermq.kernels.compiling import Bytes, Table
from embermq.kernels.memory import address_of
from embermq.kernels.placing import QUEUES_WIDTH
from embermq.kernels.staged import COME_SIZE, KEPT_SIZE, check_staged, draft_staged, keep_staged
from embermq.log.table_append import DraftTable, TableAppended
from embermq.model.properties import (
    ASKABLE,
    CLUSTER,
    KEYS,
    MSG_REGION,
    RESERVED,
    SHARDING_KEY,
    TAGS,
    TRACE_ON,
    UNIQ_KEY,
    WAIT,
)
from embermq.model.staged import BatchKeys
from embermq.model.topic import TopicConfig
from embermq.store.store import Store

_SPECIAL: Final = (ASKABLE | RESERVED) - {KEYS, TAGS, WAIT, SHARDING_KEY}  # plain code looks at messages with these
_OWN: Final = {MSG_REGION, TRACE_ON, CLUSTER}  # the broker's, which kept messages have
_KEY_NAME: Final = f"{UNIQ_KEY}\x01".encode()
_STORE_HOST: Final = 1  # the host behind that of the messages


class StagedTable(NamedTuple):
    """Drafts of staged messages, all of one topic."""

    topic: str
    table: DraftTable

    def behind(self, count: int) -> StagedTable:
        """Those behind the first `count`."""
        return self._replace(table=replace(self.table, drafts=self.table.drafts[count:]))


class FastStaging:
    """Chunks of messages that ask for no more than to be stored. All of it runs in the event loop."""

    def __init__(self, store: Store, intake: Intake, statistics: BrokerStatistics) -> None:
        self._store = store
        self._intake = intake
        self._statistics = statistics
        self._memory: Bytes = np.empty(0, np.uint8)  # used again: fresh memory costs more than the kernels
        self._special = ByteTable(*(name.encode() for name in sorted(_SPECIAL)))
        self._special_kept = ByteTable(*(name.encode() for name in sorted(_SPECIAL - _OWN)))

    def keep(self, topic: TopicConfig, data: bytes, born: Born, *, size_limit: int) -> KeptChunk | None:
        """Messages that came for a topic, as files keep them; None if plain code must look at them.

        What is given is good until the next call.
        """
        if topic.attributes or not data:
            return None
        name, suffix, source = topic.name.encode(), self._intake.suffix_bytes, address_of(data)
        limits = np.array(
            [
                max(topic.write_queues, topic.read_queues),
                self._intake.max_body,
                self._intake.max_properties - UNIQUE_KEY_ROOM - len(suffix),
                size_limit - len(name) - len(suffix),
            ],
            np.int64,
        )
        count, checked = check_staged(source, len(data), limits, self._special.rows)
        if checked < len(data):
            return None
        shared = _rows(suffix, name, born.host)
        size = len(data) + count * (KEPT_SIZE - COME_SIZE + len(suffix) + len(name) + len(born.host))
        if len(self._memory) < size:
            self._memory = np.empty(size, np.uint8)
        target = self._memory
        kept = keep_staged(source, len(data), shared, int(CLIENTS_FLAGS), born.flag, int(target.ctypes.data), size)
        assert kept == size, f"{kept} bytes kept of {size}"
        return KeptChunk(target.data[:size], count, frozenset({name}))

    def draft(self, data: bytes | memoryview, count: int, keys: BatchKeys, index: int) -> StagedTable | None:
        """Drafts of a chunk that was kept, with keys from the number `index` on; None if plain code must make them."""
        try:
            topic, host = read_shared(data)
        except CorruptRecord:
            return None
        name = topic.decode(errors="replace")
        config = self._store.find_topic(name)
        if config is None or config.attributes:
            return None
        queues = max(config.write_queues, config.read_queues)
        key_parts = (_KEY_NAME, keys.first.encode(), keys.second.encode())
        texts = np.empty(len(data) + count * UNIQUE_KEY_ROOM, np.uint8)
        drafts = np.empty((count, DRAFT_WIDTH), np.int64)
        source, text_address = address_of(data), int(texts.ctypes.data)
        made, used = draft_staged(
            source, len(data), _rows(b"", topic, host), self._special_kept.rows, _rows(*key_parts), index, queues,
            text_address, len(texts), drafts,
        )  # fmt: skip
        if made < count:
            return None
        numbers = self._store.queue_table()
        rows = np.array([numbers.row(topic, queue) for queue in range(queues)], np.int64)
        places = np.empty((1, QUEUES_WIDTH), np.int64)
        places[0] = int(rows.ctypes.data), queues
        own_host = self._store.store_host()
        table = DraftTable(
            drafts, source, len(data), text_address, used, len(data) + used, _rows(topic), places,
            _rows(host, own_host), _STORE_HOST, b"", kept=(data, texts, topic, host, rows, own_host),
        )  # fmt: skip
        return StagedTable(name, table)

    def submit(self, staged: StagedTable) -> TableAppended:
        """Write drafts to the log and count them. What is not stored, and why, is told, not raised."""
        appended = self._store.submit_table(staged.table)
        queues, sizes = appended.records[:, RECORD_QUEUE], appended.records[:, RECORD_SIZE]
        for queue in np.unique(queues):
            own = queues == queue
            self._statistics.count_put(staged.topic, int(queue), int(own.sum()), int(sizes[own].sum()))
        return appended


def _rows(*items: bytes) -> Table:
    """Byte strings as a kernel is given them; they must be kept where they are."""
    rows = np.empty((len(items), BYTES_WIDTH), np.int64)
    for number, item in enumerate(items):
        rows[number] = address_of(item), len(item)
    return rows
