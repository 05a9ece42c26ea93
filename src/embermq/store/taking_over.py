"""Settings and offsets that RocketMQ keeps in RocksDBs become the JSON files that we keep, where they are as new.

RocketMQ does the same the other way round: at a start it takes over JSON files whose version counts more than its own.
So what is taken over here counts one more, and whatever comes of it goes back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from embermq.files.durable import read_with_backup, replace_file
from embermq.format.json_fields import parse_fields, read_integers
from embermq.format.tables import (
    GroupTable,
    OffsetTable,
    TopicTable,
    decode_groups,
    decode_offsets,
    decode_topics,
    encode_groups,
    encode_offsets,
    encode_topics,
)

if TYPE_CHECKING:
    from embermq.log.config_database import ConfigTable

log = logging.getLogger(__name__)

AnyTable = TopicTable | GroupTable | OffsetTable
_Read = Callable[["ConfigTable"], AnyTable]


def take_over(config: Path, *, now_ms: int) -> list[str]:
    """Write the JSON files for which RocketMQ has something as new, or newer; returns their names."""
    from embermq.log.config_database import read_table

    taken = []
    for folder, name, read, decode, encode in _TABLES:
        found = read_table(config / folder)
        if found is None:
            continue
        theirs, ours = read(found), read_with_backup(config / name, decode)
        if ours is not None and ours.version.counter > theirs.version.counter:
            continue
        table = replace(theirs, version=theirs.version.next(now_ms))
        replace_file(config / name, encode(table), keep_backup=True)
        log.info("taken over from RocketMQ file=%s counter=%d", name, table.version.counter)
        taken.append(name)
    return taken


def _read_topics(found: ConfigTable) -> TopicTable:
    return decode_topics(_text(found.version, topicConfigTable=found.members))


def _read_groups(found: ConfigTable) -> GroupTable:
    return decode_groups(_text(found.version, subscriptionGroupTable=found.members, forbiddenTable=found.forbidden))


def _read_offsets(found: ConfigTable) -> OffsetTable:
    queues = {
        name: json.dumps(read_integers(parse_fields(data, name).members.get("offsetTable", {}), name)).encode()
        for name, data in found.members.items()
    }
    return decode_offsets(_text(found.version, offsetTable=queues))


def _text(version: bytes | None, **tables: Mapping[str, bytes]) -> bytes:
    """A table as it would be in RocketMQ's JSON file."""
    members = [b'"dataVersion":' + (version or b"{}")]
    for name, table in tables.items():
        entries = b",".join(json.dumps(key).encode() + b":" + value for key, value in table.items())
        members.append(json.dumps(name).encode() + b":{" + entries + b"}")
    return b"{" + b",".join(members) + b"}"


_TABLES: Final[tuple[tuple[str, str, _Read, Callable[[bytes], AnyTable], Callable[[Any], bytes]], ...]] = (
    ("topics", "topics.json", _read_topics, decode_topics, encode_topics),
    ("subscriptionGroups", "subscriptionGroup.json", _read_groups, decode_groups, encode_groups),
    ("consumerOffsets", "consumerOffset.json", _read_offsets, decode_offsets, encode_offsets),
)
