"""The values of options, from the text that Spark hands over to what they mean. Each parser raises ValueError."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar

from embermq.model.message import milliseconds_of

T = TypeVar("T")

EARLIEST: Final = -2  # in place of an offset
LATEST: Final = -1
LAST_TIME_MS: Final = 2**63 - 1  # that a record can have
_NO_MILLISECONDS: Final = range(10**7, 10**11)  # as such they are before 1974: somebody means seconds, or 20250601

BrokerOffsets = Mapping[str, Mapping[int, int]]  # by broker and queue
Offsets = Literal["earliest", "latest", "group"] | Mapping[str, BrokerOffsets]  # by topic
Assigned = Mapping[str, Mapping[str, tuple[int, ...]]]  # queues by topic and broker

_TRUTHS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SIZE_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d)")
_DURATION_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def as_texts(options: Mapping[str, object]) -> dict[str, str]:
    """Options of a call in Python as Spark hands them over: lists have commas between, paths and mappings are JSON."""
    return dict(_as_text(name, value) for name, value in options.items())


def _as_text(name: str, value: object) -> tuple[str, str]:
    match value:
        case bool():
            return name, str(value).lower()
        case list() | tuple() if name == "path":
            return "paths", json.dumps([str(each) for each in value])
        case list() | tuple():
            return name, ",".join(map(str, value))
        case dict():
            return name, json.dumps(value)
    return name, str(value)


def parse_text(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text.strip()


def parse_truth(text: str) -> bool:
    if text.strip().lower() not in _TRUTHS:
        raise ValueError("true or false is wanted")
    return _TRUTHS[text.strip().lower()]


def parse_count(text: str) -> int:
    """A whole number of at least 1."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError("a whole number of at least 1 is wanted")
    return int(text)


def parse_size(text: str) -> int:
    """Bytes: a number, or one with k, m or g."""
    found = _SIZE.fullmatch(text.strip())
    if found is None or int(found[1]) < 1:
        raise ValueError("a number of bytes is wanted, such as 67108864 or 64m")
    return int(found[1]) * _SIZE_UNITS[found[2].lower()]


def parse_duration(text: str) -> int:
    """Milliseconds, from a time such as 500ms, 10s, 15m or 1h."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError("a time is wanted, such as 500ms, 10s, 15m or 1h")
    return int(found[1]) * _DURATION_UNITS[found[2]]


def parse_time(text: str) -> int:
    """Milliseconds since 1970, from such a number or a time in ISO form; one without a zone is in UTC."""
    text = text.strip()
    if text.isdecimal() and int(text) in _NO_MILLISECONDS:
        raise ValueError("as milliseconds it is long ago, and they are wanted; or a time such as 2025-06-01T12:00:00Z")
    if text.isdecimal() and int(text) <= LAST_TIME_MS:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("milliseconds since 1970 are wanted, or a time such as 2025-06-01T12:00:00Z") from None
    return milliseconds_of(found if found.tzinfo else found.replace(tzinfo=UTC))


def parse_names(text: str) -> tuple[str, ...]:
    """Names that commas separate, each once."""
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise ValueError("it names nothing; names are separated by commas")
    return names


def parse_pattern(text: str) -> str:
    """A regular expression, checked."""
    try:
        re.compile(parse_text(text))
    except re.error as error:
        raise ValueError(f"it is no regular expression: {error}") from None
    return text.strip()


def parse_paths(text: str) -> tuple[str, ...]:
    """The list of paths that `load([…])` becomes."""
    paths = _parse_json(text)
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) and path for path in paths):
        raise ValueError("a JSON list of paths is wanted")
    return tuple(paths)


def parse_storage(text: str) -> str:
    """What a file system of fsspec wants to know, as JSON, checked. No message has any of it: there may be keys."""
    found = None
    with suppress(ValueError):
        found = _parse_json(text)
    if not isinstance(found, dict):
        raise ValueError('a JSON object is wanted, such as {"endpoint_url": "http://host:9000"}')
    return text


def parse_offsets(text: str) -> Offsets:
    """`earliest`, `latest`, `group`, or offsets by topic, broker and queue, where -2 is earliest and -1 latest."""
    match text.strip().lower():
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
        case "group":
            return "group"
    wanted = 'earliest, latest, group or offsets such as {"orders": {"broker-a": {"0": 23}}} are wanted'
    return _parse_levels(text, wanted, _queue_offsets)


def parse_assigned(text: str) -> Assigned:
    """Queues by topic and broker."""
    return _parse_levels(text, 'queues such as {"orders": {"broker-a": [0, 1]}} are wanted', _queue_numbers)


def _parse_levels(text: str, wanted: str, leaf: Callable[[object], T]) -> dict[str, dict[str, T]]:
    """A JSON object of objects, whose innermost values `leaf` takes; it says what else was found."""
    try:
        found = _parse_json(text)
        return {
            topic: {broker: leaf(value) for broker, value in _object(brokers, f"topic {topic!r}").items()}
            for topic, brokers in _object(found, "all of it").items()
        }
    except ValueError as error:
        raise ValueError(f"{wanted}; {error}") from None


def _parse_json(text: str) -> object:
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    return found


def _object(value: object, place: str) -> dict[str, object]:
    if not isinstance(value, dict) or not value:
        raise ValueError(f"{place} is {json.dumps(value)[:80]}, not an object with something in it")
    return value


def _queue_offsets(value: object) -> dict[int, int]:
    offsets = {}
    for queue, offset in _object(value, "a broker's part").items():
        if not queue.isdecimal():
            raise ValueError(f"{queue!r} is no number of a queue")
        if type(offset) is not int or offset < EARLIEST:
            raise ValueError(f"queue {queue} has {json.dumps(offset)[:80]}, not an offset, -1 or -2")
        offsets[int(queue)] = offset
    return offsets


def _queue_numbers(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not value or not all(type(queue) is int and queue >= 0 for queue in value):
        raise ValueError(f"a broker's part is {json.dumps(value)[:80]}, not a list of queues")
    return tuple(dict.fromkeys(value))
