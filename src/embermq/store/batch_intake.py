"""A MessageBatch becomes a table of drafts, or is refused before anything is changed. Only loaded where kernels are."""

from __future__ import annotations

import numpy as np

from embermq.errors import BodyTooLarge, IllegalMessage
from embermq.format.host import HOST_V6_SIZE
from embermq.kernels.byte_table import ByteTable
from embermq.kernels.columns import (
    DRAFT_BODY_AT,
    DRAFT_BODY_SIZE,
    DRAFT_BORN_TIME,
    DRAFT_PROPERTIES_SIZE,
    DRAFT_QUEUE,
    DRAFT_SYS_FLAG,
    DRAFT_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.memory import address_of
from embermq.kernels.placing import QUEUES_WIDTH
from embermq.log.queue_table import QueueTable
from embermq.log.table_append import DraftTable
from embermq.model.flags import SysFlag
from embermq.model.message import Message
from embermq.model.message_batch import MessageBatch
from embermq.store.intake import Intake, Target

_STORE_HOST = 0  # the only host there is


class BatchIntake:
    """Checks batches and gives their messages queues. Used by the one writer thread."""

    def __init__(self, intake: Intake, numbers: QueueTable, store_host: bytes) -> None:
        self._intake = intake
        self._numbers = numbers
        self._hosts = ByteTable(store_host)
        self._flags = SysFlag.BORN_HOST_V6 if len(store_host) == HOST_V6_SIZE else 0
        self._queues: dict[bytes, Table] = {}
        self._drafts: Table = np.zeros((0, DRAFT_WIDTH), np.int64)

    def table(self, batch: MessageBatch, born_time: int) -> DraftTable:
        """The drafts of a batch. Raises a RequestError; then nothing changed."""
        properties = self._intake.properties(Message(batch.topic, b"", batch.tags, properties=batch.properties))
        target = self._intake.target(batch.topic)
        drafts = self._take_drafts(len(batch))
        size = self._place_bodies(batch, drafts)
        drafts[:, DRAFT_PROPERTIES_SIZE] = len(properties)  # all have the same
        drafts[:, DRAFT_QUEUE] = self._choose_queues(batch, target)
        drafts[:, DRAFT_BORN_TIME] = born_time
        drafts[:, DRAFT_SYS_FLAG] = self._flags
        texts = properties or b"\0"
        return DraftTable(
            drafts, address_of(batch.bodies), size, address_of(texts), len(properties),
            size + len(batch) * len(properties), ByteTable(target.name).rows, self._queues_of(target), self._hosts.rows,
            _STORE_HOST, b"", kept=(batch, texts, target.name),
        )  # fmt: skip

    def _take_drafts(self, count: int) -> Table:
        """Memory for so many drafts; what is never written to stays zero."""
        if len(self._drafts) < count:
            self._drafts = np.zeros((count, DRAFT_WIDTH), np.int64)
        return self._drafts[:count]

    def _place_bodies(self, batch: MessageBatch, drafts: Table) -> int:
        """Write where bodies are; the bytes they take."""
        size, ends = memoryview(batch.bodies).nbytes, np.frombuffer(batch.ends, np.int64)
        drafts[0, DRAFT_BODY_AT] = 0
        drafts[1:, DRAFT_BODY_AT] = ends[:-1]
        sizes = drafts[:, DRAFT_BODY_SIZE]
        np.subtract(ends, drafts[:, DRAFT_BODY_AT], out=sizes)
        if sizes.min() < 0 or ends[-1] > size:
            raise IllegalMessage(f"the ends of a batch for {batch.topic!r} do not rise up to its {size} bytes")
        largest, limit = int(sizes.max()), self._intake.limits.body_size
        if largest > limit:
            raise BodyTooLarge(batch.topic, size=largest, limit=limit)
        return size

    def _choose_queues(self, batch: MessageBatch, target: Target) -> Table | int:
        if batch.queue is not None:
            self._intake.check_queue(batch.topic, batch.queue, target.queues)
            return batch.queue
        turn = self._intake.take_turns(target.name, len(batch))
        return np.arange(turn, turn + len(batch)) % target.queues

    def _queues_of(self, target: Target) -> Table:
        """Where the numbers of the topic's queues are: see kernels/placing.py."""
        rows = self._queues.get(target.name)
        if rows is None or len(rows) < target.queues:
            rows = np.array([self._numbers.row(target.name, queue) for queue in range(target.queues)], np.int64)
            self._queues[target.name] = rows
        queues = np.empty((1, QUEUES_WIDTH), np.int64)
        queues[0] = int(rows.ctypes.data), len(rows)
        return queues
