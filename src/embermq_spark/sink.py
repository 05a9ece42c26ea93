"""The sink: a DataFrame to topics, in one write or as a stream.

    tasks      stage their rows at the brokers: written, but seen by nobody
    commit     publishes what all tasks staged; a batch that was published before is not published again
    abort      forgets it

A write is a job with one batch. A stream is a job, too: its id is kept in the checkpoint, so that a query that is
started again is the same job, and a batch that it writes again the same batch.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from embermq.client.staging import merge_plans
from embermq.errors import EmberError, SettingsError
from embermq_spark.options import WriteOptions
from embermq_spark.sink_columns import SinkColumns, sink_columns
from embermq_spark.sink_task import TaskName, TaskResult, open_client, write_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

QUERY_ID: Final = "sql.streaming.queryId"  # what Spark tells the tasks of a stream; kept in the checkpoint
ONLY_BATCH: Final = 0  # of a job that is one write


@dataclass(frozen=True, slots=True)
class Written(WriterCommitMessage):
    """What one task wrote, for the commit. It travels to the driver, so it holds only plain data."""

    job: str
    result: TaskResult


class BatchSink(DataSourceArrowWriter):
    """Writes a DataFrame: consumers see all of it or nothing."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        self._columns = _checked_columns(schema, options, overwrite=overwrite)
        self._options = options
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(iterator, self._columns, self._options, self._job)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _commit(messages, self._options, ONLY_BATCH)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _abort(messages, self._options, ONLY_BATCH, job=self._job)


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a stream: each once, also if the query is killed and started again."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        self._columns = _checked_columns(schema, options, overwrite=overwrite)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        job = context.getLocalProperty(QUERY_ID) if context is not None else None
        if not job:
            raise SettingsError(f"Spark does not tell the id of this query ({QUERY_ID}); use PySpark 4.1 to 4.3")
        return _write(iterator, self._columns, self._options, job)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _commit(messages, self._options, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _abort(messages, self._options, batchId)


def _checked_columns(schema: StructType, options: WriteOptions, *, overwrite: bool) -> SinkColumns:
    if overwrite:
        raise SettingsError("messages are only added, none is overwritten; write with mode append")
    return sink_columns(schema, topic=options.topic)


def _write(iterator: Iterator[pa.RecordBatch], columns: SinkColumns, options: WriteOptions, job: str) -> Written:
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    name = TaskName(job, uuid.uuid4().hex, partition)
    return Written(job, asyncio.run(write_task(iterator, columns, options, name)))


def _commit(messages: Sequence[WriterCommitMessage | None], options: WriteOptions, batch: int) -> None:
    written = _staged(messages)
    if not written:
        return

    async def publish() -> bool:
        async with open_client(options) as client:
            plan = merge_plans(each.result.plan for each in written)
            topics = {topic for each in written for topic in each.result.topics}
            return await client.staging(written[0].job).publish(batch, plan, topics)

    is_new = asyncio.run(publish())
    log.info("batch published job=%s batch=%d new=%s", written[0].job, batch, is_new)


def _abort(
    messages: Sequence[WriterCommitMessage | None], options: WriteOptions, batch: int, *, job: str | None = None
) -> None:
    """Forget a batch. With `job`, which has no other, also what tasks staged that were stopped on their way."""
    written = _staged(messages)
    plan = merge_plans(each.result.plan for each in written)
    topics = {topic for each in written for topic in each.result.topics}

    async def give_up() -> None:
        async with open_client(options) as client:
            is_forgotten = not plan or await client.staging(written[0].job).abort(batch, plan, topics)
            if job is not None and is_forgotten:
                await client.staging(job).discard_all(topics | ({options.topic} if options.topic else set()))

    try:
        asyncio.run(give_up())
    except EmberError as error:  # what the write failed with is what its user must see
        log.warning("staged messages are left to expire batch=%d reason=%s", batch, error)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """What tasks staged; those that failed have no message, those of RocketMQ's brokers nothing staged."""
    return [message for message in messages if isinstance(message, Written) and message.result.plan]
