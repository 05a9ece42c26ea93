"""config/consumerFilter.json: the SQL92 filters of consumer groups, also of those that are off line.

{"filterDataByTopic": {topic: {"groupFilterData": {group: {…}}, "topic": topic}}}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from embermq.format.json_fields import Fields, parse_fields, read_integer
from embermq.format.tables import encode_table


@dataclass(frozen=True, slots=True)
class FilterEntry:
    """What a group wants of a topic, since when, and how its bits are set in maps of messages."""

    topic: str
    group: str
    expression: str
    expression_type: str
    version: int  # of the subscription that told it
    born_time: int  # ms
    dead_time: int = 0  # when it was last found that nobody wants it any more; 0 if never
    bits: int = 0  # of a map
    positions: tuple[int, ...] = ()

    @property
    def is_dead(self) -> bool:
        return self.dead_time >= self.born_time


def decode_filters(data: str | bytes) -> list[FilterEntry]:
    """All entries of the file. Raises CorruptRecord."""
    fields = parse_fields(data, "filters")
    found: list[FilterEntry] = []
    for topic, value in fields.items("filterDataByTopic"):
        for group, entry in Fields(value, f"filters of {topic}").items("groupFilterData"):
            found.append(_read_entry(topic, group, Fields(entry, f"filter of {topic}@{group}")))
    return found


def encode_filters(entries: Iterable[FilterEntry]) -> bytes:
    """The text of the file."""
    topics: dict[str, dict[str, object]] = {}
    for entry in entries:
        topics.setdefault(entry.topic, {})[entry.group] = _members(entry)
    tables = {topic: {"groupFilterData": groups, "topic": topic} for topic, groups in topics.items()}
    return encode_table({"filterDataByTopic": tables})


def _read_entry(topic: str, group: str, fields: Fields) -> FilterEntry:
    bloom = fields.find_fields("bloomFilterData")
    positions = bloom.members.get("bitPos") if bloom is not None else None
    return FilterEntry(
        topic,
        group,
        fields.text("expression", ""),
        fields.text("expressionType", ""),
        fields.integer("clientVersion"),
        fields.integer("bornTime"),
        fields.integer("deadTime"),
        bloom.integer("bitNum") if bloom is not None else 0,
        tuple(read_integer(each, "bitPos") for each in positions) if isinstance(positions, list) else (),
    )


def _members(entry: FilterEntry) -> dict[str, object]:
    return {
        "bloomFilterData": {"bitNum": entry.bits, "bitPos": tuple(entry.positions)},
        "bornTime": entry.born_time,
        "clientVersion": entry.version,
        "consumerGroup": entry.group,
        "dead": entry.is_dead,
        "deadTime": entry.dead_time,
        "expression": entry.expression,
        "expressionType": entry.expression_type,
        "topic": entry.topic,
    }
