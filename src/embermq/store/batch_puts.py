"""Puts of a MessageBatch: by kernels, where they are loaded and nothing is unusual."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embermq.clock import Clock
from embermq.kernels import loading
from embermq.model.message import Receipts
from embermq.model.message_batch import MessageBatch
from embermq.model.topic import SCHEDULE_TOPIC, is_light_queue
from embermq.store.intake import Intake
from embermq.store.parts import Parts
from embermq.store.settings import StoreSettings
from embermq.store.writer import Writer

if TYPE_CHECKING:
    from embermq.store.batch_intake import BatchIntake


class BatchPuts:
    """The quick way of batches into a store."""

    def __init__(self, parts: Parts, intake: Intake, writer: Writer, *, clock: Clock) -> None:
        self._parts = parts
        self._intake = intake
        self._writer = writer
        self._clock = clock
        self._tables: BatchIntake | None = None  # once kernels are there
        self._largest_body = 0

    def can_put(self, batch: MessageBatch, settings: StoreSettings) -> bool:
        """Whether kernels put this batch as plain code would."""
        if not len(batch) or settings.property_crc or (self._tables is None and not self._load()):
            return False
        if settings.max_message_size > self._largest_body:
            return False
        return batch.topic != SCHEDULE_TOPIC and not is_light_queue(batch.topic)

    def put(self, batch: MessageBatch) -> Receipts:
        """Store it, all or nothing; see `can_put` before. Raises as `Store.put_many` does."""
        tables, born_time = self._tables, self._clock.now_ms()
        assert tables is not None
        return self._writer.put_table(batch.topic, lambda: tables.table(batch, born_time))

    def _load(self) -> bool:
        """Get what is only there where kernels are, once: an import costs as much as ten messages."""
        if not loading.is_loaded():
            return False
        from embermq.log.table_append import largest_body
        from embermq.store.batch_intake import BatchIntake

        commit_log = self._parts.commit_log
        self._largest_body = largest_body(commit_log.chain.file_size)
        self._tables = BatchIntake(self._intake, self._parts.offsets.table, commit_log.store_host)
        return True
