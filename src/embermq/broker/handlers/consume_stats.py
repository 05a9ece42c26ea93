"""What administrators ask about consumption: how far groups are, who reads what, what a queue holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from embermq.broker.statistics import BrokerStatistics
from embermq.broker.tables import Tables
from embermq.clock import Clock
from embermq.format.batch_entry import BatchEntry
from embermq.format.cluster_body import encode_topic_list
from embermq.format.command import Command, make_answer
from embermq.format.consume_stats_body import (
    ConsumeStats,
    QueueProgress,
    QueueTimes,
    encode_broker_consume_stats,
    encode_consume_stats,
    encode_corrections,
    encode_time_spans,
)
from embermq.format.queue_dump_body import ShownEntry, encode_group_list, encode_queue_dump, encode_subscription
from embermq.format.queue_entry import QueueEntry
from embermq.format.stats_body import GROUP_GETS
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.message import Host
from embermq.model.subscription import Subscribed
from embermq.model.topic import TopicConfig
from embermq.rpc.fields import I32, find_boolean, find_integer, read_integer, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler

MOST_ENTRIES: Final = 10_000  # of a queue in one answer
_NEVER: Final = 2**63 - 1


class ConsumeStatsHandlers:
    """Tells how far consumers are."""

    def __init__(
        self,
        tables: Tables,
        statistics: BrokerStatistics,
        *,
        broker_name: str,
        host_of: Callable[[Peer], Host],
        clock: Clock,
    ) -> None:
        self._tables = tables
        self._statistics = statistics
        self._broker_name = broker_name
        self._host_of = host_of
        self._clock = clock

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.GET_CONSUME_STATS: self.show_group,
            RequestCode.GET_BROKER_CONSUME_STATS: self.show_all,
            RequestCode.QUERY_TOPIC_CONSUMERS: self.list_groups,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self.list_topics,
            RequestCode.QUERY_SUBSCRIPTION: self.show_subscription,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self.show_times,
            RequestCode.QUERY_CORRECTION_OFFSET: self.show_corrections,
            RequestCode.QUERY_CONSUME_QUEUE: self.show_queue,
        }

    def show_group(self, peer: Peer, request: Command) -> Command:
        """How far a group is in its topics, or in those that are named."""
        fields = request.fields
        group = read_text(fields, "consumerGroup")
        named = [name for name in (fields.get("topic") or fields.get("topicList") or "").split(";") if name]
        rate = 0.0
        queues: dict[BrokerQueue, QueueProgress] = {}
        for topic in self._known(group, named or sorted(self._tables.offsets.topics_of(group))):
            stats = self._stats(group, topic, topic.read_queues)
            rate += stats.rate
            queues.update(stats.queues)
        return make_answer(request, body=encode_consume_stats(ConsumeStats(rate, queues)))

    def show_all(self, peer: Peer, request: Command) -> Command:
        """The same of every group, topic by topic."""
        only_ordered = find_boolean(request.fields, "isOrder")
        found: dict[str, list[ConsumeStats]] = {}
        for group in self._tables.groups.table().groups:
            topics = self._known(group, sorted(self._tables.offsets.topics_of(group)))
            wanted = [topic for topic in topics if topic.order or not only_ordered]
            found[group] = [self._stats(group, topic, topic.write_queues) for topic in wanted]
        return make_answer(request, body=encode_broker_consume_stats(str(self._host_of(peer)), found))

    def list_groups(self, peer: Peer, request: Command) -> Command:
        """Who reads a topic, or ever did."""
        topic = read_text(request.fields, "topic")
        groups = self._tables.offsets.groups_of(topic).union(self._tables.membership.subscribers(topic))
        return make_answer(request, body=encode_group_list(sorted(groups)))

    def list_topics(self, peer: Peer, request: Command) -> Command:
        """What a group reads, or ever did."""
        name = read_text(request.fields, "group")
        group = self._tables.membership.consumer(name)
        topics = self._tables.offsets.topics_of(name).union(group.subscriptions if group else ())
        return make_answer(request, body=encode_topic_list(sorted(topics)))

    def show_subscription(self, peer: Peer, request: Command) -> Command:
        group, topic = read_text(request.fields, "group"), read_text(request.fields, "topic")
        found = self._tables.membership.find_subscription(group, topic)
        return make_answer(request, body=encode_subscription(group, topic, found))

    def show_times(self, peer: Peer, request: Command) -> Command:
        """When the messages of a topic's queues were stored, and those that a group consumed."""
        group = read_text(request.fields, "group")
        topic = self._tables.topics.read(read_text(request.fields, "topic"))
        spans = [self._times(group, topic.name, queue) for queue in range(topic.write_queues)]
        return make_answer(request, body=encode_time_spans(spans))

    def show_corrections(self, peer: Peer, request: Command) -> Command:
        """The smallest offset of all groups in each queue; a huge one where `compareGroup` is not that far yet."""
        fields = request.fields
        topic = read_text(fields, "topic")
        left_out = set((fields.get("filterGroups") or "").split(","))
        smallest: dict[int, int] = {}
        for group in sorted(self._tables.offsets.groups_of(topic) - left_out):
            for queue, offset in self._tables.offsets.queues(topic, group).items():
                if offset >= self._tables.store.offsets(topic, queue=queue)[0]:
                    smallest[queue] = min(offset, smallest.get(queue, offset))
        for queue, offset in self._tables.offsets.queues(topic, fields.get("compareGroup") or "").items():
            if smallest.get(queue, _NEVER) > offset:
                smallest[queue] = _NEVER
        return make_answer(request, body=encode_corrections(dict(sorted(smallest.items()))))

    def show_queue(self, peer: Peer, request: Command) -> Command:
        """Entries of a queue, and whether a group wants their messages."""
        fields = request.fields
        topic, queue = read_text(fields, "topic"), read_integer(fields, "queueId", limit=I32)
        if queue not in self._tables.store.queues(topic):
            remark = f"queue {queue} of topic {topic[:255]!r} does not exist, or nothing was sent to it yet"
            return make_answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)
        begin, end = self._tables.store.offsets(topic, queue=queue)
        count = min(max(find_integer(fields, "count", limit=I32) or 0, 0), MOST_ENTRIES)
        group = fields.get("consumerGroup")
        wanted = self._tables.membership.find_subscription(group, topic) if group else None
        offset = find_integer(fields, "index") or 0
        entries = self._tables.store.entries(topic, queue=queue, offset=offset, limit=count)
        body = encode_queue_dump(
            [_show(entry, wanted) for entry in entries],
            begin=begin,
            end=end,
            subscribed=wanted,
            filter_text=_describe_filter(group, topic, wanted),
        )
        is_outside = count > 0 and not entries
        missing = f"nothing at offset {offset} of {topic[:255]}/{queue}, which holds [{begin}, {end})"
        return make_answer(request, body=body, remark=missing if is_outside else None)

    def _known(self, group: str, names: Iterable[str]) -> list[TopicConfig]:
        """The topics that there are, without those that the group's members do not read any more."""
        members = self._tables.membership.consumer(group)
        read = members.subscriptions if members else {}
        found = [self._tables.topics.find(name) for name in names if not read or name in read]
        return [topic for topic in found if topic is not None]

    def _stats(self, group: str, topic: TopicConfig, queues: int) -> ConsumeStats:
        progress = {
            BrokerQueue(self._broker_name, topic.name, queue): self._progress(group, topic.name, queue)
            for queue in range(queues)
        }
        minute = self._statistics.minute(GROUP_GETS, f"{topic.name}@{group}")
        return ConsumeStats(minute.rate if minute else 0.0, progress)

    def _progress(self, group: str, topic: str, queue: int) -> QueueProgress:
        offset = self._tables.offsets.find(topic, group, queue) or 0
        last = self._tables.store.store_time(topic, queue=queue, offset=offset - 1) if offset > 0 else None
        _, end = self._tables.store.offsets(topic, queue=queue)
        return QueueProgress(end, offset, self._tables.offsets.pull_offset(topic, group, queue), last or 0)

    def _times(self, group: str, topic: str, queue: int) -> QueueTimes:
        begin, end = self._tables.store.offsets(topic, queue=queue)
        offset = self._tables.offsets.find(topic, group, queue) or 0

        def time_at(offset: int) -> int:
            time_ms = self._tables.store.store_time(topic, queue=queue, offset=offset)
            return -1 if time_ms is None else time_ms

        first = time_at(begin)
        next_time = time_at(max(offset, begin)) if offset < end else -1
        return QueueTimes(
            BrokerQueue(self._broker_name, topic, queue),
            first_ms=first,
            last_ms=time_at(end - 1),
            consumed_ms=time_at(offset - 1) if offset > 0 else first,
            delay_ms=self._clock.now_ms() - next_time if next_time >= 0 else 0,
        )


def _show(entry: QueueEntry | BatchEntry, wanted: Subscribed | None) -> ShownEntry:
    is_wanted = wanted is not None and (not wanted.is_tags or wanted.filter.accepts_code(entry.tags_code))
    return ShownEntry(entry.position, entry.size, entry.tags_code, is_wanted)


def _describe_filter(group: str | None, topic: str, wanted: Subscribed | None) -> str | None:
    if group is None:
        return None
    return "null" if wanted is not None else f"{group}@{topic} is not online!"
