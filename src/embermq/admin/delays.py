"""Messages that wait for their time: which, until when, and taking one back.

A broker keeps them in topics of its own, which can be read as any other: so this works with RocketMQ's brokers, too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from embermq.admin.cluster import Cluster
from embermq.client.answers import check_answer
from embermq.client.pulling import make_subscribed, pull
from embermq.client.reader import READER_GROUP
from embermq.errors import MessageNotFound, NotSupported, TopicNotFound
from embermq.format.java_properties import decode_properties
from embermq.format.recall_handle import RecallHandle, encode_recall_handle
from embermq.format.tables import decode_delays
from embermq.format.timer_check import TimerCheck, decode_timer_check
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.delay import DEFAULT_DELAY_LEVELS, parse_delay_levels
from embermq.model.message import StoredMessage
from embermq.model.properties import (
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER_DEL_UNIQKEY,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    UNIQ_KEY,
)
from embermq.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC

_STEP_MS: Final = 1000  # of a timer, unless it is set to less: how late a message may come
_TOOLS: Final = "TOOLS"


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that is not delivered yet."""

    topic: str
    queue: int
    deliver_ms: int
    unique_key: str
    broker: str
    level: int | None  # of delay; None for one that named its time
    tags: str | None
    keys: tuple[str, ...]
    body: bytes
    recall_handle: str | None


async def list_waiting(cluster: Cluster, topic: str | None = None) -> list[WaitingMessage]:
    """All messages that wait, or those for one topic; the next to come first."""
    found: list[WaitingMessage] = []
    for broker in await cluster.brokers():
        found += await _of_timer(cluster, broker.name, broker.address)
        found += await _of_levels(cluster, broker.name, broker.address)
    wanted = [each for each in found if topic is None or each.topic == topic]
    return sorted(wanted, key=lambda each: (each.deliver_ms, each.topic, each.unique_key))


async def find_waiting(cluster: Cluster, topic: str, unique_key: str) -> WaitingMessage:
    """The message for a topic with this unique key. Raises MessageNotFound if it does not wait."""
    for each in await list_waiting(cluster, topic):
        if each.unique_key == unique_key:
            return each
    raise MessageNotFound(f"no message {unique_key[:200]!r} waits for topic {topic!r}; it may have been delivered")


async def cancel_waiting(cluster: Cluster, message: WaitingMessage) -> None:
    """Take a waiting message back; it is never delivered. Raises NotSupported for one of a delay level, and Refused."""
    if message.recall_handle is None:
        raise NotSupported(
            f"message {message.unique_key!r} waits in delay level {message.level}, which cannot be changed"
        )
    address = (await cluster.masters_of(message.topic))[message.broker]
    fields = {"topic": message.topic, "recallHandle": message.recall_handle, "producerGroup": _TOOLS}
    answer = await cluster.ask(address, RequestCode.RECALL_MESSAGE, fields)
    check_answer(answer, f"recall of message {message.unique_key!r}", topic=message.topic)


async def _of_timer(cluster: Cluster, broker: str, address: str) -> list[WaitingMessage]:
    answer = await cluster.ask(address, RequestCode.GET_TIMER_CHECK_POINT)
    if answer.code != ResponseCode.SUCCESS:
        return []  # it has no timer
    check = decode_timer_check(answer.data)
    waiting: dict[tuple[str, str], WaitingMessage] = {}  # the last wins: a message may be stored again on the way
    cancelled: set[str] = set()
    async for message in _read(cluster, BrokerQueue(broker, TIMER_TOPIC, 0), address, 0):
        if not _is_open(message, check):
            continue
        if (key := message.properties.get(TIMER_DEL_UNIQKEY)) is not None:
            cancelled.add(key)
        else:
            made = _timed(message, broker)
            waiting[made.topic, made.unique_key] = made
    return [each for (topic, key), each in waiting.items() if f"{topic}+{key}" not in cancelled]


def _is_open(message: StoredMessage, check: TimerCheck) -> bool:
    """Whether the slot of a message was not read yet."""
    return _number(message, TIMER_OUT_MS) >= check.read_time or message.offset >= check.queue_offset


def _timed(message: StoredMessage, broker: str) -> WaitingMessage:
    properties = message.properties
    out = _number(message, TIMER_OUT_MS)
    topic, key = properties.get(REAL_TOPIC, ""), properties.get(UNIQ_KEY, "")
    deliver = _number(message, TIMER_DELIVER_MS) or out + _STEP_MS
    handle = encode_recall_handle(RecallHandle(topic, broker, out + 1, key))
    return _waiting(message, broker, deliver_ms=deliver, level=None, handle=handle)


async def _of_levels(cluster: Cluster, broker: str, address: str) -> list[WaitingMessage]:
    answer = await cluster.ask(address, RequestCode.GET_ALL_DELAY_OFFSET)
    offsets = decode_delays(check_answer(answer, "progress of delay levels").data).offsets
    found = []
    for number, delay in enumerate(await _levels(cluster, address)):
        queue = BrokerQueue(broker, SCHEDULE_TOPIC, number)
        async for message in _read(cluster, queue, address, offsets.get(number + 1, 0)):
            due = message.store_time_ms + delay
            found.append(_waiting(message, broker, deliver_ms=due, level=number + 1, handle=None))
    return found


async def _levels(cluster: Cluster, address: str) -> tuple[int, ...]:
    answer = await cluster.ask(address, RequestCode.GET_BROKER_CONFIG)
    text = decode_properties(answer.data).get("messageDelayLevel") if answer.code == ResponseCode.SUCCESS else None
    return parse_delay_levels(text) if text else DEFAULT_DELAY_LEVELS


async def _read(cluster: Cluster, queue: BrokerQueue, address: str, offset: int) -> AsyncIterator[StoredMessage]:
    """The messages of one queue from an offset on, up to where it ends now."""
    try:
        end = await cluster.offsets.max(address, queue)
        offset = max(offset, await cluster.offsets.min(address, queue))
    except TopicNotFound:
        return
    wanted = make_subscribed(queue.topic, None)
    while offset < end:
        pulled = await pull(
            cluster.connections, address, queue, offset, group=READER_GROUP, wanted=wanted, is_inline=True, wait_s=0.0
        )
        for message in pulled.messages:
            yield message
        if pulled.next_offset <= offset:
            return
        offset = pulled.next_offset


def _waiting(
    message: StoredMessage, broker: str, *, deliver_ms: int, level: int | None, handle: str | None
) -> WaitingMessage:
    properties = message.properties
    return WaitingMessage(
        topic=properties.get(REAL_TOPIC, ""),
        queue=_number(message, REAL_QUEUE),
        deliver_ms=deliver_ms,
        unique_key=properties.get(UNIQ_KEY, ""),
        broker=broker,
        level=level,
        tags=message.tags,
        keys=message.keys,
        body=message.body,
        recall_handle=handle,
    )


def _number(message: StoredMessage, name: str) -> int:
    text = message.properties.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0
