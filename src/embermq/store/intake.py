"""What may be put: a Message becomes a Draft, or is refused before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from embermq.errors import (
    BodyTooLarge,
    IllegalMessage,
    IllegalProperty,
    IllegalQueue,
    NotPermitted,
    PropertiesTooLarge,
    TooManyKeys,
)
from embermq.format.record import Draft, DraftFields
from embermq.model.flags import Permission
from embermq.model.message import NO_PROPERTIES, Message
from embermq.model.properties import KEYS, TAGS, check_property, format_properties
from embermq.model.topic import TopicConfig
from embermq.store.settings import StoreSettings

_I32 = 2**31


@dataclass(frozen=True, slots=True)
class Limits:
    """What a message may hold at most."""

    body_size: int
    properties_size: int
    keys: int

    @classmethod
    def of(cls, settings: StoreSettings) -> Limits:
        return cls(settings.max_message_size, settings.max_properties_size, settings.max_keys)


class Target(NamedTuple):
    """What the writer needs to know of a topic."""

    name: bytes
    config: TopicConfig
    queues: int


class Intake:
    """Checks messages and gives each its queue. Used by the one writer thread."""

    def __init__(self, limits: Limits, *, topic: Callable[[str], TopicConfig], born_host: bytes) -> None:
        self.limits = limits  # replaced when they are changed
        self._topic = topic
        self._born_host = born_host
        self._turns: dict[bytes, int] = {}
        self._targets: dict[str, Target] = {}

    def drafts(self, messages: Iterable[Message], born_time: int) -> list[DraftFields]:
        """The drafts of `messages`, each with a queue if it names none. Raises a RequestError; then nothing changed."""
        born_host, largest, turns = self._born_host, self.limits.body_size, self._turns
        drafts: list[DraftFields] = []
        add = drafts.append
        target_name: str | None = None
        topic, queues = b"", 0
        for message in messages:
            body, name, flag = message.body, message.topic, message.flag
            if type(body) is not bytes:
                body = _body(message)
            if len(body) > largest:
                raise BodyTooLarge(name, size=len(body), limit=largest)
            if flag and not -_I32 <= flag < _I32:
                raise IllegalMessage(f"flag {flag} of a message for {name!r} is no 32-bit number")
            properties = b""
            if message.properties is not NO_PROPERTIES or message.keys or message.tags:
                properties = self.properties(message)
            if name != target_name:
                topic, _, queues = self.target(name)
                target_name = name
            queue = message.queue
            if queue is None:
                turn = turns.get(topic, 0)
                turns[topic] = turn + 1
                queue = turn % queues
            else:
                self.check_queue(name, queue, queues)
            add((topic, queue, body, properties, flag, 0, born_time, born_host, 0, 0))
        return drafts

    def check_queue(self, topic: str, queue: int, queues: int) -> None:
        """Raise IllegalQueue for one that a topic with so many does not have."""
        if not 0 <= queue < queues:
            raise IllegalQueue(topic, queue, queues)

    def take_turns(self, topic: bytes, count: int) -> int:
        """The first of `count` turns of the topic's queues."""
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + count
        return turn

    def target(self, name: str) -> Target:
        """The topic to write to, if it may be written to."""
        config = self._topic(name)
        target = self._targets.get(name)
        if target is None or target.config is not config:
            if not config.permission & Permission.WRITE:
                raise NotPermitted(f"topic {name!r} takes no messages; give it write permission")
            target = self._targets[name] = Target(name.encode(), config, config.write_queues)
        return target

    def properties(self, message: Message) -> bytes:
        """What a record keeps of a message besides its body. Raises a RequestError."""
        values = dict(message.properties)
        untyped: Iterable[tuple[object, object]] = values.items()
        for name, value in untyped:
            if not (isinstance(name, str) and isinstance(value, str)):
                raise IllegalProperty(str(name), f"text is wanted, not {type(value).__name__}")
            check_property(name, value)
        if message.keys:
            values[KEYS] = self._keys(message)
        if message.tags:
            _check_text(TAGS, message.tags)
            values[TAGS] = message.tags
        if not values:
            return b""
        data = format_properties(values)
        if len(data) > self.limits.properties_size:
            raise PropertiesTooLarge(message.topic, size=len(data), limit=self.limits.properties_size)
        return data

    def _keys(self, message: Message) -> str:
        if isinstance(message.keys, str):
            raise IllegalProperty(KEYS, "a list of keys is wanted, not one text")
        if len(message.keys) > self.limits.keys:
            raise TooManyKeys(message.topic, count=len(message.keys), limit=self.limits.keys)
        for key in message.keys:
            _check_text(KEYS, key)
            if not key or " " in key:
                raise IllegalProperty(KEYS, f"{key!r} is no key; a key is not empty and holds no blank")
        return " ".join(message.keys)


def with_last_separator(draft: Draft) -> Draft:
    """`draft` with the last 0x02 of its properties, by which recovery knows a record that was written whole."""
    properties = draft.properties
    if not properties or properties.endswith(b"\x02"):
        return draft
    return draft._replace(properties=properties + b"\x02")


def _check_text(name: str, value: str) -> None:
    if not isinstance(value, str):
        raise IllegalProperty(name, f"text is wanted, not {type(value).__name__}")
    if "\x01" in value or "\x02" in value:
        raise IllegalProperty(name, "it holds a separator byte (0x01 or 0x02)")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise IllegalProperty(name, f"no UTF-8 for it: {error.reason}") from error


def _body(message: Message) -> bytes:
    if isinstance(message.body, (bytearray, memoryview, bytes)):
        return bytes(message.body)
    raise IllegalMessage(
        f"the body of a message for {message.topic!r} is {type(message.body).__name__}; bytes are wanted"
    )
