"""One pull: messages of one queue from an offset on, waiting at the broker for the first."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from embermq.client.answers import refusal_of
from embermq.client.assignment import name_of
from embermq.client.connections import Connections
from embermq.client.incoming import decode_messages
from embermq.errors import IllegalFilter, Refused
from embermq.format.command import Command
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import StoredMessage
from embermq.model.subscription import Subscribed, TagFilter, is_tag_expression

PULL_COUNT: Final = 512
PULL_BYTES: Final = 1024 * 1024
ANSWER_EXTRA_S: Final = 10.0  # what an answer may take beyond the wait that was asked for
SQL_TYPE: Final = "SQL92"

_COMMIT, _WAIT, _INLINE = 1, 2, 4  # bits of a pull's sysFlag


class PullStatus(Enum):
    """How a pull ended, where that is no error."""

    FOUND = auto()
    NOTHING = auto()  # nothing new in time
    NO_MATCH = auto()  # messages, but none that the filter wants
    MOVED = auto()  # the offset is not in the queue, or was reset


_STATUSES: Final = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NOTHING,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCH,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.MOVED,
}


class Pulled(NamedTuple):
    """What a pull gave, and where to go on."""

    status: PullStatus
    messages: list[StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int


def make_subscribed(topic: str, expression: str | None, *, version: int = 0) -> Subscribed:
    """What `expression` wants of a topic: tags such as `eu || us`, or else SQL92. Raises IllegalFilter."""
    text = "*" if expression is None else expression.strip()
    if not text:
        raise IllegalFilter("an empty filter; leave it out, or use `*`, for every message")
    if is_tag_expression(text):
        wanted = TagFilter.parse(text)
        tags = tuple(sorted(wanted.tags))
        return Subscribed(topic, text, tags=tags, codes=tuple(sorted(wanted.codes)), version=version)
    return Subscribed(topic, text, SQL_TYPE, version=version)


def make_fields(
    queue: BrokerQueue,
    offset: int,
    *,
    group: str,
    wanted: Subscribed,
    is_inline: bool,
    wait_s: float = 0.0,
    commit_offset: int | None = None,
    limit: int = PULL_COUNT,
) -> dict[str, str]:
    """The fields of a pull."""
    flags = (_WAIT if wait_s > 0 else 0) | (_INLINE if is_inline else 0) | (0 if commit_offset is None else _COMMIT)
    fields = {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue),
        "queueOffset": str(offset),
        "maxMsgNums": str(limit),
        "maxMsgBytes": str(PULL_BYTES),
        "sysFlag": str(flags),
        "commitOffset": str(commit_offset or 0),
        "suspendTimeoutMillis": str(int(wait_s * 1000)),
        "subVersion": str(wanted.version),
        "expressionType": wanted.expression_type,
        "bname": queue.broker,
    }
    return {**fields, "subscription": wanted.expression} if is_inline else fields


async def pull(
    connections: Connections,
    address: str,
    queue: BrokerQueue,
    offset: int,
    *,
    group: str,
    wanted: Subscribed,
    is_inline: bool,
    wait_s: float = 0.0,
    commit_offset: int | None = None,
    limit: int = PULL_COUNT,
) -> Pulled:
    """Pull once. `is_inline` sends the filter along, for readers that the broker knows nothing of."""
    fields = make_fields(
        queue, offset, group=group, wanted=wanted, is_inline=is_inline, wait_s=wait_s, commit_offset=commit_offset,
        limit=limit,
    )  # fmt: skip
    answer = await connections.call(address, RequestCode.PULL_MESSAGE, fields, timeout_s=wait_s + ANSWER_EXTRA_S)
    return _read_answer(answer, queue, group, wanted)


def read_offsets(answer: Command, asked: str) -> tuple[int, int, int]:
    """Where to go on, and the first and the next offset of the queue. Raises Refused."""
    try:
        next_offset, low, high = (int(answer.fields[name]) for name in ("nextBeginOffset", "minOffset", "maxOffset"))
    except (KeyError, ValueError) as error:
        raise Refused(answer.code, f"an answer that makes no sense: {error!r}", asked=asked) from error
    return next_offset, low, high


def _read_answer(answer: Command, queue: BrokerQueue, group: str, wanted: Subscribed) -> Pulled:
    asked = f"pull of {name_of(queue)}"
    status = _STATUSES.get(ResponseCode(answer.code)) if answer.code in set(ResponseCode) else None
    if status is None:
        raise refusal_of(answer, asked, topic=queue.topic, group=group)
    next_offset, low, high = read_offsets(answer, asked)
    messages = decode_messages(answer.data) if status is PullStatus.FOUND else []
    if wanted.is_tags and wanted.tags:
        # Brokers compare hashes, which may be those of other tags.
        messages = [message for message in messages if message.tags in wanted.tags]
    return Pulled(status, messages, next_offset, low, high)
