"""What may be put: a Message becomes a Draft, or is refused before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from embermq.errors import (
    BodyTooLarge,
    IllegalMessage,
    IllegalProperty,
    IllegalQueue,
    NotPermitted,
    PropertiesTooLarge,
    TooManyKeys,
)
from embermq.format.record import Draft
from embermq.model.flags import Permission
from embermq.model.message import Message
from embermq.model.properties import KEYS, TAGS, check_property, format_properties
from embermq.model.topic import TopicConfig

_I32 = 2**31


@dataclass(frozen=True, slots=True)
class Limits:
    """What a message may hold at most."""

    body_size: int
    properties_size: int
    keys: int


class Intake:
    """Checks messages and gives each its queue. Used by the one writer thread."""

    def __init__(self, limits: Limits, *, topic: Callable[[str], TopicConfig], born_host: bytes) -> None:
        self._limits = limits
        self._topic = topic
        self._born_host = born_host
        self._turns: dict[str, int] = {}

    def draft(self, message: Message, born_time: int) -> Draft:
        """The draft of `message`, with a queue if it names none. Raises a RequestError."""
        body = message.body
        if type(body) is not bytes:
            body = _body(message)
        if len(body) > self._limits.body_size:
            raise BodyTooLarge(message.topic, size=len(body), limit=self._limits.body_size)
        if not -_I32 <= message.flag < _I32:
            raise IllegalMessage(f"flag {message.flag} of a message for {message.topic!r} is no 32-bit number")
        config = self._topic(message.topic)
        properties = self._properties(message)
        return Draft(
            config.name.encode(),
            self._queue(config, message.queue),
            body,
            properties,
            message.flag,
            0,
            born_time,
            self._born_host,
        )

    def _queue(self, config: TopicConfig, queue: int | None) -> int:
        if not config.permission & Permission.WRITE:
            raise NotPermitted(f"topic {config.name!r} takes no messages; give it write permission")
        if queue is None:
            turn = self._turns.get(config.name, 0)
            self._turns[config.name] = turn + 1
            return turn % config.write_queues
        if not 0 <= queue < config.write_queues:
            raise IllegalQueue(config.name, queue, config.write_queues)
        return queue

    def _properties(self, message: Message) -> bytes:
        values = dict(message.properties) if message.properties else {}
        for name, value in values.items():
            check_property(name, value)
        if message.keys:
            values[KEYS] = self._keys(message)
        if message.tags:
            _check_text(TAGS, message.tags)
            values[TAGS] = message.tags
        if not values:
            return b""
        data = format_properties(values)
        if len(data) > self._limits.properties_size:
            raise PropertiesTooLarge(message.topic, size=len(data), limit=self._limits.properties_size)
        return data

    def _keys(self, message: Message) -> str:
        if isinstance(message.keys, str):
            raise IllegalProperty(KEYS, "a list of keys is wanted, not one text")
        if len(message.keys) > self._limits.keys:
            raise TooManyKeys(message.topic, count=len(message.keys), limit=self._limits.keys)
        for key in message.keys:
            _check_text(KEYS, key)
            if not key or " " in key:
                raise IllegalProperty(KEYS, f"{key!r} is no key; a key is not empty and holds no blank")
        return " ".join(message.keys)


def _check_text(name: str, value: str) -> None:
    if not isinstance(value, str):
        raise IllegalProperty(name, f"text is wanted, not {type(value).__name__}")
    if "\x01" in value or "\x02" in value:
        raise IllegalProperty(name, "it holds a separator byte (0x01 or 0x02)")


def _body(message: Message) -> bytes:
    if isinstance(message.body, (bytearray, memoryview, bytes)):
        return bytes(message.body)
    raise IllegalMessage(
        f"the body of a message for {message.topic!r} is {type(message.body).__name__}; bytes are wanted"
    )
