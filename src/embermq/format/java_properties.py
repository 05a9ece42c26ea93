"""Settings as text: `key=value`, one a line, as Java's properties have them.

A value may go on after a backslash at the end of its line; `#` and `!` begin a comment; a key ends at the first
`=`, `:` or blank that has no backslash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from embermq.errors import CorruptRecord

_KEY: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.?)", re.DOTALL)
_BLANKS: Final = " \t\f"
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_SIZE: Final = 5  # of `uXXXX`


def decode_properties(data: bytes) -> dict[str, str]:
    """The settings of a body; of two with the same key, the later. Raises CorruptRecord if it is not UTF-8."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise CorruptRecord(error.start, "settings: not UTF-8") from error
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    found = {}
    for line in _iter_lines(text):
        key = _KEY.match(line)
        assert key is not None  # it matches nothing, too
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        found[_unescape(key[0])] = _unescape(line[separator.end() :])
    return found


def format_properties(values: Mapping[str, str]) -> str:
    """The settings in the order of their keys, as name servers and brokers tell them: without an escape."""
    return "".join(f"{key}={value}\n" for key, value in sorted(values.items()))


def _iter_lines(text: str) -> Iterator[str]:
    """The lines that say something; those that go on are joined."""
    begun = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(_BLANKS)
        if not begun and line[:1] in ("", "#", "!"):
            continue
        line = begun + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun = line[:-1]
        else:
            begun = ""
            yield line
    if begun:
        yield begun


def _unescape(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        kind = found[1]
        return chr(int(kind[1:], 16)) if len(kind) == _UNICODE_SIZE else _NAMED.get(kind, kind)

    return _ESCAPE.sub(replace, text)
