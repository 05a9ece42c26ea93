"""What one task writes: staged at brokers of EmberMQ until all is committed, sent at once to RocketMQ's."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from embermq.client.client import AsyncClient
from embermq.client.outgoing import prepare
from embermq.client.staging import StagedWriter, Staging
from embermq.errors import EmberError, IllegalMessage
from embermq.model.message import Message
from embermq.model.staged import Plan
from embermq_spark.options import WriteOptions
from embermq_spark.sink_batches import Encoded, TopicRows, encode_rows, split_topics
from embermq_spark.sink_columns import SinkColumns, iter_messages

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

MOST_SENDING: Final = 1000  # messages that are sent at once


class TaskName(NamedTuple):
    """Who writes: the job, a name that no other try has, and the partition, for messages."""

    job: str
    task: str
    partition: int


class TaskResult(NamedTuple):
    """What a task wrote."""

    plan: Plan
    topics: tuple[str, ...]  # of the plan
    sent: int  # messages that are visible already


def open_client(options: WriteOptions) -> AsyncClient:
    assert options.namesrv is not None  # checked when they were parsed
    return AsyncClient(
        options.namesrv,
        access_key=options.access_key,
        secret_key=options.secret_key,
        tls=options.tls,
        timeout=options.timeout / 1000,
        producer_group="embermq-spark",
    )


async def write_task(
    batches: Iterator[pa.RecordBatch], columns: SinkColumns, options: WriteOptions, name: TaskName
) -> TaskResult:
    """Write all rows of a task. Raises the first error; then nothing of what was staged is kept."""
    async with open_client(options) as client:
        task = _Task(client, name)
        try:
            rows = 0
            for batch in batches:
                if not await task.write_together(split_topics(batch, columns, topic=options.topic)):
                    for row, message in _numbered(batch, columns, options, name.partition, before=rows):
                        await task.write(message, row)
                rows += batch.num_rows
            return await task.finish()
        except BaseException:
            await task.give_up()
            raise


class _Task:
    """Messages on their way, each by the door of its topic."""

    def __init__(self, client: AsyncClient, name: TaskName) -> None:
        self._client = client
        self._name = name
        self._staging: Staging = client.staging(name.job)
        self._writer: StagedWriter = self._staging.writer(name.task)
        self._can_stage: dict[str, bool] = {}  # by topic
        self._sending: list[Message] = []
        self._sent = 0

    async def write_together(self, topics: Sequence[TopicRows] | None) -> bool:
        """Write the rows of a batch; False, with nothing done, if they must be written one by one."""
        if topics is None or not all([await self._may_stage(rows.topic) for rows in topics]):
            return False
        encoded: list[Encoded] = []
        for rows in topics:
            turn = self._writer.take_turns(len(rows.bodies))
            found = encode_rows(rows, await self._writer.find_queues(rows.topic), turn)
            if found is None:
                return False
            encoded += found
        for each in encoded:
            await self._writer.add_encoded(*each)
        return True

    async def write(self, message: Message, row: int) -> None:
        try:
            outgoing = prepare(message, "")
            if await self._may_stage(message.topic):
                await self._writer.add(outgoing)
                return
        except IllegalMessage as error:
            raise _of_row(error, row, self._name.partition) from error
        self._sending.append(message)
        if len(self._sending) == MOST_SENDING:
            await self._send()

    async def finish(self) -> TaskResult:
        await self._send()
        plan = await self._writer.finish()
        return TaskResult(plan, tuple(sorted(self._writer.topics)), self._sent)

    async def give_up(self) -> None:
        try:
            await self._writer.discard()
        except EmberError as error:
            log.warning("staged messages are left to expire task=%s reason=%s", self._name.task, error)

    async def _may_stage(self, topic: str) -> bool:
        if topic not in self._can_stage:
            self._can_stage[topic] = await self._find_door(topic)
        return self._can_stage[topic]

    async def _find_door(self, topic: str) -> bool:
        can_stage = await self._staging.can_stage(topic)
        if not can_stage:
            log.warning(
                "at least once topic=%s reason=its brokers keep no staged messages (they are not EmberMQ's); a task "
                "that is tried again sends its messages again, and readers see them before the batch is whole",
                topic,
            )
        return can_stage

    async def _send(self) -> None:
        """Send what waits, and wait until all of it is stored."""
        messages, self._sending = self._sending, []
        for outcome in await self._client.send_many(messages):
            if isinstance(outcome, EmberError):
                raise outcome
        self._sent += len(messages)


def _numbered(
    batch: pa.RecordBatch, columns: SinkColumns, options: WriteOptions, partition: int, *, before: int
) -> Iterator[tuple[int, Message]]:
    """The messages of a batch's rows, with the numbers of those in their partition, from 1 on."""
    messages = iter_messages(batch, columns, topic=options.topic)
    for row in range(before + 1, before + batch.num_rows + 1):
        try:
            message = next(messages)
        except IllegalMessage as error:
            raise _of_row(error, row, partition) from error
        yield row, message


def _of_row(error: IllegalMessage, row: int, partition: int) -> IllegalMessage:
    return IllegalMessage(f"row {row} of partition {partition} cannot be written: {error}")
