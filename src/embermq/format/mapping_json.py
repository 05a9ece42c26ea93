"""Static topics as JSON: config/topicQueueMapping.json, and what stands on the wire.

detail   {"bname":"broker-a","currIdMap":{0:0},"dirty":false,"epoch":1,"hostedQueues":{0:[part,…]},
          "scope":"__global__","topic":"orders","totalQueues":2}
info     the same without hostedQueues: what name servers and clients are told
part     {"bname":"broker-a","endOffset":-1,"gen":0,"logicOffset":0,"queueId":0,"startOffset":0,
          "timeOfEnd":-1,"timeOfStart":-1}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord
from embermq.format.json_fields import Fields, parse_fields, read_integer
from embermq.format.tables import encode_table, read_version, version_members
from embermq.format.wire_json import encode_body
from embermq.model.queue_mapping import EVERYWHERE, UNKNOWN, QueueMapping, QueuePart
from embermq.model.version import DataVersion

_I32: Final = 2**31


class MappingTable(NamedTuple):
    """The static topics of a broker, by name."""

    version: DataVersion
    mappings: Mapping[str, QueueMapping]


def encode_mapping(mapping: QueueMapping) -> bytes:
    """The body of UPDATE_AND_CREATE_STATIC_TOPIC."""
    return encode_body(mapping_members(mapping))


def decode_mapping(body: bytes) -> QueueMapping:
    """Raises CorruptRecord."""
    return _read_mapping(parse_fields(body, "mapping"))


def encode_mappings_file(table: MappingTable) -> bytes:
    members = {topic: mapping_members(mapping) for topic, mapping in table.mappings.items()}
    return encode_table({"dataVersion": version_members(table.version), "topicQueueMappingInfoMap": members})


def decode_mappings_file(data: str | bytes) -> MappingTable:
    """Raises CorruptRecord."""
    fields = parse_fields(data, "mappings")
    found = [
        _read_mapping(Fields(value, f"mapping {topic}")) for topic, value in fields.items("topicQueueMappingInfoMap")
    ]
    return MappingTable(read_version(fields), {mapping.topic: mapping for mapping in found})


def info_members(mapping: QueueMapping) -> dict[str, object]:
    """What name servers are told of a static topic."""
    return {
        "bname": mapping.broker,
        "currIdMap": mapping.led(),
        "dirty": mapping.is_dirty,
        "epoch": mapping.epoch,
        "scope": mapping.scope,
        "topic": mapping.topic,
        "totalQueues": mapping.total_queues,
    }


def mapping_members(mapping: QueueMapping) -> dict[str, object]:
    """All that a broker knows of a static topic."""
    hosted = {queue: [_part_members(part) for part in parts] for queue, parts in mapping.parts.items()}
    return dict(sorted({**info_members(mapping), "hostedQueues": hosted}.items()))


def _part_members(part: QueuePart) -> dict[str, object]:
    return {
        "bname": part.broker,
        "endOffset": part.end,
        "gen": part.generation,
        "logicOffset": part.static_begin,
        "queueId": part.queue,
        "startOffset": part.begin,
        "timeOfEnd": part.end_time,
        "timeOfStart": part.begin_time,
    }


def _read_mapping(fields: Fields) -> QueueMapping:
    parts = {
        read_integer(queue, "hostedQueues"): _read_parts(value, f"hostedQueues {queue}")
        for queue, value in fields.items("hostedQueues")
    }
    mapping = QueueMapping(
        topic=fields.text("topic", ""),
        broker=fields.text("bname", ""),
        epoch=fields.integer("epoch"),
        total_queues=fields.integer("totalQueues"),
        parts=parts,
        scope=fields.text("scope", EVERYWHERE),
        is_dirty=fields.boolean("dirty", False),
    )
    if not mapping.topic or not mapping.broker:
        raise CorruptRecord(0, "mapping: topic and bname must be there")
    return mapping


def _read_parts(value: object, where: str) -> tuple[QueuePart, ...]:
    if not isinstance(value, list):
        raise CorruptRecord(0, f"{where}: an array expected, found {repr(value)[:80]}")
    return tuple(_read_part(Fields(each, where)) for each in value)


def _read_part(fields: Fields) -> QueuePart:
    part = QueuePart(
        broker=fields.text("bname", ""),
        queue=fields.integer("queueId"),
        generation=fields.integer("gen"),
        static_begin=fields.integer("logicOffset"),
        begin=fields.integer("startOffset"),
        end=fields.integer("endOffset", UNKNOWN),
        begin_time=fields.integer("timeOfStart", UNKNOWN),
        end_time=fields.integer("timeOfEnd", UNKNOWN),
    )
    if not part.broker or not -_I32 <= part.queue < _I32:
        raise CorruptRecord(0, f"mapping: no part of a queue: {part}"[:300])
    return part
