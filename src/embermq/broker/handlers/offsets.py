"""Offsets: what groups have consumed, and what queues hold.

A group that never committed an offset of a queue is told so, and starts where its own settings
say. Except where the queue still has its first message and that one is young: then it starts at
0, so that a consumer that starts together with a new topic misses nothing that is sent meanwhile.
Young is what lies within the last part of the log that would fit into 40 % of the machine's
memory, as in RocketMQ.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

from embermq.broker.tables import Tables
from embermq.errors import GroupNotFound, IllegalQueue
from embermq.format.command import Command, make_answer
from embermq.format.tables import DelayTable, offset_members, version_members
from embermq.format.wire_json import encode_body
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import time_of
from embermq.rpc.fields import I32, find_boolean, read_integer, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler
from embermq.store.store import Store

YOUNG_BYTES: Final = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 4 // 10
_LATEST_MS: Final = 253_402_300_799_000  # the end of the year 9999


class OffsetHandlers:
    """Answers where groups and queues are."""

    def __init__(
        self,
        tables: Tables,
        *,
        delays: Callable[[], DelayTable],
        young_bytes: int = YOUNG_BYTES,
    ) -> None:
        self._tables = tables
        self._delays = delays
        self._young_bytes = young_bytes

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update,
            RequestCode.GET_MAX_OFFSET: self.get_max,
            RequestCode.GET_MIN_OFFSET: self.get_min,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search,
            RequestCode.GET_EARLIEST_STORE_TIME: self.get_earliest_time,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.get_all,
            RequestCode.GET_ALL_DELAY_OFFSET: self.get_delays,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
        }

    def query(self, peer: Peer, request: Command) -> Command:
        fields = request.fields
        topic, queue = _read_queue(request)
        group = read_text(fields, "consumerGroup")
        offset = self._tables.offsets.find(topic, group, queue)
        if offset is None and find_boolean(fields, "setZeroIfNotFound") is not False and self._is_young(topic, queue):
            offset = 0
        if offset is None:
            remark = f"group {group[:255]!r} has no offset of {topic[:255]}/{queue} yet"
            return make_answer(request, ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return make_answer(request, fields={"offset": str(offset)})

    def update(self, peer: Peer, request: Command) -> Command:
        topic, queue = _read_queue(request)
        group = read_text(request.fields, "consumerGroup")
        offset = read_integer(request.fields, "commitOffset")
        if self._tables.groups.find(group) is None:
            raise GroupNotFound(group)
        config = self._tables.topics.read(topic)
        queues = max(config.read_queues, config.write_queues)
        if not 0 <= queue < queues and queue not in self._tables.offsets.queues(topic, group):
            raise IllegalQueue(topic, queue, queues)
        is_taken = self._tables.offsets.commit(topic, group, queue, offset)
        remark = None if is_taken or offset < 0 else "Offset has been previously reset"
        return make_answer(request, remark=remark)

    def get_max(self, peer: Peer, request: Command) -> Command:
        topic, queue = _read_queue(request)
        return make_answer(request, fields={"offset": str(self._tables.store.offsets(topic, queue=queue)[1])})

    def get_min(self, peer: Peer, request: Command) -> Command:
        topic, queue = _read_queue(request)
        kept = self._tables.kept_of(self._tables.topics.find(topic))
        low, _ = kept.offsets(topic, queue) if kept is not None else self._tables.store.offsets(topic, queue=queue)
        return make_answer(request, fields={"offset": str(low)})

    def search(self, peer: Peer, request: Command) -> Command:
        """The first message at or after a time, or the last at or before it."""
        topic, queue = _read_queue(request)
        upper = request.fields.get("boundaryType", "").lower() == "upper"
        offset = find_offset(self._tables.store, topic, queue, read_integer(request.fields, "timestamp"), upper=upper)
        return make_answer(request, fields={"offset": str(offset)})

    def get_earliest_time(self, peer: Peer, request: Command) -> Command:
        topic, queue = _read_queue(request)
        first, _ = self._tables.store.offsets(topic, queue=queue)
        time_ms = self._tables.store.store_time(topic, queue=queue, offset=first)
        return make_answer(request, fields={"timestamp": str(-1 if time_ms is None else time_ms)})

    def get_all(self, peer: Peer, request: Command) -> Command:
        return make_answer(request, body=encode_body(offset_members(self._tables.offsets.table())))

    def get_delays(self, peer: Peer, request: Command) -> Command:
        table = self._delays()
        members = {"dataVersion": version_members(table.version), "offsetTable": table.offsets}
        return make_answer(request, body=encode_body(members))

    def clone(self, peer: Peer, request: Command) -> Command:
        """Give one group the offsets of another, of one topic or of all."""
        fields = request.fields
        source, target = read_text(fields, "srcGroup"), read_text(fields, "destGroup")
        wanted = fields.get("topic", "").strip()
        for topic in [wanted] if wanted else sorted(self._tables.offsets.topics_of(source)):
            if self._tables.topics.find(topic) is None:
                continue
            members = self._tables.membership.consumer(source)
            is_unread = members is not None and members.subscriptions and topic not in members.subscriptions
            if find_boolean(fields, "offline") or not is_unread:
                self._tables.offsets.clone(source, target, topic)
        return make_answer(request)

    def _is_young(self, topic: str, queue: int) -> bool:
        """Whether the queue still has its first message, and not far from the end of the log."""
        entries = self._tables.store.entries(topic, queue=queue, offset=0, limit=1)
        return bool(entries) and self._tables.store.state().log_written - entries[0].position <= self._young_bytes


def find_offset(store: Store, topic: str, queue: int, time_ms: int, *, upper: bool = False) -> int:
    """The offset at a time in ms; the next one to be written if the time is negative."""
    if time_ms < 0:
        return store.offsets(topic, queue=queue)[1]
    return store.find_offset(topic, queue=queue, time=time_of(min(time_ms, _LATEST_MS)), upper=upper)


def _read_queue(request: Command) -> tuple[str, int]:
    return read_text(request.fields, "topic"), read_integer(request.fields, "queueId", limit=I32)
