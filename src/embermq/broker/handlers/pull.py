"""PULL: messages of one queue from an offset on; with nothing new, the request waits for some."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from embermq.broker.consumer_group import ConsumerGroup
from embermq.broker.group_filters import GroupFilters
from embermq.broker.long_poll import LongPolls, Parked
from embermq.broker.pull_answers import NOTHING_YET, found_answer, missed_answer, pull_fields
from embermq.broker.pull_requests import (
    COMMITS_OFFSET,
    HAS_SUBSCRIPTION,
    MAY_WAIT,
    PullNumbers,
    Shape,
    filter_of,
    find_changing,
    read_numbers,
    shape_of,
)
from embermq.broker.settings import BrokerSettings
from embermq.broker.sql_wanted import SqlWanted, check_kind
from embermq.broker.stages import Stages
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.errors import EmberError, NotPermitted, NotSubscribed, SubscriptionOutdated
from embermq.filters import parse_sql
from embermq.format.command import ONEWAY, Command, EncodedAnswer, encode_command, make_answer
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.flags import Permission
from embermq.model.group import GroupConfig
from embermq.model.subscription import TAG_TYPE, Subscribed, TagFilter
from embermq.model.topic import TopicConfig
from embermq.rpc.fields import find_integer, read_text
from embermq.rpc.outcome import make_refusal
from embermq.rpc.peer import Peer
from embermq.rpc.router import Answer, Handler, Observe, check_body
from embermq.store.reading import Accept, ReadStatus

log = logging.getLogger(__name__)

CODES: Final = (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
_WRITTEN_AT_ONCE: Final = 256 * 1024  # bytes of answers: more are not kept waiting for each other

_MOST_KNOWN: Final = 1_000

# Why a pull is forbidden, told beside NO_PERMISSION.
_BROKER, _GROUP, _TOPIC, _BROADCAST, _GROUP_AND_TOPIC = "1", "2", "3", "4", "5"


class Pull(NamedTuple):
    """A pull, understood and allowed."""

    topic: TopicConfig
    group: GroupConfig
    numbers: PullNumbers
    wanted: TagFilter | SqlWanted


class KnownPull(NamedTuple):
    """What was found out about an allowed pull, as long as `settings`, topic and group are still these.

    Kernels take its like as long as its group's `members` are there, or nobody is, and read what they `subscribed` to:
    that may be its filter, and a pull with one of its own that its client gave up must come again.
    """

    settings: BrokerSettings
    pull: Pull
    members: ConsumerGroup | None = None
    subscribed: Subscribed | None = None


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
        *,
        observe: Observe,
        filters: GroupFilters | None = None,
        stages: Stages | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tables = tables
        self._polls = polls
        self._statistics = statistics
        self._filters = filters
        self._observe = observe
        self._stages = stages or Stages()
        self._now = now
        self._known: dict[Shape, KnownPull] = {}
        self.settings = settings  # replaced when one is changed at run time
        self.note_puller: Callable[[Peer], None] = lambda peer: None  # told of those who get messages
        polls.resume = self._resume

    def routes(self) -> dict[int, Handler]:
        return dict.fromkeys(CODES, self.pull)

    def receive(self, peer: Peer, requests: Sequence[Command]) -> None:
        """Answer the pulls of one read, several answers with one write."""
        now = asyncio.get_running_loop().time
        parts: list[bytes | memoryview] = []
        waiting = 0  # bytes, about
        for request in requests:
            began = now()
            try:
                if request.body:
                    check_body(request)
                answer = self._pull(peer, request, may_wait=True)
            except Exception as error:
                answer = self._refusal(peer, request, error)
            if answer is None:
                continue
            self._observe(request.code, answer.code, now() - began)
            if request.flag & ONEWAY:
                continue
            if isinstance(answer, EncodedAnswer):
                parts.append(answer.head)
                parts += answer.body
                waiting += answer.size
            else:
                parts.append(encode_command(answer))
            if waiting >= _WRITTEN_AT_ONCE:
                peer.write(*parts)
                parts, waiting = [], 0
        if parts:
            peer.write(*parts)

    def pull(self, peer: Peer, request: Command) -> Answer:
        """The answer; None if the pull waits now."""
        return self._pull(peer, request, may_wait=True)

    def _resume(self, parked: Parked) -> None:
        """Answer a pull that has waited."""
        peer, request = parked.peer, parked.request
        try:
            answer = self._pull(peer, request, may_wait=False, parked=parked)
        except Exception as error:
            answer = self._refusal(peer, request, error)
        if answer is not None and not request.is_oneway:
            peer.send(answer)

    def _pull(self, peer: Peer, request: Command, *, may_wait: bool, parked: Parked | None = None) -> Answer:
        now = self._now
        began = now()
        try:
            pull = self._recall(request)
        except Forbidden as error:
            fields = {"forbiddenType": error.kind}
            return make_answer(request, ResponseCode.NO_PERMISSION, fields, remark=str(error))
        topic, group = pull.topic.name, pull.group.name
        queue, offset, limit, max_bytes, sys_flag, commit_offset, wait_ms = pull.numbers
        offsets = self._tables.offsets
        reset = offsets.take_reset(topic, group, queue)
        if reset is not None:
            return self._reset(request, pull, reset)
        if self._is_overtaken(peer, request, pull) or (parked is not None and self._wants_other(parked, pull)):
            return self._pull_again(request, pull)
        accept, wanted = _ways_of(pull.wanted)
        offset = parked.offset if parked is not None and wanted is not None else offset
        understood = now()
        kept = self._tables.kept_of(pull.topic)
        if kept is not None:
            found = kept.read(topic, queue, offset, limit=limit, max_bytes=max_bytes, accept=accept, wanted=wanted)
        else:
            found = self._tables.store.read_bytes(
                topic, queue=queue, offset=offset, limit=limit, max_bytes=max_bytes, accept=accept, wanted=wanted
            )
        read = now()
        if may_wait and sys_flag & COMMITS_OFFSET:
            offsets.commit(topic, group, queue, commit_offset)
        status = found.status
        if status is ReadStatus.FOUND:
            offsets.note_pull(topic, group, queue, found.next_offset)
            spent_ms = int((read - understood) * 1000)
            self._statistics.count_get(topic, queue, group, found.records, found.size, ms=spent_ms)
            answer = found_answer(request, pull.topic, pull.group, found)
            self.note_puller(peer)
            self._stages.read.count(found.records, understood - began)
            self._stages.store.count(found.records, read - understood)
            self._stages.answer.count(found.records, now() - read)
            return answer
        self._statistics.count_get(topic, queue, group, 0, 0)
        is_looking = parked is not None and wanted is not None and status is ReadStatus.NO_MATCH
        if parked and is_looking and self._polls.park_again(topic, queue, parked, offset=found.next_offset):
            return None
        is_at_end = status is ReadStatus.AT_END or (status in NOTHING_YET and offset == 0)
        waits = is_at_end and may_wait and sys_flag & MAY_WAIT and wait_ms > 0
        if waits and self._polls.park(
            topic,
            queue,
            peer,
            request,
            accept,
            offset=offset,
            wait_s=wait_ms / 1000,
            subscribed=self._tables.membership.find_subscription(group, topic),
        ):
            return None
        offsets.note_pull(topic, group, queue, found.next_offset)
        return missed_answer(request, pull.topic, pull.group, found, offset=offset)

    def _reset(self, request: Command, pull: Pull, offset: int) -> Command:
        """Send the consumer to the offset that somebody has set for its group."""
        low, high = self._tables.store.offsets(pull.topic.name, queue=pull.numbers.queue)
        fields = pull_fields(pull.topic, pull.group, offset, low, high)
        return make_answer(request, ResponseCode.PULL_OFFSET_MOVED, fields, remark="OFFSET_RESET")

    def _wants_other(self, parked: Parked, pull: Pull) -> bool:
        """Whether the group has another filter than when the pull came."""
        if parked.subscribed is None or pull.numbers.sys_flag & HAS_SUBSCRIPTION:
            return False
        now = self._tables.membership.find_subscription(pull.group.name, pull.topic.name)
        return now is not None and now is not parked.subscribed and not now.wants_same(parked.subscribed)

    def _is_overtaken(self, peer: Peer, request: Command, pull: Pull) -> bool:
        """Whether the client told of another filter after it had asked, and before its request came here."""
        members = self._tables.membership.consumer(pull.group.name)
        member = members.members.get(peer) if members is not None else None
        if member is None or not member.wants_since:
            return False
        return member.has_replaced(pull.topic.name, find_integer(request.fields, "subVersion") or 0)

    def _pull_again(self, request: Command, pull: Pull) -> Command:
        """Have a client come again: it would look for the tags that it wanted when it asked, and drop all others."""
        low, high = self._tables.store.offsets(pull.topic.name, queue=pull.numbers.queue)
        fields = pull_fields(pull.topic, pull.group, pull.numbers.offset, low, high)
        remark = "the subscription has changed; pull again"
        return make_answer(request, ResponseCode.PULL_RETRY_IMMEDIATELY, fields, remark=remark)

    def _refusal(self, peer: Peer, request: Command, error: Exception) -> Command:
        if not isinstance(error, EmberError):
            log.error("pull failed peer=%s fields=%s", peer.peer, dict(request.fields), exc_info=error)
        return make_refusal(request, error)

    def _recall(self, request: Command) -> Pull:
        """What `_parse` finds, for less where a pull of the same shape was allowed before."""
        shape = shape_of(request.fields)
        if shape is None:
            return self._parse(request)
        known = self._known.get(shape)
        changing = find_changing(request.fields) if known is not None else None
        if known is None or changing is None or not self.is_valid(known):
            return self._learn(request, shape)
        topic, group, (queue, _, limit, max_bytes, sys_flag, _, wait_ms), wanted = known.pull
        if not sys_flag & HAS_SUBSCRIPTION:  # that of the group counts, which may change
            wanted = self._filter(request, group, topic, sys_flag)
        offset, commit_offset = changing
        return Pull(
            topic, group, PullNumbers(queue, offset, limit, max_bytes, sys_flag, commit_offset, wait_ms), wanted
        )

    def _learn(self, request: Command, shape: Shape) -> Pull:
        pull = self._parse(request)
        # Of these texts only the expression can be long once a pull is allowed, and that is seen to.
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()  # those who are still there come back with their next pull
        if not self._tables.topics.is_static(pull.topic.name):  # a request may mean either kind of queue
            self._known[shape] = KnownPull(self.settings, pull)
        return pull

    def recall(self, peer: Peer, request: Command) -> KnownPull | None:
        """What is known of pulls like this one; None if no such pull was allowed yet, or something has changed."""
        shape = shape_of(request.fields)
        known = self._known.get(shape) if shape is not None else None
        if known is None or not self.is_valid(known):
            return None
        topic, group, numbers, wanted = known.pull
        if not numbers.sys_flag & HAS_SUBSCRIPTION:
            try:
                wanted = self._filter(request, group, topic, numbers.sys_flag)
            except EmberError:  # the ordinary answer says what it is
                return None
        if isinstance(wanted, SqlWanted) or self._is_overtaken(peer, request, known.pull):
            return None
        membership = self._tables.membership
        return known._replace(
            pull=known.pull._replace(wanted=wanted),
            members=membership.consumer(group.name),
            subscribed=membership.find_subscription(group.name, topic.name),
        )

    def is_valid(self, known: KnownPull) -> bool:
        """Whether settings, topic and group are still the same."""
        topic, group = known.pull.topic, known.pull.group
        return (
            known.settings is self.settings
            and self._tables.topics.find(topic.name) is topic
            and self._tables.groups.find(group.name) is group
        )

    def _parse(self, request: Command) -> Pull:
        fields, settings = request.fields, self.settings
        if not settings.permission & Permission.READ:
            raise Forbidden(f"broker {settings.name!r} gives no messages; give it read permission", kind=_BROKER)
        group = self._tables.groups.read(read_text(fields, "consumerGroup"))
        if not group.may_consume:
            raise Forbidden(f"group {group.name!r} may not consume; see consumeEnable of its settings", kind=_GROUP)
        topic = self._tables.topics.read(read_text(fields, "topic"))
        if not topic.permission & Permission.READ:
            raise Forbidden(f"topic {topic.name!r} may not be read; give it read permission", kind=_TOPIC)
        numbers = read_numbers(fields, topic, settings)
        return Pull(topic, group, numbers, self._filter(request, group, topic, numbers.sys_flag))

    def _filter(self, request: Command, group: GroupConfig, topic: TopicConfig, sys_flag: int) -> TagFilter | SqlWanted:
        fields = request.fields
        if sys_flag & HAS_SUBSCRIPTION:
            kind, expression = fields.get("expressionType") or TAG_TYPE, fields.get("subscription") or "*"
        else:
            kind, expression = self._subscribed(request, group, topic)
        if kind == TAG_TYPE:
            return filter_of(expression)
        check_kind(kind, self.settings)
        has_bits = not sys_flag & HAS_SUBSCRIPTION and self._filters is not None
        entry = self._filters.find(topic.name, group.name) if has_bits and self._filters is not None else None
        return SqlWanted(parse_sql(expression), entry if entry is not None and entry.expression == expression else None)

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
        if is_newer and not found.is_tags:  # the client cannot look at the rest itself
            raise SubscriptionOutdated(
                f"group {group.name!r} told of an older filter of topic {topic.name!r}; a heartbeat must come first"
            )
        return found.expression_type or TAG_TYPE, "*" if is_newer else found.expression


def _ways_of(wanted: TagFilter | SqlWanted) -> tuple[Accept | None, SqlWanted | None]:
    """What a read asks about queue entries, and about messages."""
    if isinstance(wanted, SqlWanted):
        return None, wanted
    return (wanted.accepts_code if wanted.codes else None), None
