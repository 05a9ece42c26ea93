"""What a PULL asks for, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

from embermq.broker.settings import BrokerSettings
from embermq.errors import IllegalQueue
from embermq.model.subscription import TagFilter
from embermq.model.topic import TopicConfig
from embermq.rpc.fields import I32, find_integer, read_integer

COMMITS_OFFSET: Final = 0x1
MAY_WAIT: Final = 0x2
HAS_SUBSCRIPTION: Final = 0x4
LONGEST_WAIT_MS: Final = 300_000
SHORT_WAIT_MS: Final = 1_000  # when long polling is off

_LONGEST_REMEMBERED: Final = 200  # characters
_MOST_DIGITS: Final = 18  # so that it is a 64-bit number
_ALWAYS: Final = itemgetter("topic", "consumerGroup", "queueId", "sysFlag", "maxMsgNums", "suspendTimeoutMillis")

Shape = tuple[str | None, ...]  # the texts that a consumer's pulls have in common


class PullNumbers(NamedTuple):
    """The numbers of a request, within the limits."""

    queue: int
    offset: int
    limit: int
    max_bytes: int
    sys_flag: int
    commit_offset: int
    wait_ms: int


def read_numbers(fields: Mapping[str, str], topic: TopicConfig, settings: BrokerSettings) -> PullNumbers:
    """The numbers of a pull from `topic`. Raises IllegalField or IllegalQueue."""
    queue = read_integer(fields, "queueId", limit=I32)
    if not 0 <= queue < topic.read_queues:
        raise IllegalQueue(topic.name, queue, topic.read_queues)
    sys_flag = find_integer(fields, "sysFlag", limit=I32) or 0
    longest = LONGEST_WAIT_MS if settings.long_polling else SHORT_WAIT_MS
    wanted = find_integer(fields, "maxMsgNums", limit=I32) or settings.pull_max_messages
    size = find_integer(fields, "maxMsgBytes", limit=I32) or settings.pull_max_bytes
    return PullNumbers(
        queue,
        read_integer(fields, "queueOffset"),
        max(1, min(wanted, settings.pull_max_messages)),
        max(1, min(size, settings.pull_max_bytes)),
        sys_flag,
        find_integer(fields, "commitOffset") or 0,
        min(find_integer(fields, "suspendTimeoutMillis") or 0, longest),
    )


def shape_of(fields: Mapping[str, str]) -> Shape | None:
    """What does not change from one pull of a consumer to the next; None where something is not as clients send it."""
    try:
        always = _ALWAYS(fields)
    except KeyError:
        return None
    get = fields.get
    expression = get("subscription")
    if expression is not None and len(expression) > _LONGEST_REMEMBERED:
        return None
    return (*always, get("maxMsgBytes"), expression, get("expressionType"))


def find_changing(fields: Mapping[str, str]) -> tuple[int, int] | None:
    """What does change: the offsets to begin at and to commit; None where one is not written in the usual way."""
    offset, commit_offset = fields.get("queueOffset"), fields.get("commitOffset")
    if offset is None or commit_offset is None or not _is_usual(offset) or not _is_usual(commit_offset):
        return None
    return int(offset), int(commit_offset)


def _is_usual(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= _MOST_DIGITS


def filter_of(expression: str) -> TagFilter:
    """The filter of a tag expression."""
    return _remembered_filter(expression) if len(expression) <= _LONGEST_REMEMBERED else TagFilter.parse(expression)


@lru_cache(maxsize=1_000)
def _remembered_filter(expression: str) -> TagFilter:
    return TagFilter.parse(expression)
