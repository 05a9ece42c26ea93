"""A message on its way to a broker: its properties, its body as it travels, and the fields of its request."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from embermq.errors import BodyTooLarge, IllegalMessage, IllegalProperty
from embermq.format.wire_json import BrokerQueue
from embermq.model.delay import DEFAULT_DELAY_LEVELS
from embermq.model.flags import SysFlag
from embermq.model.hashing import java_hash
from embermq.model.message import Message, milliseconds_of
from embermq.model.properties import (
    DELAY,
    KEYS,
    PRODUCER_GROUP,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
    WAIT,
    check_property,
    format_properties,
)
from embermq.model.topic import TEMPLATE_TOPIC, check_topic

COMPRESSED_FROM: Final = 4096  # bytes of body, as RocketMQ's clients have it
MAX_BODY_SIZE: Final = 4 * 1024 * 1024
TEMPLATE_QUEUES: Final = 4
_LEVEL: Final = 5  # of zlib
_ALONE: Final = frozenset({DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TRANSACTION_PREPARED})
_MILLISECOND: Final = timedelta(milliseconds=1)
_ROUND_UP: Final = timedelta(microseconds=999)  # never early


class Outgoing(NamedTuple):
    """A message that was checked and can be sent."""

    topic: str
    body: bytes
    properties: bytes
    unique_key: str
    flag: int
    queue: int | None  # what the sender fixed
    sharding_key: str | None
    must_be_alone: bool  # brokers take no delayed message in a batch, and none of a transaction
    sys_flag: int = 0

    @property
    def size(self) -> int:
        """Bytes that it takes in a batch, nearly."""
        return len(self.body) + len(self.properties) + 22


def prepare(
    message: Message,
    unique_key: str,
    *,
    delay: timedelta | None = None,
    deliver_at: datetime | None = None,
    sharding_key: str | None = None,
    half_of: str | None = None,
) -> Outgoing:
    """Check `message` and write its properties. Raises IllegalMessage and what belongs to it.

    Without a unique key, brokers give it one. It is to be the half message of a transaction of the producer group
    `half_of`, if there is one.
    """
    check_topic(message.topic)
    if not isinstance(message.body, bytes | bytearray | memoryview):
        raise IllegalMessage(f"a body of type {type(message.body).__name__}; bytes are expected")
    if not len(message.body):
        raise IllegalMessage(f"an empty body for topic {message.topic!r}; a message has one byte at least")
    if len(message.body) > MAX_BODY_SIZE:
        raise BodyTooLarge(message.topic, size=len(message.body), limit=MAX_BODY_SIZE)
    properties = dict(_checked(message.properties))
    sharding_key = sharding_key if sharding_key is not None else properties.get(SHARDING_KEY)
    if message.tags:
        properties[TAGS] = _checked_word(TAGS, message.tags)
    if message.keys:
        properties[KEYS] = _join_keys(message.keys)
    if sharding_key:
        properties[SHARDING_KEY] = _checked_word(SHARDING_KEY, sharding_key)
    properties |= delay_properties(delay, deliver_at)
    if half_of is not None:
        properties |= {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: half_of}
    if unique_key:
        properties[UNIQ_KEY] = unique_key
    properties.setdefault(WAIT, "true")
    return Outgoing(
        message.topic,
        bytes(message.body),
        format_properties(properties),
        unique_key,
        message.flag,
        message.queue,
        sharding_key or None,
        not _ALONE.isdisjoint(properties),
        SysFlag.PREPARED if half_of is not None else 0,
    )


def _checked(properties: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in properties.items():
        check_property(name, value)
    return properties


def _checked_word(name: str, value: str) -> str:
    if "\x01" in value or "\x02" in value:
        raise IllegalProperty(name, "it may not hold the characters 0x01 and 0x02")
    return value


def _join_keys(keys: Sequence[str]) -> str:
    """Keys in the one property that holds them, which blanks separate."""
    if isinstance(keys, str):
        raise IllegalMessage(f"keys is the text {keys[:80]!r}; a list of texts is expected, such as [{keys[:80]!r}]")
    for key in keys:
        if not key or key.split() != [key]:
            raise IllegalProperty(KEYS, f"key {key[:80]!r} is empty or holds a blank, which separates keys")
    return _checked_word(KEYS, " ".join(keys))


def delay_properties(delay: timedelta | None, deliver_at: datetime | None = None) -> dict[str, str]:
    """The properties that ask for a delivery later: after a delay, or at a time.

    A delay as long as one of the levels is asked for as such, which every broker can do.
    """
    if deliver_at is not None:
        if delay is not None:
            raise IllegalMessage("both a delay and a time of delivery; give one of them")
        return {TIMER_DELIVER_MS: str(milliseconds_of(deliver_at + _ROUND_UP))}
    if delay is None or delay <= timedelta(0):
        return {}
    milliseconds = -(-delay // _MILLISECOND)  # up: never early
    if milliseconds in DEFAULT_DELAY_LEVELS:
        return {DELAY: str(DEFAULT_DELAY_LEVELS.index(milliseconds) + 1)}
    return {TIMER_DELAY_MS: str(milliseconds)}


def delay_level(delay: timedelta) -> int:
    """The delay level, from 1, of exactly this length. Raises IllegalMessage for any other."""
    milliseconds = delay // _MILLISECOND
    if milliseconds * _MILLISECOND != delay or milliseconds not in DEFAULT_DELAY_LEVELS:
        levels = ", ".join(str(timedelta(milliseconds=level)) for level in DEFAULT_DELAY_LEVELS)
        raise IllegalMessage(f"delay of {delay}: a message is given back for one of {levels}")
    return DEFAULT_DELAY_LEVELS.index(milliseconds) + 1


def choose_queue(message: Outgoing, queues: Sequence[BrokerQueue], turn: int) -> BrokerQueue:
    """Where a message goes: the queue it names, that of its sharding key, or the next in turn."""
    if message.queue is not None:
        fitting = [queue for queue in queues if queue.queue == message.queue]
        if not fitting:
            raise IllegalMessage(f"topic {message.topic!r} has no queue {message.queue} that can be written")
        return fitting[turn % len(fitting)]
    if message.sharding_key is not None:
        # Sorted, so that a key keeps its queue whatever order the name server lists them in; and the one that
        # RocketMQ's clients, with SelectMessageQueueByHash, give it.
        return sorted(queues)[abs(java_hash(message.sharding_key)) % len(queues)]
    return queues[turn % len(queues)]


def packed_body(message: Outgoing) -> tuple[bytes, int]:
    """The body as it travels, and the system flag that says how it is packed."""
    if len(message.body) < COMPRESSED_FROM:
        return message.body, message.sys_flag
    packed = zlib.compress(message.body, _LEVEL)
    if len(packed) >= len(message.body):
        return message.body, message.sys_flag
    return packed, message.sys_flag | SysFlag.COMPRESSED | SysFlag.ZLIB


def send_fields(
    target: BrokerQueue,
    *,
    group: str,
    properties: str,
    sys_flag: int,
    flag: int,
    born_ms: int,
    is_batch: bool,
    reconsume_times: int = 0,
    max_reconsume_times: int | None = None,
) -> dict[str, str]:
    """The fields of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE."""
    fields = {
        "a": group,
        "b": target.topic,
        "c": TEMPLATE_TOPIC,
        "d": str(TEMPLATE_QUEUES),
        "e": str(target.queue),
        "f": str(sys_flag),
        "g": str(born_ms),
        "h": str(flag),
        "i": properties,
        "j": str(reconsume_times),
        "k": "false",
        "m": "true" if is_batch else "false",
        "n": target.broker,
    }
    if max_reconsume_times is not None:
        fields["l"] = str(max_reconsume_times)
    return fields
