"""Sends messages of an archive or a log again: as they were, to the topics that one wants, as fast as one wants.

    batches of rows ─→ messages ─→ some thousand at a time ─→ sink, which takes all of them or none

A sink keeps the log position of the last message together with the messages: who replays again under the same name
goes on behind it.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from embermq.errors import SettingsError
from embermq.model.flags import SysFlag
from embermq.model.topic import check_topic
from embermq.scan import columns as names

BATCH_MESSAGES: Final = 10_000
BATCH_BYTES: Final = 64 << 20
_NEVER_SEEN: Final = (SysFlag.PREPARED, SysFlag.ROLLED_BACK)  # halves of transactions: no consumer gets them
_OF_RECORDS: Final = SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH | SysFlag.COMPRESSION_MASK
_HOSTS: Final = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6
_COLUMNS: Final = (
    *(names.TOPIC, names.QUEUE, names.POSITION, names.BODY, names.PROPERTIES, names.FLAG, names.SYS_FLAG),
    *(names.BORN_HOST, names.RECONSUME_TIMES),
)


class StoredRow(NamedTuple):
    """A message as it was stored; its body is unpacked."""

    topic: str
    queue: int
    position: int
    body: bytes
    properties: dict[str, str]
    flag: int
    sys_flag: int  # without what the body's packing and the hosts say
    was_packed: bool
    born_ms: int
    born_host: str
    reconsume_times: int


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Where messages go, and how."""

    topics: Mapping[str, str] = field(default_factory=dict)  # from the old name to the new
    to: str | None = None  # where all others go; None: to the topic that they were in
    keep_times: bool = True  # the time that a message was born; else it is new
    rate: float | None = None  # messages a second; None: as fast as they are taken
    batch_messages: int = BATCH_MESSAGES

    def __post_init__(self) -> None:
        for name in (*self.topics.values(), *((self.to,) if self.to is not None else ())):
            check_topic(name)
        if self.rate is not None and self.rate <= 0:
            raise SettingsError(f"rate is {self.rate}; more than 0 messages a second are wanted")

    def topic_of(self, topic: str) -> str:
        """Where messages of a topic go."""
        return self.topics.get(topic, self.to if self.to is not None else topic)


@dataclass(slots=True)
class Replayed:
    """What a replay did."""

    messages: int = 0
    batches: int = 0
    end: int = 0  # the log position of the last message


class Sink(Protocol):
    """Takes messages."""

    def find_position(self) -> int | None:
        """The position of the last message that it took under this name; None if it took none."""
        ...

    def write(self, messages: list[StoredRow], position: int) -> None:
        """Take messages, all or none, and remember the position of the last."""
        ...


def replay(
    batches: Iterable[pa.RecordBatch],
    sink: Sink,
    options: ReplayOptions,
    *,
    wait: Callable[[float], object] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Replayed:
    """Send the messages of batches, whose positions rise. `wait` waits so many seconds, for the rate."""
    done, begun = Replayed(), now()
    size = options.batch_messages
    if options.rate is not None:
        size = max(min(size, int(options.rate)), 1)  # a batch a second at most
    for messages in _grouped(_messages(batches, options), size):
        sink.write(messages, messages[-1].position)
        done.messages += len(messages)
        done.batches += 1
        done.end = messages[-1].position
        if options.rate is not None:
            early_s = done.messages / options.rate - (now() - begun)
            if early_s > 0:
                wait(early_s)
    return done


def _messages(batches: Iterable[pa.RecordBatch], options: ReplayOptions) -> Iterator[StoredRow]:
    for batch in batches:
        for row in iter_rows(batch):
            new_ms = row.born_ms if options.keep_times else time.time_ns() // 1_000_000
            yield row._replace(topic=options.topic_of(row.topic), born_ms=new_ms)


def iter_rows(batch: pa.RecordBatch) -> Iterator[StoredRow]:
    """The messages of a batch, but for those that no consumer gets."""
    columns: list[list[Any]] = [batch.column(name).to_pylist() for name in _COLUMNS]
    born_times = batch.column(names.BORN_TIME).cast(pa.int64()).to_pylist()
    for topic, queue, position, body, pairs, flag, sys_flag, born_host, times, born_us in zip(
        *columns, born_times, strict=True
    ):
        if sys_flag & SysFlag.TRANSACTION_MASK in _NEVER_SEEN:
            continue
        yield StoredRow(
            topic,
            queue,
            position,
            body,
            dict(pairs or ()),
            flag,
            sys_flag & ~(_OF_RECORDS | _HOSTS | SysFlag.COMPRESSED),
            bool(sys_flag & SysFlag.COMPRESSED) and not sys_flag & SysFlag.INNER_BATCH,
            born_us // 1000,
            born_host,
            times,
        )


def _grouped(messages: Iterator[StoredRow], size: int) -> Iterator[list[StoredRow]]:
    """Messages in groups of about `size`; those of one record stay together, for they share its position."""
    group: list[StoredRow] = []
    group_bytes = 0
    for message in messages:
        is_full = len(group) >= size or group_bytes >= BATCH_BYTES
        if is_full and message.position != group[-1].position:
            yield group
            group, group_bytes = [], 0
        group.append(message)
        group_bytes += len(message.body)
    if group:
        yield group
