"""Topics: made, changed, deleted, listed, and what their queues hold."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from embermq.broker.handlers.paging import find_page, read_body
from embermq.broker.request_modes import RequestModes
from embermq.broker.statistics import BrokerStatistics
from embermq.broker.topics import BrokerTopics
from embermq.errors import IllegalField, IllegalTopic
from embermq.format.cluster_body import encode_topic_list
from embermq.format.command import Command, make_answer
from embermq.format.mapping_json import decode_mapping
from embermq.format.stats_body import TOPIC_PUTS
from embermq.format.topic_body import (
    QueueStats,
    TopicStats,
    decode_topic_configs,
    encode_topic,
    encode_topic_stats,
    encode_topic_table,
)
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode
from embermq.model.queue_mapping import renewed
from embermq.model.topic import RETRY_PREFIX, SYSTEM_TOPICS, TopicConfig, check_topic, is_system_topic
from embermq.model.topic_attributes import MESSAGE_TYPE, MIXED, apply_changes, parse_changes
from embermq.rpc.fields import I32, find_boolean, find_integer, read_integer, read_text
from embermq.rpc.peer import Peer
from embermq.rpc.router import Handler
from embermq.store.offsets import ConsumerOffsets
from embermq.store.store import Store

log = logging.getLogger(__name__)

MOST_QUEUES: Final = 65_536
_ALL_PERMISSIONS: Final = 7
_FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


class TopicAdminHandlers:
    """Answers those who look after topics."""

    def __init__(
        self,
        store: Store,
        topics: BrokerTopics,
        offsets: ConsumerOffsets,
        statistics: BrokerStatistics,
        modes: RequestModes,
        *,
        broker_name: str,
    ) -> None:
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._statistics = statistics
        self._modes = modes
        self._broker_name = broker_name

    def routes(self) -> dict[int, Handler]:
        return {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.update,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self.update_list,
            RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC: self.update_static,
            RequestCode.DELETE_TOPIC_IN_BROKER: self.delete,
            RequestCode.GET_ALL_TOPIC_CONFIG: self.list_all,
            RequestCode.GET_TOPIC_CONFIG: self.show,
            RequestCode.GET_TOPIC_STATS: self.stats,
            RequestCode.GET_SYSTEM_TOPICS_FROM_BROKER: self.list_system,
        }

    def update(self, peer: Peer, request: Command) -> Command:
        """Make a topic, or change it."""
        self._save(peer, [self._changed(*_parse(request.fields))])
        return make_answer(request)

    def update_list(self, peer: Peer, request: Command) -> Command:
        """Make or change many topics: all of them or none."""
        wanted = read_body(request.data, decode_topic_configs)
        self._save(peer, [self._changed(config, _signed(config.attributes)) for config in wanted])
        return make_answer(request)

    def update_static(self, peer: Peer, request: Command) -> Command:
        """Make a static topic, or change it: the queues of this broker, and what they are parts of."""
        wanted = read_body(request.data, decode_mapping)
        config = self._changed(*_parse(request.fields))
        if (wanted.topic, wanted.broker) != (config.name, self._broker_name):
            reason = f"a mapping of {wanted.topic[:300]!r} at {wanted.broker[:300]!r} for topic {config.name!r}"
            raise IllegalField("body", f"{reason}; this broker is {self._broker_name!r}")
        mappings, force = self._topics.mappings, find_boolean(request.fields, "force") or False
        mappings.save(renewed(mappings.find(config.name), wanted, force=force))
        self._topics.save(config)  # also if it stays the same: whoever knows it as an ordinary topic looks again
        log.info("static topic changed topic=%s epoch=%d by=%s", config.name, wanted.epoch, peer.peer)
        return make_answer(request)

    def delete(self, peer: Peer, request: Command) -> Command:
        """Forget a topic with its messages, offsets and statistics. One that is not there is as good as deleted."""
        name = read_text(request.fields, "topic")
        self._check_name(name)
        groups = self._offsets.groups_of(name)
        # Where messages of this topic wait that were taken by pop and not acknowledged.
        retries = [f"{RETRY_PREFIX}{group}{joint}{name}" for group in groups for joint in "_+"]
        for each in (name, *retries):
            if self._topics.find(each) is not None:
                self._topics.delete(each)
                log.warning("topic deleted topic=%s by=%s", each, peer.peer)
            self._offsets.forget_topic(each)
            self._statistics.forget_topic(each)
            self._modes.forget_topic(each)
        return make_answer(request)

    def list_all(self, peer: Peer, request: Command) -> Command:
        """All topics and the version of their table, or one page of them."""
        table = self._topics.table()
        page = find_page(request.fields, table.topics, table.version, begin="topicSeq", most="maxTopicNum")
        topics = table.topics.values() if page is None else [table.topics[name] for name in page]
        body = encode_topic_table(table.version, topics, self._topics.mappings.table())
        told = {} if page is None else {"totalTopicNum": str(len(table.topics))}
        return make_answer(request, fields=told, body=body)

    def show(self, peer: Peer, request: Command) -> Command:
        """The settings of one topic, and what its queues are parts of, for those who ask for static queues."""
        topic = self._topics.read(read_text(request.fields, "topic"))
        mapping = self._topics.mappings.find(topic.name) if find_boolean(request.fields, "lo") else None
        return make_answer(request, body=encode_topic(topic, mapping))

    def stats(self, peer: Peer, request: Command) -> Command:
        """What each queue of a topic holds."""
        topic = self._topics.read(read_text(request.fields, "topic"))
        count = max(topic.read_queues, topic.write_queues)
        queues = {
            BrokerQueue(self._broker_name, topic.name, queue): self._held(topic.name, queue) for queue in range(count)
        }
        figures = self._statistics.minute(TOPIC_PUTS, topic.name)
        return make_answer(request, body=encode_topic_stats(TopicStats(queues, figures.rate if figures else 0.0)))

    def list_system(self, peer: Peer, request: Command) -> Command:
        """The topics that belong to the broker itself."""
        return make_answer(request, body=encode_topic_list(sorted(SYSTEM_TOPICS | self._topics.system_names())))

    def _held(self, topic: str, queue: int) -> QueueStats:
        first, following = self._store.offsets(topic, queue=queue)
        time = self._store.store_time(topic, queue=queue, offset=following - 1) if following > first else None
        return QueueStats(max(first, 0), max(following, 0), time or 0)

    def _changed(self, config: TopicConfig, changes: Mapping[str, str]) -> TopicConfig:
        """The topic as it is to be: `config` with its attributes after `changes`. Raises a RequestError."""
        self._check_name(config.name)
        _check_numbers(config)
        current = self._topics.find(config.name)
        attributes = apply_changes(current.attributes if current else {}, changes, is_new=current is None)
        if changes.get(f"+{MESSAGE_TYPE}") == MIXED:
            raise IllegalField("attributes", f"{MESSAGE_TYPE}={MIXED} is not allowed; choose one type of messages")
        return replace(config, attributes=attributes)

    def _check_name(self, name: str) -> None:
        check_topic(name)
        if is_system_topic(name) or name in self._topics.system_names():
            raise IllegalTopic(name, "it belongs to the system; it can be neither changed nor deleted")

    def _save(self, peer: Peer, configs: list[TopicConfig]) -> None:
        changed = [config for config in configs if self._topics.find(config.name) != config]
        if changed:
            self._topics.save(*changed)
            log.info("topics changed topics=%s by=%s", ",".join(config.name for config in changed), peer.peer)


def _parse(fields: Mapping[str, str]) -> tuple[TopicConfig, dict[str, str]]:
    """The topic that a request describes, and the changes of its attributes."""
    name = read_text(fields, "topic")
    check_topic(name)
    config = TopicConfig(
        name,
        read_queues=read_integer(fields, "readQueueNums", limit=I32),
        write_queues=read_integer(fields, "writeQueueNums", limit=I32),
        permission=read_integer(fields, "perm", limit=I32),
        order=find_boolean(fields, "order") or False,
        filter_type=fields.get("topicFilterType") or _FILTER_TYPES[0],
        sys_flag=find_integer(fields, "topicSysFlag", limit=I32) or 0,
    )
    return config, parse_changes(fields.get("attributes") or "")


def _signed(attributes: Mapping[str, str]) -> dict[str, str]:
    """Attributes of a list of topics as changes; a name without a sign is set."""
    return {name if name[:1] in ("+", "-") else f"+{name}": value for name, value in attributes.items()}


def _check_numbers(config: TopicConfig) -> None:
    for field, count in (("readQueueNums", config.read_queues), ("writeQueueNums", config.write_queues)):
        if not 0 <= count <= MOST_QUEUES:
            raise IllegalField(field, f"{count} queues; 0 to {MOST_QUEUES} are possible")
    if not 0 <= config.permission <= _ALL_PERMISSIONS:
        raise IllegalField("perm", f"{config.permission}; 4 read + 2 write + 1 inherit is wanted")
    if config.filter_type not in _FILTER_TYPES:
        raise IllegalField("topicFilterType", f"{config.filter_type[:80]!r} is none of {', '.join(_FILTER_TYPES)}")
