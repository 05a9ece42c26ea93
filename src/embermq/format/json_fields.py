"""Checked reading of JSON members: each has a type and a default.

RocketMQ's reader takes a number in quotes for a number, and null for a member that is missing;
so do these.
"""

from __future__ import annotations

import re
import reprlib
from typing import Final, NoReturn

from embermq.errors import CorruptRecord
from embermq.format.lenient_json import parse_lenient

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")


class Fields:
    """The members of one JSON object; `where` is its place, for messages."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            _fail(where, "an object", value)
        self.members: dict[object, object] = value
        self._where = where

    def integer(self, name: str, default: int = 0) -> int:
        value = self.members.get(name)
        return default if value is None else read_integer(value, f"{self._where}.{name}")

    def number(self, name: str, default: float = 0.0) -> float:
        """A number that may have a fraction."""
        value = self.members.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            _fail(f"{self._where}.{name}", "a number", value)
        return default if value is None else float(value)

    def boolean(self, name: str, default: bool) -> bool:
        value = self.members.get(name)
        if value in ("true", "false"):
            return value == "true"
        if value is not None and not isinstance(value, bool):
            _fail(f"{self._where}.{name}", "true or false", value)
        return default if value is None else value

    def text(self, name: str, default: str) -> str:
        value = self.members.get(name)
        if value is not None and not isinstance(value, str):
            _fail(f"{self._where}.{name}", "text", value)
        return default if value is None else value

    def items(self, name: str) -> list[tuple[str, object]]:
        """The members of the object `name`, their keys as text; none if it is missing."""
        return read_items(self.members.get(name), f"{self._where}.{name}")

    def integers(self, name: str) -> dict[int, int]:
        """The object `name`, whose keys and values are numbers."""
        return read_integers(self.members.get(name), f"{self._where}.{name}")

    def texts(self, name: str) -> dict[str, str]:
        """The object `name`, whose values are text; other plain values as text."""
        found = {}
        for key, value in self.items(name):
            if isinstance(value, dict | list):
                _fail(f"{self._where}.{name}.{key}", "text", value)
            if value is not None:
                found[key] = str(value)
        return found

    def find_fields(self, name: str) -> Fields | None:
        """The object `name`, or None if it is missing."""
        value = self.members.get(name)
        return None if value is None else Fields(value, f"{self._where}.{name}")

    def find_list(self, name: str) -> list[object] | None:
        """The array `name`, or None if it is missing."""
        value = self.members.get(name)
        if value is not None and not isinstance(value, list):
            _fail(f"{self._where}.{name}", "an array", value)
        return value


def parse_fields(text: str | bytes, where: str) -> Fields:
    """The object that a whole table consists of."""
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise CorruptRecord(error.start, f"{where}: not UTF-8") from error
    return Fields(parse_lenient(text), where)


def read_integer(value: object, where: str) -> int:
    """`value` as a number of at most 64 bits."""
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        _fail(where, "a number", value)
    return value


def read_items(value: object, where: str) -> list[tuple[str, object]]:
    """The members of the object `value`, their keys as text; none of null."""
    if value is None:
        return []
    if not isinstance(value, dict):
        _fail(where, "an object", value)
    return [(str(key), member) for key, member in value.items()]


def read_integers(value: object, where: str) -> dict[int, int]:
    """The object `value`, whose keys and values are numbers."""
    return {read_integer(key, where): read_integer(member, where) for key, member in read_items(value, where)}


def _fail(where: str, expected: str, found: object) -> NoReturn:
    raise CorruptRecord(0, f"{where}: {expected} expected, found {reprlib.repr(found)[:80]}")
