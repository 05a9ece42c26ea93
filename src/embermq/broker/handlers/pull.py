"""PULL: messages of one queue from an offset on; with nothing new, the request waits for some."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from embermq.broker.long_poll import LongPolls
from embermq.broker.settings import BrokerSettings
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.errors import EmberError, IllegalFilter, IllegalQueue, NotPermitted, NotSubscribed
from embermq.format.command import Command, make_answer
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.flags import Permission
from embermq.model.group import GroupConfig
from embermq.model.subscription import TagFilter
from embermq.model.topic import TopicConfig
from embermq.rpc.fields import I32, find_integer, read_integer, read_text
from embermq.rpc.outcome import make_refusal
from embermq.rpc.peer import Peer
from embermq.rpc.router import Answer, Handler
from embermq.store.reading import Found, ReadStatus

log = logging.getLogger(__name__)

COMMITS_OFFSET: Final = 0x1
MAY_WAIT: Final = 0x2
HAS_SUBSCRIPTION: Final = 0x4
LONGEST_WAIT_MS: Final = 300_000
SHORT_WAIT_MS: Final = 1_000  # when long polling is off
TAG: Final = "TAG"

# Why a pull is forbidden, told beside NO_PERMISSION.
_BROKER, _GROUP, _TOPIC, _BROADCAST, _GROUP_AND_TOPIC = "1", "2", "3", "4", "5"

_OUTCOMES: Final = {
    ReadStatus.FOUND: ("FOUND", ResponseCode.SUCCESS),
    ReadStatus.NO_MATCH: ("NO_MATCHED_MESSAGE", ResponseCode.PULL_RETRY_IMMEDIATELY),
    ReadStatus.REMOVED: ("MESSAGE_WAS_REMOVING", ResponseCode.PULL_RETRY_IMMEDIATELY),
    ReadStatus.NO_QUEUE: ("NO_MATCHED_LOGIC_QUEUE", ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.EMPTY: ("NO_MESSAGE_IN_QUEUE", ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.TOO_SMALL: ("OFFSET_TOO_SMALL", ResponseCode.PULL_OFFSET_MOVED),
    ReadStatus.AT_END: ("OFFSET_OVERFLOW_ONE", ResponseCode.PULL_NOT_FOUND),
    ReadStatus.BEYOND: ("OFFSET_OVERFLOW_BADLY", ResponseCode.PULL_OFFSET_MOVED),
}
_NOTHING_YET: Final = (ReadStatus.NO_QUEUE, ReadStatus.EMPTY)


class _Pull(NamedTuple):
    """A pull, understood and allowed."""

    topic: TopicConfig
    group: GroupConfig
    queue: int
    offset: int
    limit: int
    max_bytes: int
    sys_flag: int
    commit_offset: int
    wait_ms: int
    wanted: TagFilter


class Forbidden(NotPermitted):
    """A pull that is not allowed, and on whose account."""

    def __init__(self, reason: str, *, kind: str) -> None:
        super().__init__(reason)
        self.kind = kind


class PullHandlers:
    """Answers PULL requests."""

    def __init__(
        self,
        tables: Tables,
        polls: LongPolls,
        statistics: BrokerStatistics,
        settings: BrokerSettings,
    ) -> None:
        self._tables = tables
        self._polls = polls
        self._statistics = statistics
        self.settings = settings  # replaced when one is changed at run time
        polls.resume = self._resume

    def routes(self) -> dict[int, Handler]:
        return {RequestCode.PULL_MESSAGE: self.pull, RequestCode.LITE_PULL_MESSAGE: self.pull}

    def pull(self, peer: Peer, request: Command) -> Answer:
        """The answer; None if the pull waits now."""
        return self._pull(peer, request, may_wait=True)

    def _resume(self, peer: Peer, request: Command) -> None:
        """Answer a pull that has waited."""
        try:
            answer = self._pull(peer, request, may_wait=False)
        except Exception as error:
            if not isinstance(error, EmberError):
                log.exception("pull failed peer=%s fields=%s", peer.peer, dict(request.fields))
            answer = make_refusal(request, error)
        if answer is not None and not request.is_oneway:
            peer.send(answer)

    def _pull(self, peer: Peer, request: Command, *, may_wait: bool) -> Answer:
        try:
            pull = self._parse(request)
        except Forbidden as error:
            fields = {"forbiddenType": error.kind}
            return make_answer(request, ResponseCode.NO_PERMISSION, fields, remark=str(error))
        topic, group, queue = pull.topic.name, pull.group.name, pull.queue
        reset = self._tables.offsets.take_reset(topic, group, queue)
        if reset is not None:
            return self._reset(request, pull, reset)
        accept = pull.wanted.accepts_code if pull.wanted.codes else None
        found = self._tables.store.read(
            topic, queue=queue, offset=pull.offset, limit=pull.limit, max_bytes=pull.max_bytes, accept=accept
        )
        if may_wait and pull.sys_flag & COMMITS_OFFSET:
            self._tables.offsets.commit(topic, group, queue, pull.commit_offset)
        is_at_end = found.status is ReadStatus.AT_END or (found.status in _NOTHING_YET and pull.offset == 0)
        waits = is_at_end and may_wait and pull.sys_flag & MAY_WAIT and pull.wait_ms > 0
        if waits and self._polls.park(
            topic, queue, peer, request, accept, offset=pull.offset, wait_s=pull.wait_ms / 1000
        ):
            return None
        self._tables.offsets.note_pull(topic, group, queue, found.next_offset)
        return self._answer(request, pull, found)

    def _answer(self, request: Command, pull: _Pull, found: Found) -> Command:
        remark, code = _OUTCOMES[found.status]
        if found.status in _NOTHING_YET and pull.offset == 0:
            code = ResponseCode.PULL_NOT_FOUND
        records = tuple(data for _, _, data in found.records)
        if records:
            size = sum(map(len, records))
            self._statistics.count_get(pull.topic.name, pull.queue, pull.group.name, len(records), size)
        fields = _fields(pull, found.next_offset, found.min_offset, found.max_offset)
        return make_answer(request, code, fields, records or b"", remark=remark)

    def _reset(self, request: Command, pull: _Pull, offset: int) -> Command:
        """Send the consumer to the offset that somebody has set for its group."""
        low, high = self._tables.store.offsets(pull.topic.name, queue=pull.queue)
        fields = _fields(pull, offset, low, high)
        return make_answer(request, ResponseCode.PULL_OFFSET_MOVED, fields, remark="OFFSET_RESET")

    def _parse(self, request: Command) -> _Pull:
        fields, settings = request.fields, self.settings
        if not settings.permission & Permission.READ:
            raise Forbidden(f"broker {settings.name!r} gives no messages; give it read permission", kind=_BROKER)
        group = self._tables.groups.read(read_text(fields, "consumerGroup"))
        if not group.may_consume:
            raise Forbidden(f"group {group.name!r} may not consume; see consumeEnable of its settings", kind=_GROUP)
        topic = self._tables.topics.read(read_text(fields, "topic"))
        if not topic.permission & Permission.READ:
            raise Forbidden(f"topic {topic.name!r} may not be read; give it read permission", kind=_TOPIC)
        queue = read_integer(fields, "queueId", limit=I32)
        if not 0 <= queue < topic.read_queues:
            raise IllegalQueue(topic.name, queue, topic.read_queues)
        sys_flag = find_integer(fields, "sysFlag", limit=I32) or 0
        longest = LONGEST_WAIT_MS if settings.long_polling else SHORT_WAIT_MS
        wanted = find_integer(fields, "maxMsgNums", limit=I32) or settings.pull_max_messages
        size = find_integer(fields, "maxMsgBytes", limit=I32) or settings.pull_max_bytes
        return _Pull(
            topic,
            group,
            queue,
            read_integer(fields, "queueOffset"),
            max(1, min(wanted, settings.pull_max_messages)),
            max(1, min(size, settings.pull_max_bytes)),
            sys_flag,
            find_integer(fields, "commitOffset") or 0,
            min(find_integer(fields, "suspendTimeoutMillis") or 0, longest),
            self._filter(request, group, topic, sys_flag),
        )

    def _filter(self, request: Command, group: GroupConfig, topic: TopicConfig, sys_flag: int) -> TagFilter:
        fields = request.fields
        if sys_flag & HAS_SUBSCRIPTION:
            kind, expression = fields.get("expressionType") or TAG, fields.get("subscription") or "*"
        else:
            kind, expression = self._subscribed(request, group, topic)
        if kind != TAG:
            raise IllegalFilter(f"filters of type {kind[:80]!r} are not evaluated by this broker yet; use tags")
        return TagFilter.parse(expression)

    def _subscribed(self, request: Command, group: GroupConfig, topic: TopicConfig) -> tuple[str, str]:
        """The type and text of the filter that the group's heartbeats asked for.

        A client that knows of a newer one, and has not told it yet, gets every message: it looks at the tags itself,
        and what were left out by the old filter would be lost to it.
        """
        members = self._tables.membership.consumer(group.name)
        if members is None:
            raise NotSubscribed(f"no member of group {group.name!r} is known; it must send a heartbeat first")
        if members.message_model == "BROADCASTING" and not group.may_broadcast:
            raise Forbidden(f"group {group.name!r} may not consume by broadcast", kind=_BROADCAST)
        if self._tables.groups.is_forbidden(group.name, topic.name):
            raise Forbidden(f"group {group.name!r} may not read topic {topic.name!r}", kind=_GROUP_AND_TOPIC)
        found = self._tables.membership.find_subscription(group.name, topic.name)
        if found is None:
            raise NotSubscribed(f"group {group.name!r} has not subscribed to topic {topic.name!r}")
        is_newer = (find_integer(request.fields, "subVersion") or 0) > found.version
        return found.expression_type, "*" if is_newer and found.expression_type == TAG else found.expression


def _fields(pull: _Pull, next_offset: int, low: int, high: int) -> dict[str, str]:
    return {
        "suggestWhichBrokerId": "0",
        "groupSysFlag": str(pull.group.sys_flag),
        "nextBeginOffset": str(next_offset),
        "maxOffset": str(high),
        "minOffset": str(low),
        "topicSysFlag": str(pull.topic.sys_flag),
    }
