"""Reading the fields of a request: every one is text, and any may be missing or nonsense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from embermq.errors import IllegalField

I32: Final = 2**31
I64: Final = 2**63


def read_text(fields: Mapping[str, str], name: str) -> str:
    """The text of a field that must be there. Raises IllegalField."""
    value = fields.get(name)
    if not value:
        raise IllegalField(name, "it is missing")
    return value


def read_integer(fields: Mapping[str, str], name: str, *, limit: int = I64) -> int:
    """The number of a field that must be there: -limit <= number < limit. Raises IllegalField."""
    value = find_integer(fields, name, limit=limit)
    if value is None:
        raise IllegalField(name, "it is missing")
    return value


def find_integer(fields: Mapping[str, str], name: str, *, limit: int = I64) -> int | None:
    """The number of a field, None if it is not there. Raises IllegalField."""
    text = fields.get(name)
    if not text:
        return None
    try:
        value = int(text) if len(text) <= 20 and text.isascii() and "_" not in text else limit
    except ValueError:
        raise IllegalField(name, f"{text[:80]!r} is no number") from None
    if not -limit <= value < limit:
        raise IllegalField(name, f"{text[:80]!r} is no number of {limit.bit_length()} bits")
    return value


def find_boolean(fields: Mapping[str, str], name: str) -> bool | None:
    """Whether a field says `true`; None if it is not there."""
    text = fields.get(name)
    return text.lower() == "true" if text else None
