r"""JSON as RocketMQ writes it, which is not quite JSON.

Its tables have maps with numbers for keys (`{0:12,1:9}`), its answers have maps with objects for keys
(`{{"queueId":0}:12}`), and its reader takes single quotes, names without quotes and commas too many.
An object that occurs twice is written once; the second time as `{"$ref":"$.path.to.it"}`.

`parse_lenient` reads all that; numeric keys become integers, and an object as a key becomes its JSON text,
which is the other form that RocketMQ takes it in. `format_fastjson` writes the layout of the originals: one
TAB a level, each member on its own line, except for sets, arrays and the members of maps with numbers for keys.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Final, NoReturn

from embermq.errors import CorruptRecord
from embermq.format.json_references import resolve_references

_MAX_DEPTH: Final = 100
_MAX_DIGITS: Final = 4300  # what Python takes
_MAX_SAFE: Final = 2**53 - 1  # the largest integer that JavaScript holds exactly

_SPACE: Final = re.compile(r"[ \t\n\r\f\v\ufeff]*")
_COMMAS: Final = re.compile(r"[ \t\n\r\f\v\ufeff,]*")
_NUMBER: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_NAME: Final = re.compile(r"[\w$%|][\w$%|.@#-]*")
_CHUNKS: Final = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPES: Final = {
    '"': '"', "'": "'", "\\": "\\", "/": "/",
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "0": "\0", "1": "\1", "2": "\2", "3": "\3", "4": "\4", "5": "\5", "6": "\6", "7": "\7",
}  # fmt: skip
_HEX_ESCAPES: Final = {"u": re.compile("[0-9a-fA-F]{4}"), "x": re.compile("[0-9a-fA-F]{2}")}
_WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}


def parse_lenient(text: str) -> object:
    """The value that `text` holds. Raises CorruptRecord with the character where it stops making sense."""
    value = _parse(text)
    return resolve_references(value) if "$ref" in text else value


def _parse(text: str) -> object:
    try:
        value: object = json.loads(text, parse_constant=_refuse)  # strict JSON is read many times faster
    except (ValueError, RecursionError):
        return _Parser(text).parse()
    _check_depth(value)
    return value


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(_MAX_DEPTH + 1):
        level = [part for whole in level for part in _parts(whole)]
        if not level:
            return
    raise CorruptRecord(0, f"no JSON: nested deeper than {_MAX_DEPTH}")


def _parts(value: object) -> list[object]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
    return []


class _Parser:
    """Reads one text from its start to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def parse(self) -> object:
        value = self._value()
        self._skip(_SPACE)
        if self._at < len(self._text):
            self._fail("more text than one value")
        return value

    def _fail(self, reason: str) -> NoReturn:
        found = self._text[self._at : self._at + 20]
        raise CorruptRecord(self._at, f"no JSON: {reason}, found {found!r}")

    def _skip(self, what: re.Pattern[str]) -> None:
        match = what.match(self._text, self._at)
        assert match is not None  # these patterns match nothing, too
        self._at = match.end()

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _value(self) -> object:
        self._skip(_SPACE)
        match self._peek():
            case "{":
                return self._nested(self._object)
            case "[":
                return self._nested(self._array)
            case '"' | "'":
                return self._string()
        if (number := self._number()) is not None:
            return number
        name = self._name()
        if name not in _WORDS:
            self._at -= len(name)
            self._fail("a value expected")
        return _WORDS[name]

    def _nested(self, read: Callable[[], object]) -> object:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self._fail(f"nested deeper than {_MAX_DEPTH}")
        self._at += 1
        value = read()
        self._at += 1
        self._depth -= 1
        return value

    def _object(self) -> dict[object, object]:
        members: dict[object, object] = {}
        while True:
            self._skip(_COMMAS)
            if self._peek() == "}":
                return members
            key = self._key()
            self._skip(_SPACE)
            if self._peek() != ":":
                self._fail("':' expected")
            self._at += 1
            members[key] = self._value()
            self._end_of_member("}")

    def _array(self) -> list[object]:
        elements: list[object] = []
        while True:
            self._skip(_COMMAS)
            if self._peek() == "]":
                return elements
            elements.append(self._value())
            self._end_of_member("]")

    def _end_of_member(self, end: str) -> None:
        self._skip(_SPACE)
        if self._peek() not in (",", end):
            self._fail(f"',' or '{end}' expected")

    def _key(self) -> object:
        if self._peek() in _CHUNKS:
            return self._string()
        if self._peek() == "{":
            return json.dumps(self._nested(self._object), separators=(",", ":"))
        begin = self._at
        number = self._number()
        if isinstance(number, int) and not _NAME.match(self._text, self._at):
            return number
        self._at = begin
        return self._name()

    def _number(self) -> int | float | None:
        match = _NUMBER.match(self._text, self._at)
        if match is None:
            return None
        if len(match[0]) > _MAX_DIGITS:
            self._fail(f"a number of more than {_MAX_DIGITS} digits")
        self._at = match.end()
        return int(match[0]) if match[1] is None and match[2] is None else float(match[0])

    def _name(self) -> str:
        match = _NAME.match(self._text, self._at)
        if match is None:
            self._fail("a name or a value expected")
        self._at = match.end()
        return match[0]

    def _string(self) -> str:
        quote = self._peek()
        self._at += 1
        parts: list[str] = []
        while True:
            begin = self._at
            self._skip(_CHUNKS[quote])
            parts.append(self._text[begin : self._at])
            match self._peek():
                case "\\":
                    parts.append(self._escape())
                case "":
                    self._fail("a string without an end")
                case _:
                    self._at += 1
                    return _join_surrogates("".join(parts))

    def _escape(self) -> str:
        kind = self._text[self._at + 1 : self._at + 2]
        if kind in _HEX_ESCAPES:
            digits = _HEX_ESCAPES[kind].match(self._text, self._at + 2)
            if digits is None:
                self._fail("an escape without its digits")
            self._at = digits.end()
            return chr(int(digits[0], 16))
        if kind not in _ESCAPES:
            self._fail("an unknown escape")
        self._at += 2
        return _ESCAPES[kind]


def _join_surrogates(text: str) -> str:
    """`text` with each pair of surrogates, which two escapes may have made, as one character."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def format_fastjson(value: object) -> str:
    """`value` in the layout of RocketMQ's tables.

    A list has one element a line, a tuple or set is on one line; members whose keys are
    integers are on one line, too.
    """
    return _format(value, "\n")


def format_compact(value: object) -> str:
    """`value` on one line and in ASCII, as RocketMQ writes its metrics."""
    return json.dumps(_browser_safe(value), separators=(",", ":"))


def _browser_safe(value: object) -> object:
    # JavaScript would round larger integers, so RocketMQ writes them as text.
    match value:
        case Mapping():
            return {str(key): _browser_safe(member) for key, member in value.items()}
        case list() | tuple():
            return [_browser_safe(element) for element in value]
        case int() if abs(value) > _MAX_SAFE:
            return str(value)
    return value


def _format(value: object, line: str) -> str:
    """`value` as it is written where `line` begins a new line."""
    if type(value) is str:  # most values are one of these two, and a table is written at every change
        return _format_text(value)
    if type(value) is int:
        return str(value)
    inner = line + "\t"
    match value:
        case dict() | Mapping():
            members = [_format_member(key, member, inner) for key, member in value.items()]
            return "{" + ",".join(members) + line + "}" if members else "{}"
        case list():
            elements = [inner + _format(element, inner) for element in value]
            return "[" + ",".join(elements) + line + "]" if elements else "[]"
        case tuple():
            return "[" + ",".join([_format(element, inner) for element in value]) + "]"
        case set() | frozenset():
            return "[" + ",".join(sorted(_format(element, inner) for element in value)) + "]"
        case float() if not math.isfinite(value):
            return "null"
        case str():
            return _format_text(value)
    return json.dumps(value)


def _format_text(text: str) -> str:
    if text.isascii():
        return encode_basestring(text)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", encode_basestring(text))


def _format_member(key: object, value: object, line: str) -> str:
    if isinstance(key, int):
        return f"{key}:{_format(value, line)}"
    return f"{line}{_format_text(str(key))}:{_format(value, line)}"
