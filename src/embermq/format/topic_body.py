"""Topics on the wire: one, many, all with their version, and what their queues hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from embermq.errors import CorruptRecord
from embermq.format.json_fields import Fields, parse_fields
from embermq.format.mapping_json import MappingTable, mapping_members
from embermq.format.tables import TopicTable, decode_topics, read_topic, topic_members, version_members
from embermq.format.wire_json import BrokerQueue, encode_body, read_queue
from embermq.model.queue_mapping import QueueMapping
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion


class QueueStats(NamedTuple):
    """What one queue holds."""

    first_offset: int
    next_offset: int
    last_time: int  # when its newest message was stored, in ms; 0 if there is none


class TopicStats(NamedTuple):
    """What the queues of a topic hold, and how many messages a second come in."""

    queues: Mapping[BrokerQueue, QueueStats]
    put_rate: float


def encode_topic(topic: TopicConfig, mapping: QueueMapping | None = None) -> bytes:
    """The body that answers GET_TOPIC_CONFIG; with what the queues of a static topic are parts of."""
    told = {} if mapping is None else {"mappingDetail": mapping_members(mapping)}
    return encode_body(dict(sorted({**topic_members(topic), **told}.items())))


def decode_topic(body: bytes) -> TopicConfig:
    """Raises CorruptRecord."""
    return read_topic("", parse_fields(body, "topic").members)


def encode_topic_configs(topics: Iterable[TopicConfig]) -> bytes:
    """The body of UPDATE_AND_CREATE_TOPIC_LIST."""
    return encode_body({"topicConfigList": [topic_members(topic) for topic in topics]})


def decode_topic_configs(body: bytes) -> list[TopicConfig]:
    """Raises CorruptRecord."""
    values = parse_fields(body, "topics").find_list("topicConfigList")
    if values is None:
        raise CorruptRecord(0, "topics: topicConfigList is missing")
    return [read_topic("", value) for value in values]


def encode_topic_table(version: DataVersion, topics: Iterable[TopicConfig], static: MappingTable) -> bytes:
    """The body that answers GET_ALL_TOPIC_CONFIG."""
    return encode_body(
        {
            "dataVersion": version_members(version),
            "mappingDataVersion": version_members(static.version),
            "topicConfigTable": {topic.name: topic_members(topic) for topic in topics},
            "topicQueueMappingDetailMap": {name: mapping_members(each) for name, each in static.mappings.items()},
            "topicQueueMappingInfoMap": {},
        }
    )


def decode_topic_table(body: bytes) -> TopicTable:
    """Raises CorruptRecord."""
    return decode_topics(body)


def encode_topic_stats(stats: TopicStats) -> bytes:
    """The body that answers GET_TOPIC_STATS."""
    table = {
        queue: {
            "lastUpdateTimestamp": held.last_time,
            "maxOffset": held.next_offset,
            "minOffset": held.first_offset,
        }
        for queue, held in stats.queues.items()
    }
    return encode_body({"offsetTable": table, "topicPutTps": stats.put_rate})


def decode_topic_stats(body: bytes) -> TopicStats:
    """Raises CorruptRecord."""
    fields = parse_fields(body, "topic stats")
    queues = {
        read_queue(key, "topic stats.offsetTable"): _read_queue_stats(value)
        for key, value in fields.items("offsetTable")
    }
    return TopicStats(queues, fields.number("topicPutTps"))


def _read_queue_stats(value: object) -> QueueStats:
    fields = Fields(value, "topic stats.offsetTable")
    first, following, time = map(fields.integer, ("minOffset", "maxOffset", "lastUpdateTimestamp"))
    return QueueStats(first, following, time)
