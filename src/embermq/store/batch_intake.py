"""A MessageBatch becomes a table of drafts, or is refused before anything is changed. Only loaded where kernels are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from embermq.errors import BodyTooLarge, IllegalMessage
from embermq.format.host import HOST_V6_SIZE
from embermq.kernels.batch_drafts import place_bodies, share_out
from embermq.kernels.byte_table import ByteTable
from embermq.kernels.columns import DRAFT_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.placing import QUEUES_WIDTH
from embermq.log.queue_table import QueueTable
from embermq.log.table_append import DraftTable
from embermq.model.flags import SysFlag
from embermq.model.message import NO_PROPERTIES, Message
from embermq.model.message_batch import MessageBatch
from embermq.store.intake import Intake, Target

_STORE_HOST = 0  # the only host there is
_NOTHING = b"\0"
_NOWHERE = address_of(_NOTHING)  # where nothing is read


class _Topic(NamedTuple):
    """A topic as kernels know it."""

    names: ByteTable  # its own alone
    rows: Table  # where the numbers of its queues are
    queues: Table  # where `rows` are: see kernels/placing.py


class BatchIntake:
    """Checks batches and gives their messages queues. Used by the one writer thread."""

    def __init__(self, intake: Intake, numbers: QueueTable, store_host: bytes) -> None:
        self._intake = intake
        self._numbers = numbers
        self._hosts = ByteTable(store_host)
        self._flags = SysFlag.BORN_HOST_V6 if len(store_host) == HOST_V6_SIZE else 0
        self._topics: dict[bytes, _Topic] = {}
        self._drafts: Table = np.zeros((0, DRAFT_WIDTH), np.int64)

    def table(self, batch: MessageBatch, born_time: int) -> DraftTable:
        """The drafts of a batch. Raises a RequestError; then nothing changed."""
        texts, texts_at = self._texts(batch)
        target = self._intake.target(batch.topic)
        drafts = self._take_drafts(len(batch))
        size = self._place_bodies(batch, drafts)
        queue, queues = self._choose_queues(batch, target)
        share_out(drafts, queue, queues, len(texts), born_time, self._flags)
        topic = self._topic_of(target)
        return DraftTable(
            drafts, address_of(batch.bodies), size, texts_at, len(texts), size + len(batch) * len(texts),
            topic.names.rows, topic.queues, self._hosts.rows, _STORE_HOST, b"", kept=(batch, texts),
        )  # fmt: skip

    def _texts(self, batch: MessageBatch) -> tuple[bytes, int]:
        """The properties of each message, and where they are."""
        if not batch.tags and batch.properties is NO_PROPERTIES:
            return b"", _NOWHERE
        texts = self._intake.properties(Message(batch.topic, b"", batch.tags, properties=batch.properties))
        return texts, address_of(texts) if texts else _NOWHERE

    def _take_drafts(self, count: int) -> Table:
        """Memory for so many drafts; what is never written to stays zero."""
        if len(self._drafts) < count:
            self._drafts = np.zeros((count, DRAFT_WIDTH), np.int64)
        return self._drafts[:count]

    def _place_bodies(self, batch: MessageBatch, drafts: Table) -> int:
        """Write where bodies are; the bytes they take."""
        size = memoryview(batch.bodies).nbytes
        placed, largest = place_bodies(address_of(batch.ends), len(batch), size, drafts)
        if placed < len(batch):
            raise IllegalMessage(f"the ends of a batch for {batch.topic!r} do not rise up to its {size} bytes")
        limit = self._intake.limits.body_size
        if largest > limit:
            raise BodyTooLarge(batch.topic, size=largest, limit=limit)
        return size

    def _choose_queues(self, batch: MessageBatch, target: Target) -> tuple[int, int]:
        """The queue of the first message, and how many take turns; 0 if all go there."""
        if batch.queue is not None:
            self._intake.check_queue(batch.topic, batch.queue, target.queues)
            return batch.queue, 0
        return self._intake.take_turns(target.name, len(batch)) % target.queues, target.queues

    def _topic_of(self, target: Target) -> _Topic:
        topic = self._topics.get(target.name)
        if topic is None or len(topic.rows) < target.queues:
            rows = np.array([self._numbers.row(target.name, queue) for queue in range(target.queues)], np.int64)
            queues = np.empty((1, QUEUES_WIDTH), np.int64)
            queues[0] = int(rows.ctypes.data), len(rows)
            topic = self._topics[target.name] = _Topic(ByteTable(target.name), rows, queues)
        return topic
