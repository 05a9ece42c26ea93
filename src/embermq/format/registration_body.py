"""What a broker tells name servers of itself: its topics, and little else.

plain        {"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{…},"mappingDataVersion":{…},
              "topicConfigTable":{name:{…}},"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{…}}}

compressed   a zlib stream of
             size 4, version as JSON
             count 4, topics: size 4, `name reads writes permission filter attributes` each
             size 4, filter servers as JSON
             count 4, mappings as JSON: size 4 each        (of requests since 5.0.0)

RocketMQ 5.3.3 compresses a body and then says that it did not, so the first byte decides, not what is said.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from embermq.errors import CorruptRecord
from embermq.format.json_fields import Fields, parse_fields, read_integer
from embermq.format.lenient_json import parse_lenient
from embermq.format.route_body import read_count, read_texts
from embermq.format.tables import TopicTable, read_topic, read_version, topic_members, version_members
from embermq.format.wire_json import encode_body
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion

WRAPPED_SINCE: Final = 37  # RocketMQ 3.0.11; before it, the table of topics was all there was
MAPPINGS_SINCE: Final = 413  # RocketMQ 5.0.0
MAX_INFLATED_SIZE: Final = 64 * 1024 * 1024

_ZLIB: Final = b"\x78"
_SIZE: Final = struct.Struct(">i")
_LEVEL: Final = 9
_I32: Final = 2**31
_NO_TOPICS: Final = TopicTable(DataVersion(), {})
_TEXT_PARTS: Final = 5  # of a topic in a compressed body, its attributes aside


@dataclass(frozen=True, slots=True)
class Registration:
    """The topics of a broker, all or those that changed, with the version of its table."""

    topics: TopicTable
    filter_servers: tuple[str, ...] = ()
    mappings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # of static topics; kept as they are


def body_checksum(body: bytes) -> int:
    """The checksum of a body as it is sent."""
    return zlib.crc32(body) & 0x7FFFFFFF


def encode_version(version: DataVersion) -> bytes:
    return encode_body(version_members(version))


def decode_version(body: bytes) -> DataVersion:
    """A version that is a body of its own. Raises CorruptRecord."""
    return read_version(Fields({"dataVersion": parse_fields(body, "version").members}, "version"))


def encode_registration(registration: Registration) -> bytes:
    """The plain form, which every name server takes."""
    table = registration.topics
    wrapper = {
        "dataVersion": version_members(table.version),
        "mappingDataVersion": version_members(DataVersion()),
        "topicConfigTable": {name: topic_members(topic) for name, topic in table.topics.items()},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": registration.mappings,
    }
    return encode_body({"filterServerList": list(registration.filter_servers), "topicConfigSerializeWrapper": wrapper})


def encode_compressed(registration: Registration) -> bytes:
    """The compressed form. A topic's order and system flag have no place in it."""
    table = registration.topics
    parts = [
        _sized(encode_version(table.version)),
        _SIZE.pack(len(table.topics)),
        *(_sized(_format_topic(topic).encode()) for topic in table.topics.values()),
        _sized(encode_body(registration.filter_servers)),
        _SIZE.pack(len(registration.mappings)),
        *(_sized(encode_body(mapping)) for mapping in registration.mappings.values()),
    ]
    return zlib.compress(b"".join(parts), _LEVEL)


def decode_registration(body: bytes, *, version: int, limit: int = MAX_INFLATED_SIZE) -> Registration:
    """Either form, of a request of this version. Raises CorruptRecord."""
    if not body:
        return Registration(_NO_TOPICS)
    if body.startswith(_ZLIB):
        return _decode_inflated(_inflate(body, limit), has_mappings=version >= MAPPINGS_SINCE)
    fields = parse_fields(body, "registration")
    if version < WRAPPED_SINCE:
        return Registration(_read_table(fields))
    wrapper = fields.find_fields("topicConfigSerializeWrapper")
    servers = read_texts(fields.members.get("filterServerList"), "filterServerList")
    if wrapper is None:
        return Registration(_NO_TOPICS, servers)
    mappings = {topic: _members(value) for topic, value in wrapper.items("topicQueueMappingInfoMap")}
    return Registration(_read_table(wrapper), servers, mappings)


def _read_table(fields: Fields) -> TopicTable:
    topics = {}
    for name, value in fields.items("topicConfigTable"):
        topics[name] = read_topic(name, value)
        _check_counts(Fields(value, f"topic {name}"))
    return TopicTable(read_version(fields), topics)


def _check_counts(fields: Fields) -> None:
    for name in ("readQueueNums", "writeQueueNums", "perm"):
        read_count(fields, name)


def _inflate(body: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise CorruptRecord(0, f"registration: no zlib stream: {error}") from error
    if len(data) > limit:
        raise CorruptRecord(0, f"registration: more than {limit} bytes when inflated")
    if not inflater.eof:
        raise CorruptRecord(len(body), "registration: the zlib stream has no end")
    return data


def _decode_inflated(data: bytes, *, has_mappings: bool) -> Registration:
    reader = _Reader(data)
    version = decode_version(reader.take())
    topics = [_parse_topic(_decode(reader.take())) for _ in range(reader.count())]
    servers = read_texts(parse_lenient(_decode(reader.take())), "filter servers")
    mappings: dict[str, Mapping[str, object]] = {}
    for _ in range(reader.count() if has_mappings and not reader.is_at_end else 0):
        mapping = _members(parse_lenient(_decode(reader.take())))
        mappings[str(mapping.get("topic"))] = mapping
    return Registration(TopicTable(version, {topic.name: topic for topic in topics}), servers, mappings)


class _Reader:
    """Reads sizes and what they announce."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def count(self) -> int:
        """How many parts follow; each takes four bytes at least."""
        return self._number((len(self._data) - self._at) // _SIZE.size, "parts")

    def take(self) -> bytes:
        """The next part."""
        size = self._number(len(self._data) - self._at - _SIZE.size, "bytes")
        self._at += size
        return self._data[self._at - size : self._at]

    def _number(self, limit: int, what: str) -> int:
        if len(self._data) - self._at < _SIZE.size:
            raise CorruptRecord(self._at, "registration: it ends where a size is expected")
        (number,) = _SIZE.unpack_from(self._data, self._at)
        if not 0 <= number <= limit:
            raise CorruptRecord(self._at, f"registration: {number} {what} announced, {max(limit, 0)} are left at most")
        self._at += _SIZE.size
        return int(number)


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptRecord(error.start, "registration: not UTF-8") from error


def _parse_topic(text: str) -> TopicConfig:
    name, *rest = text.split(" ", _TEXT_PARTS)
    if len(rest) < _TEXT_PARTS - 1:
        raise CorruptRecord(0, f"registration: no topic: {text[:80]!r}")
    reads, writes, permission = (read_integer(number, f"topic {name}") for number in rest[:3])
    if not all(0 <= number < _I32 for number in (reads, writes, permission)):
        raise CorruptRecord(0, f"registration: topic {text[:80]!r}: a number out of its range")
    attributes = Fields({"attributes": parse_lenient(rest[4])}, name).texts("attributes") if rest[4:] else {}
    return TopicConfig(name, reads, writes, permission=permission, filter_type=rest[3], attributes=attributes)


def _format_topic(topic: TopicConfig) -> str:
    attributes = json.dumps(dict(topic.attributes), separators=(",", ":"))
    numbers = f"{topic.read_queues} {topic.write_queues} {int(topic.permission)}"
    return f"{topic.name} {numbers} {topic.filter_type} {attributes}"


def _members(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise CorruptRecord(0, f"registration: a mapping expected, found {repr(value)[:80]}")
    return value


def _sized(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data
