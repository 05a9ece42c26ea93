"""What a POP, a PEEK or a NOTIFICATION asks for: parsed, and refused where it may not be had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from embermq.broker.pull_requests import filter_of
from embermq.broker.settings import BrokerSettings
from embermq.broker.sql_wanted import SqlWanted, check_kind
from embermq.broker.tables import Tables
from embermq.errors import IllegalField, NotPermitted
from embermq.filters import parse_sql
from embermq.format.command import Command
from embermq.model.flags import Permission
from embermq.model.pop import LONGEST_INVISIBLE_MS, MOST_MESSAGES, retry_topic_of
from embermq.model.subscription import TAG_TYPE
from embermq.model.topic import MAX_LONG_TOPIC_SIZE, RETRY_PREFIX, TopicConfig
from embermq.rpc.fields import I32, find_boolean, find_integer, read_integer, read_text

Accept = Callable[[int], bool]
ALL_QUEUES: Final = -1
INIT_MAX: Final = 1
LONGEST_POLL_MS: Final = 120_000
LONGEST_ATTEMPT: Final = 256  # characters


class Ask(NamedTuple):
    """A request for messages, understood and allowed."""

    topic: TopicConfig
    group: str
    queue: int  # negative: all of the topic
    limit: int
    poll_ms: int
    deadline_ms: int  # until when it may wait
    is_fifo: bool
    attempt: str | None
    invisible_ms: int = 0
    begins_at_end: bool = False  # where the group never read the queue
    accept: Accept | None = None  # asked about entries of a queue
    wanted: SqlWanted | None = None  # asked about messages

    @property
    def key(self) -> tuple[str, str, int]:
        """What it waits under."""
        return self.topic.name, self.group, max(self.queue, ALL_QUEUES)


def parse_pop(request: Command, tables: Tables, settings: BrokerSettings, now: int) -> Ask:
    """Raises a RequestError."""
    fields = request.fields
    ask = parse_watch(request, tables, settings, now)
    if not ask.is_fifo:
        _check_names(ask.topic.name, ask.group)
    invisible_ms = read_integer(fields, "invisibleTime")
    if not 0 <= invisible_ms <= LONGEST_INVISIBLE_MS:
        raise IllegalField("invisibleTime", f"{invisible_ms} ms, allowed are 0 to {LONGEST_INVISIBLE_MS}")
    begins_at_end = find_integer(fields, "initMode", limit=I32) == INIT_MAX
    accept, wanted = _parse_filter(request, settings)
    return ask._replace(invisible_ms=invisible_ms, begins_at_end=begins_at_end, accept=accept, wanted=wanted)


def _check_names(topic: str, group: str) -> None:
    """What is not acknowledged must be able to come again. Raises IllegalField."""
    size = len(retry_topic_of(topic, group))
    if size > MAX_LONG_TOPIC_SIZE and not topic.startswith(RETRY_PREFIX):
        raise IllegalField(
            "consumerGroup",
            f"with topic {topic!r} the name of its retry topic has {size} characters, limit {MAX_LONG_TOPIC_SIZE}; "
            "take a shorter name, or pop in order",
        )


def parse_watch(request: Command, tables: Tables, settings: BrokerSettings, now: int) -> Ask:
    """What pops have in common with those who only look. Raises a RequestError."""
    fields = request.fields
    if not settings.permission & Permission.READ:
        raise NotPermitted(f"broker {settings.name!r} gives no messages; give it read permission")
    limit = find_integer(fields, "maxMsgNums", limit=I32)
    if limit is not None and not 0 < limit <= MOST_MESSAGES:
        raise IllegalField("maxMsgNums", f"{limit}, allowed are 1 to {MOST_MESSAGES}")
    topic = tables.topics.read(read_text(fields, "topic"))
    if not topic.permission & Permission.READ:
        raise NotPermitted(f"topic {topic.name!r} may not be read; give it read permission")
    queue = read_integer(fields, "queueId", limit=I32)
    if queue >= topic.read_queues:
        raise IllegalField("queueId", f"{queue}, topic {topic.name!r} has {topic.read_queues} queues to read")
    group = tables.groups.read(read_text(fields, "consumerGroup"))
    if not group.may_consume:
        raise NotPermitted(f"group {group.name!r} may not consume; see consumeEnable of its settings")
    if tables.groups.is_forbidden(group.name, topic.name):
        raise NotPermitted(f"group {group.name!r} may not read topic {topic.name!r}")
    poll_ms = min(find_integer(fields, "pollTime") or 0, LONGEST_POLL_MS)
    born_ms = find_integer(fields, "bornTime") or now
    return Ask(
        topic,
        group.name,
        queue,
        limit or MOST_MESSAGES,
        poll_ms,
        min(born_ms, now) + poll_ms,
        is_fifo=bool(find_boolean(fields, "order")),
        attempt=_parse_attempt(fields.get("attemptId")),
    )


def _parse_attempt(text: str | None) -> str | None:
    """The id of an attempt, which is kept in a file. Raises IllegalField."""
    if text and (len(text) > LONGEST_ATTEMPT or not text.isprintable()):
        raise IllegalField("attemptId", f"{text[:80]!r}; at most {LONGEST_ATTEMPT} printable characters are allowed")
    return text or None


def _parse_filter(request: Command, settings: BrokerSettings) -> tuple[Accept | None, SqlWanted | None]:
    """What a pop wants. Raises IllegalFilter or FiltersOff."""
    expression, kind = request.fields.get("exp") or "*", request.fields.get("expType") or TAG_TYPE
    if kind != TAG_TYPE:
        check_kind(kind, settings)
        return None, SqlWanted(parse_sql(expression))
    wanted = filter_of(expression)
    return (wanted.accepts_code if wanted.codes else None), None
