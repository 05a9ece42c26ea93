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
        self._tables: BatchIntake | None = None

    def can_put(self, batch: MessageBatch, settings: StoreSettings) -> bool:
        """Whether kernels put this batch as plain code would."""
        if not len(batch) or not loading.is_loaded() or settings.property_crc:
            return False
        from embermq.log.table_append import largest_body

        if settings.max_message_size > largest_body(self._parts.commit_log.chain.file_size):
            return False
        return batch.topic != SCHEDULE_TOPIC and not is_light_queue(batch.topic)

    def put(self, batch: MessageBatch) -> Receipts:
        """Store it, all or nothing. Raises as `Store.put_many` does."""
        from embermq.store.batch_intake import BatchIntake

        born_time = self._clock.now_ms()
        if self._tables is None:
            self._tables = BatchIntake(self._intake, self._parts.offsets.table, self._parts.commit_log.store_host)
        tables = self._tables
        return self._writer.put_table(batch.topic, lambda: tables.table(batch, born_time))
