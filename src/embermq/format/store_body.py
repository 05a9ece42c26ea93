"""What a broker tells of its store to those who read its files: queues and folders, as JSON.

queues      {"orders": {"0": [12, 40]}}                  by topic and number: the messages [begin, end)
folders     {"": [["orders", 0, true]], "orders/0": [["00000000000000000000", 6000000, false]]}
            by path: the name, the size and whether it is a folder, of all that is in it
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from embermq.errors import CorruptRecord
from embermq.format.json_fields import parse_fields, read_integer, read_items


class StoreEntry(NamedTuple):
    """What a folder holds under one name."""

    name: str
    size: int
    is_folder: bool


class QueueSpan(NamedTuple):
    """The messages [begin, end) of a queue."""

    topic: str
    queue: int
    begin: int
    end: int


def encode_queues(queues: Iterable[tuple[str, int, int, int]]) -> bytes:
    """Queues as (topic, number, begin, end)."""
    topics: dict[str, dict[int, tuple[int, int]]] = {}
    for topic, queue, begin, end in queues:
        topics.setdefault(topic, {})[queue] = (begin, end)
    return _encode(topics)


def decode_queues(data: bytes) -> tuple[QueueSpan, ...]:
    """Raises CorruptRecord."""
    spans = []
    for topic, queues in parse_fields(data, "queues").members.items():
        for queue, limits in read_items(queues, f"queues.{topic}"):
            match limits:
                case [int() as begin, int() as end] if 0 <= begin <= end < 2**63:
                    spans.append(QueueSpan(str(topic), read_integer(queue, "queue"), begin, end))
                case _:
                    _fail(f"queue {queue} of topic {topic!r}", "two offsets", limits)
    return tuple(sorted(spans))


def encode_folders(folders: Mapping[str, Sequence[StoreEntry]]) -> bytes:
    return _encode(folders)


def decode_folders(data: bytes) -> dict[str, tuple[StoreEntry, ...]]:
    """Raises CorruptRecord."""
    found = {}
    for folder, entries in parse_fields(data, "folders").members.items():
        if not isinstance(entries, list):
            _fail(f"folder {folder!r}", "an array", entries)
        found[str(folder)] = tuple(_entry(each, str(folder)) for each in entries)
    return found


def _entry(value: object, folder: str) -> StoreEntry:
    match value:
        case [str() as name, int() as size, bool() as is_folder] if name and "/" not in name and 0 <= size < 2**63:
            return StoreEntry(name, size, is_folder)
    _fail(f"folder {folder!r}", "a name, a size and whether it is a folder", value)


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def _fail(where: str, expected: str, found: object) -> NoReturn:
    raise CorruptRecord(0, f"{where}: {expected} expected, found {found!r:.80}")
