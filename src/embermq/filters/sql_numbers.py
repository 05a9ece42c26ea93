"""Numbers of a filter as Java has them: texts become numbers by its rules, and doubles are ordered by its order.

`int` and `float` of Python take texts that Java does not, and the other way round: `1_000`, `٣`, `0x1p3`, `5d`, ` 5`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from math import copysign, inf, isnan
from typing import Final

from embermq.filters.sql_tree import Constant, Kind

INT_RANGE: Final = (-(2**31), 2**31 - 1)
LONG_RANGE: Final = (-(2**63), 2**63 - 1)

_MOST_DIGITS: Final = 19  # of a number that fits 64 bits
_BLANKS: Final = "".join(map(chr, range(33)))  # what Java trims
_DECIMAL: Final = re.compile(r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?", re.ASCII)
_HEXADECIMAL: Final = re.compile(
    r"(?P<number>[+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?", re.ASCII
)
_SPECIAL: Final = {
    f"{sign}{name}": value
    for name in ("NaN", "Infinity")
    for sign in ("", "+", "-")
    for value in [float(f"{sign}{name}")]
}


class NotComparable(Exception):
    """Two values that RocketMQ cannot compare, such as a word with a number: the message does not match."""


def parse_int(text: str) -> int:
    """A text as a 32-bit number: a sign, perhaps, and digits. Raises NotComparable."""
    if len(text) < 12 and _is_plain(text) and INT_RANGE[0] <= (value := int(text)) <= INT_RANGE[1]:
        return value
    return _parse_signed(text, *INT_RANGE)


def parse_long(text: str) -> int:
    """A text as a 64-bit number. Raises NotComparable."""
    if len(text) < 19 and _is_plain(text):
        return int(text)
    return _parse_signed(text, *LONG_RANGE)


def _is_plain(text: str) -> bool:
    return text.isascii() and (text.isdigit() or (text[1:].isdigit() and text[0] in "+-"))


def _parse_signed(text: str, least: int, most: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Java takes digits of any script, but only those that are one UTF-16 unit.
    if not digits.isdecimal() or max(digits) > "\uffff":
        raise NotComparable(f"{text[:40]!r} is no whole number")
    plain = "".join([str(unicodedata.decimal(digit)) for digit in digits]).lstrip("0")
    value = int(plain or "0") if len(plain) <= _MOST_DIGITS else most + 1
    if text[0] == "-":
        value = -value
    if not least <= value <= most or len(plain) > _MOST_DIGITS:
        raise NotComparable(f"{text[:40]!r} is not between {least} and {most}")
    return value


def parse_double(text: str) -> float:
    """A text as a double. Raises NotComparable."""
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    trimmed = text.strip(_BLANKS)
    if found := _DECIMAL.fullmatch(trimmed):
        return float(found["number"])
    if trimmed in _SPECIAL:
        return _SPECIAL[trimmed]
    if found := _HEXADECIMAL.fullmatch(trimmed):
        try:
            return float.fromhex(found["number"])
        except OverflowError:
            return copysign(inf, -1 if trimmed[0] == "-" else 1)
    raise NotComparable(f"{text[:40]!r} is no number")


PARSERS: Final[dict[Kind, Callable[[str], float]]] = {
    Kind.INT: parse_int,
    Kind.LONG: parse_long,
    Kind.DOUBLE: parse_double,
}


def double_rank(value: float) -> tuple[float, float]:
    """What orders doubles as Java does: -0.0 before 0.0, and NaN, equal to itself, behind all."""
    return (inf, 2.0) if isnan(value) else (value, copysign(1.0, value))


def promote(left: Constant, right: Constant) -> tuple[float, float]:
    """Two numbers as they are compared: both as doubles if one is."""
    assert isinstance(left.value, int | float) and isinstance(right.value, int | float)
    if Kind.DOUBLE in (left.kind, right.kind):
        return float(left.value), float(right.value)
    return left.value, right.value
