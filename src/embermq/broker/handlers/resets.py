"""RESET_OFFSET: an administrator has a group go on somewhere else.

The broker remembers the target of each queue and tells it to the next pull, so that groups
without a member are moved, too. Pulls that wait are woken for it. A consumer that does not pull
because it has too much in hand would first consume all that: after a few seconds it is asked for
the queues that it holds, and told to leave them. Only those are told who hold such a queue: a
consumer stops for ten seconds to obey.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from embermq.broker.client_calls import ask_status, push_offsets
from embermq.broker.consumer_group import Member
from embermq.broker.handlers.offsets import find_offset
from embermq.broker.tables import Tables
from embermq.errors import CorruptRecord, GroupNotFound, IllegalQueue, TransportError
from embermq.format.command import Command, make_answer
from embermq.format.offset_table_body import encode_offset_table
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.topic import TopicConfig
from embermq.rpc.fields import I32, find_integer, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler

log = logging.getLogger(__name__)

PUSH_AFTER_S: Final = 5.0  # a consumer that can pull does so within milliseconds
_LATEST: Final = -1  # a time that stands for the end, an offset that stands for "by time", a queue for all


class ResetHandlers:
    """Moves groups to other offsets."""

    def __init__(
        self,
        tables: Tables,
        *,
        broker_name: str,
        wake: Callable[[str, int], None],
        push_after_s: float = PUSH_AFTER_S,
    ) -> None:
        self._tables = tables
        self._broker_name = broker_name
        self._wake = wake  # has the pulls that wait for a queue try again
        self._push_after_s = push_after_s
        self._pushes: set[asyncio.Task[None]] = set()

    def routes(self) -> dict[int, Handler]:
        return {RequestCode.RESET_OFFSET: self.reset}

    def reset(self, peer: Peer, request: Command) -> Command:
        fields = request.fields
        topic = self._tables.topics.read(read_text(fields, "topic"))
        group = read_text(fields, "group")
        if self._tables.groups.find(group) is None:
            raise GroupNotFound(group)
        targets = self._find_targets(request, topic)
        for queue, offset in targets.items():
            if not self._is_in_range(topic.name, queue, offset):
                low, high = self._tables.store.offsets(topic.name, queue=queue)
                remark = f"Target offset {offset} not in consume queue range [{low}-{high}] of {topic.name}/{queue}"
                return make_answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
        self._apply(topic.name, group, targets)
        log.info("offsets reset topic=%s group=%s targets=%s by=%s", topic.name, group, targets, peer.peer)
        return make_answer(request, body=encode_offset_table(self._table(topic.name, targets)))

    def _find_targets(self, request: Command, topic: TopicConfig) -> dict[int, int]:
        """The new offset of each queue."""
        fields = request.fields
        time_ms = find_integer(fields, "timestamp")
        time_ms = _LATEST if time_ms is None else time_ms
        queue, offset = find_integer(fields, "queueId", limit=I32), find_integer(fields, "offset")
        if queue is None or queue < 0:
            queues = range(topic.read_queues)
            return {queue: find_offset(self._tables.store, topic.name, queue, time_ms) for queue in queues}
        if queue >= topic.read_queues:
            raise IllegalQueue(topic.name, queue, topic.read_queues)
        by_time = offset is None or offset == _LATEST
        return {queue: find_offset(self._tables.store, topic.name, queue, time_ms) if by_time else offset or 0}

    def _is_in_range(self, topic: str, queue: int, offset: int) -> bool:
        low, high = self._tables.store.offsets(topic, queue=queue)
        return low <= offset <= high

    def _apply(self, topic: str, group: str, targets: dict[int, int]) -> None:
        for queue, offset in targets.items():
            self._tables.offsets.reset(topic, group, queue, offset)
        if self._tables.membership.consumer(group) is None:
            return
        for queue in targets:
            self._wake(topic, queue)
        push = asyncio.get_running_loop().create_task(self._push_rest(topic, group, targets))
        self._pushes.add(push)
        push.add_done_callback(self._pushes.discard)

    async def _push_rest(self, topic: str, group: str, targets: dict[int, int]) -> None:
        """Tell those who hold queues whose reset no pull has fetched."""
        await asyncio.sleep(self._push_after_s)
        members = self._tables.membership.consumer(group)
        if members is not None and self._rest(topic, group, targets):
            holders = list(members.members.values())
            await asyncio.gather(*(self._push_to(member, topic, group, targets) for member in holders))

    async def _push_to(self, member: Member, topic: str, group: str, targets: dict[int, int]) -> None:
        try:
            held = await ask_status(member.peer, topic=topic, group=group) or {}
        except (TransportError, CorruptRecord) as error:
            log.warning("member not told of its reset group=%s client=%s reason=%s", group, member.client_id, error)
            return
        rest = self._table(topic, self._rest(topic, group, targets))
        mine = {queue: offset for queue, offset in rest.items() if queue in held}
        if mine:
            log.info("offsets pushed topic=%s group=%s client=%s count=%d", topic, group, member.client_id, len(mine))
            push_offsets([member.peer], topic=topic, group=group, offsets=mine, timestamp=_LATEST, force=True)

    def _rest(self, topic: str, group: str, targets: dict[int, int]) -> dict[int, int]:
        """The targets that no pull was told yet."""
        return {
            queue: offset for queue, offset in targets.items() if self._tables.offsets.is_reset(topic, group, queue)
        }

    def _table(self, topic: str, targets: dict[int, int]) -> dict[BrokerQueue, int]:
        return {BrokerQueue(self._broker_name, topic, queue): offset for queue, offset in targets.items()}
