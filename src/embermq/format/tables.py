"""The tables of a store's `config` directory, from and to their JSON.

    topics.json               TopicTable
    subscriptionGroup.json    GroupTable
    consumerOffset.json       OffsetTable
    lmqConsumerOffset.json    OffsetTable, with the offsets of light queues
    delayOffset.json          DelayTable

The other files (consumerFilter.json, consumerOrderInfo.json, topicQueueMapping.json,
messageRequestMode.json, timermetrics, transactionMetrics, compaction/position-checkpoint) are kept as
they are: `decode_table` and `encode_table`, or `encode_metrics` for the two with metrics.

Decoders raise CorruptRecord. RocketMQ's order of members is kept: the alphabet's for settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from embermq.errors import CorruptRecord
from embermq.format.group_json import group_members, read_group
from embermq.format.json_fields import Fields, parse_fields, read_integer, read_integers, read_items
from embermq.format.lenient_json import format_compact, format_fastjson
from embermq.model.group import GroupConfig
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion


@dataclass(frozen=True, slots=True)
class TopicTable:
    """Topics by name."""

    version: DataVersion
    topics: Mapping[str, TopicConfig]


@dataclass(frozen=True, slots=True)
class GroupTable:
    """Consumer groups by name, and what is forbidden to them: bits by group and topic."""

    version: DataVersion
    groups: Mapping[str, GroupConfig]
    forbidden: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """What consumers have done: the next offset of each queue, by (topic, group).

    Light queues have one queue only, so `light_offsets` has one number for each.
    """

    version: DataVersion
    offsets: Mapping[tuple[str, str], Mapping[int, int]]
    light_offsets: Mapping[tuple[str, str], int] = field(default_factory=dict)
    log_position: int | None = None  # ours alone: everything popped before it is counted in


@dataclass(frozen=True, slots=True)
class DelayTable:
    """The next offset of each delay level, by level from 1."""

    version: DataVersion
    offsets: Mapping[int, int]


def decode_topics(data: str | bytes) -> TopicTable:
    fields = parse_fields(data, "topics")
    topics = {name: read_topic(name, value) for name, value in fields.items("topicConfigTable")}
    return TopicTable(read_version(fields), topics)


def encode_topics(table: TopicTable) -> bytes:
    topics = {name: topic_members(topic) for name, topic in table.topics.items()}
    return encode_table({"dataVersion": version_members(table.version), "topicConfigTable": topics})


def decode_groups(data: str | bytes) -> GroupTable:
    fields = parse_fields(data, "groups")
    groups = {name: read_group(name, value) for name, value in fields.items("subscriptionGroupTable")}
    forbidden = {group: _read_forbidden(group, value) for group, value in fields.items("forbiddenTable")}
    return GroupTable(read_version(fields), groups, forbidden)


def encode_groups(table: GroupTable) -> bytes:
    return encode_table(
        {
            "dataVersion": version_members(table.version),
            "forbiddenTable": table.forbidden,
            "subscriptionGroupTable": {name: group_members(group) for name, group in table.groups.items()},
        }
    )


def decode_offsets(data: str | bytes) -> OffsetTable:
    """Either of the two files of consumer offsets."""
    fields = parse_fields(data, "offsets")
    offsets = {_split_key(key): read_integers(value, key) for key, value in fields.items("offsetTable")}
    light = {_split_key(key): read_integer(value, key) for key, value in fields.items("lmqOffsetTable")}
    position = fields.integer("logPosition", -1)
    return OffsetTable(read_version(fields), offsets, light, position if position >= 0 else None)


def encode_offsets(table: OffsetTable) -> bytes:
    """The text of consumerOffset.json, which has no light queues. RocketMQ passes over what is ours alone."""
    own = {} if table.log_position is None else {"logPosition": table.log_position}
    return encode_table({**offset_members(table), **own})


def encode_light_offsets(table: OffsetTable) -> bytes:
    """The text of lmqConsumerOffset.json."""
    light = {_join_key(key): offset for key, offset in table.light_offsets.items()}
    own = {} if table.log_position is None else {"logPosition": table.log_position}
    members = {**offset_members(table), "lmqOffsetTable": light, **own}
    return encode_table(dict(sorted(members.items())))


def decode_delays(data: str | bytes) -> DelayTable:
    fields = parse_fields(data, "delays")
    return DelayTable(read_version(fields), fields.integers("offsetTable"))


def encode_delays(table: DelayTable) -> bytes:
    return encode_table({"dataVersion": version_members(table.version), "offsetTable": table.offsets})


def decode_table(data: str | bytes) -> dict[str, object]:
    """Any of the tables as plain values."""
    return {str(name): value for name, value in parse_fields(data, "table").members.items()}


def encode_table(members: Mapping[str, object]) -> bytes:
    return format_fastjson(members).encode()


def encode_metrics(members: Mapping[str, object]) -> bytes:
    """The text of `timermetrics` and `transactionMetrics`, which are on one line."""
    return format_compact(members).encode()


def read_version(fields: Fields) -> DataVersion:
    """The member `dataVersion`."""
    version = fields.find_fields("dataVersion")
    if version is None:
        return DataVersion()
    state, counter, timestamp = map(version.integer, ("stateVersion", "counter", "timestamp"))
    return DataVersion(state, counter, timestamp)


def version_members(version: DataVersion) -> dict[str, object]:
    """A version, as it stands in tables and on the wire."""
    return {"counter": version.counter, "stateVersion": version.state_version, "timestamp": version.timestamp}


def read_topic(name: str, value: object) -> TopicConfig:
    """One topic of a table."""
    fields = Fields(value, f"topic {name}")
    default = TopicConfig(name)
    return TopicConfig(
        name=fields.text("topicName", name),
        read_queues=fields.integer("readQueueNums", default.read_queues),
        write_queues=fields.integer("writeQueueNums", default.write_queues),
        permission=fields.integer("perm", default.permission),
        order=fields.boolean("order", default.order),
        filter_type=fields.text("topicFilterType", default.filter_type),
        sys_flag=fields.integer("topicSysFlag", default.sys_flag),
        attributes=fields.texts("attributes"),
    )


def topic_members(topic: TopicConfig) -> dict[str, object]:
    """A topic, as it stands in tables and on the wire."""
    return {
        "attributes": topic.attributes,
        "order": topic.order,
        "perm": int(topic.permission),
        "readQueueNums": topic.read_queues,
        "topicFilterType": topic.filter_type,
        "topicName": topic.name,
        "topicSysFlag": topic.sys_flag,
        "writeQueueNums": topic.write_queues,
    }


def _read_forbidden(group: str, value: object) -> dict[str, int]:
    where = f"forbidden {group}"
    return {topic: read_integer(bits, where) for topic, bits in read_items(value, where)}


def offset_members(table: OffsetTable) -> dict[str, object]:
    topics_of: dict[str, list[str]] = {}
    for topic, group in [*table.offsets, *table.light_offsets]:
        topics_of.setdefault(group, []).append(topic)
    return {
        "dataVersion": version_members(table.version),
        # Nobody reads it back; it is there for people, as in RocketMQ's files.
        "groupTopicMap": {group: tuple(dict.fromkeys(topics)) for group, topics in topics_of.items()},
        "offsetTable": {_join_key(key): queues for key, queues in table.offsets.items()},
    }


def _split_key(key: str) -> tuple[str, str]:
    topic, at, group = key.partition("@")
    if not at:
        raise CorruptRecord(0, f"offsets of {key[:80]!r}: topic@group expected")
    return topic, group


def _join_key(key: tuple[str, str]) -> str:
    topic, group = key
    return f"{topic}@{group}"
