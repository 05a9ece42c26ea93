"""Attributes of topics: which there are, what they may be, and how a change is written: `+name=value,-name`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from embermq.errors import IllegalAttribute


class _Attribute(NamedTuple):
    values: tuple[str, ...]  # none: any number
    is_fixed: bool = False  # set when the topic is made, or never


_NUMBER: Final = re.compile(r"-1|[0-9]{1,18}", re.ASCII)
MIXED: Final = "MIXED"
MESSAGE_TYPE: Final = "message.type"
_KNOWN: Final = {
    "queue.type": _Attribute(("SimpleCQ", "BatchCQ"), is_fixed=True),
    "cleanup.policy": _Attribute(("DELETE", "COMPACTION"), is_fixed=True),
    MESSAGE_TYPE: _Attribute(("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", MIXED)),
    # How long tiered storage keeps messages. It is kept for a RocketMQ that has one; without, neither broker obeys it.
    "reserve.time": _Attribute(()),
}


def parse_changes(text: str) -> dict[str, str]:
    """`+name=value,-name` as values by signed name; that of a name to take away is empty. Raises IllegalAttribute."""
    changes: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name[:1] not in ("+", "-") or (name[0] == "-") == bool(equals) or not name[1:]:
            raise IllegalAttribute(part, "+name=value sets one, -name takes it away")
        if name in changes:
            raise IllegalAttribute(name[1:], "it is there twice")
        changes[name] = value
    return changes


def apply_changes(current: Mapping[str, str], changes: Mapping[str, str], *, is_new: bool) -> dict[str, str]:
    """The attributes after `changes`, whose names begin with + or -. Raises IllegalAttribute."""
    result = dict(current)
    for signed, value in changes.items():
        sign, name = signed[:1], signed[1:]
        known = _KNOWN.get(name)
        if f"+{name}" in changes and f"-{name}" in changes:
            raise IllegalAttribute(name, "it is set and taken away at once")
        if sign not in ("+", "-") or known is None:
            raise IllegalAttribute(name or signed, f"there is no such attribute; there are {', '.join(_KNOWN)}")
        if sign == "-":
            if is_new or name not in current:
                raise IllegalAttribute(name, "it is not set, so it cannot be taken away")
            if known.is_fixed:
                raise IllegalAttribute(name, "it is fixed when the topic is made")
            del result[name]
            continue
        _check_value(name, value, known.values)
        if known.is_fixed and not is_new and current.get(name, known.values[0]) != value:
            raise IllegalAttribute(name, "it is fixed when the topic is made")
        result[name] = value
    return result


def _check_value(name: str, value: str, values: tuple[str, ...]) -> None:
    if values and value not in values:
        raise IllegalAttribute(name, f"{value[:80]!r} is none of {', '.join(values)}")
    if not values and not _NUMBER.fullmatch(value):
        raise IllegalAttribute(name, f"{value[:80]!r} is no number, -1 or more")
