"""Replays into a cluster of EmberMQ's brokers: each message once, whoever is killed meanwhile.

A batch is staged and then published under the position of its last message. Brokers keep that with the promise to
publish it, so that a replay with the same name goes on behind what they have.
"""

from __future__ import annotations

import asyncio
import uuid
import zlib
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from embermq.archive.replay import StoredRow
from embermq.client.client import AsyncClient
from embermq.client.staging import StagedWriter, Staging
from embermq.errors import NotSupported
from embermq.format.staged import StagedMessage
from embermq.format.wire_json import BrokerQueue
from embermq.model.flags import SysFlag
from embermq.model.properties import (
    CLUSTER,
    DELAY,
    INNER_BASE,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    INNER_NUM,
    MSG_REGION,
    ORIGIN_MESSAGE_ID,
    POP_CK,
    PROPERTY_CRC,
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER_DELAY_LEVEL,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    TRACE_ON,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
    format_properties,
)

# What a message got on its way into the log, or what would delay it once more; brokers give it some of these anew.
NOT_SENT: Final = frozenset(
    {
        UNIQ_KEY, CLUSTER, MSG_REGION, TRACE_ON, DELAY, REAL_TOPIC, REAL_QUEUE, TRANSACTION_PREPARED, POP_CK,
        INNER_NUM, INNER_BASE, INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET, PROPERTY_CRC,
        TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_OUT_MS, TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS,
        TIMER_ROLL_TIMES, TIMER_DELAY_LEVEL,
    }
)  # fmt: skip
_LEVEL: Final = 5  # of zlib, as clients pack


class ClusterSink:
    """The brokers of `topics`. Use it in a `with` block."""

    def __init__(self, client: AsyncClient, job: str, topics: Sequence[str], *, timeout_s: float = 60.0) -> None:
        self._client = client
        self._staging: Staging = client.staging(job, timeout=timeout_s)
        self._topics = sorted(set(topics))
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._runner.run(self._client.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._client.__aexit__(kind, error, trace))
        self._runner.close()

    def find_position(self) -> int | None:
        """See `replay.Sink`. What a replay before this one left half-way is brought to its end first.

        Raises NotSupported if a broker is not EmberMQ's, TopicNotFound.
        """
        return self._runner.run(self._find_position())

    def write(self, messages: list[StoredRow], position: int) -> None:
        """See `replay.Sink`."""
        self._runner.run(self._write(messages, position))

    async def _find_position(self) -> int | None:
        for topic in self._topics:
            if not await self._staging.can_stage(topic):
                raise NotSupported(
                    f"topic {topic!r} is at brokers that keep no staged messages: they are not EmberMQ's; replay "
                    "into a directory with --out, or send what `ember tail --json` prints"
                )
        newest = await self._staging.find_newest(self._topics)
        if newest is not None:
            await self._staging.publish(newest, {}, self._topics)
        return newest

    async def _write(self, messages: list[StoredRow], position: int) -> None:
        writer = self._staging.writer(uuid.uuid4().hex)
        try:
            queues: dict[str, list[BrokerQueue]] = {}
            for message in messages:
                await self._add(writer, message, queues)
            plan = await writer.finish()
        except BaseException:
            await writer.discard()
            raise
        await self._staging.publish(position, plan, self._topics)

    async def _add(self, writer: StagedWriter, message: StoredRow, queues: dict[str, list[BrokerQueue]]) -> None:
        if message.topic not in queues:
            route = await self._staging.route(message.topic)
            queues[message.topic] = sorted(route.write_queues)
        await writer.add_staged(choose_queue(message.queue, queues[message.topic]), staged_of(message))


def choose_queue(queue: int, queues: Sequence[BrokerQueue]) -> BrokerQueue:
    """Where messages of a queue go: the same for all of them, so that they keep their order."""
    return next((each for each in queues if each.queue == queue), queues[queue % len(queues)])


def staged_of(message: StoredRow) -> StagedMessage:
    """A message as it is sent again; it keeps its first id as ORIGIN_MESSAGE_ID."""
    kept = {name: value for name, value in message.properties.items() if name not in NOT_SENT}
    first_id = message.properties.get(UNIQ_KEY)
    if first_id is not None:
        kept.setdefault(ORIGIN_MESSAGE_ID, first_id)
    body, sys_flag = message.body, message.sys_flag
    if message.was_packed:
        body, sys_flag = zlib.compress(body, _LEVEL), sys_flag | SysFlag.COMPRESSED | SysFlag.ZLIB
    # Their queue is that of the request; it is set when one was chosen.
    return StagedMessage(0, message.flag, sys_flag, message.born_ms, body, format_properties(kept))
