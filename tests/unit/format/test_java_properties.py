"""Settings as Java's properties have them."""

from __future__ import annotations

import pytest

from embermq.errors import CorruptRecord
from embermq.format.java_properties import decode_properties, format_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a=1\nb=2\n", {"a": "1", "b": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# no\n! no\n\n  a = 1 \n", {"a": "1 "}),
        ("a:1\nb 2\nc", {"a": "1", "b": "2", "c": ""}),
        ("a==1\nb=x=y", {"a": "=1", "b": "x=y"}),
        ("a=one\\\n   two\n", {"a": "onetwo"}),
        ("a=end\\", {"a": "end"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\=b=\\u00e4\\t\\q", {"a=b": "ä\tq"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=\\u12", {"a": "u12"}),
    ],
)
def test_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_settings_are_written_in_order_and_read_again() -> None:
    values = {"b": "2", "a": "x;y"}
    assert format_properties(values) == "a=x;y\nb=2\n"
    assert decode_properties(format_properties(values).encode()) == values


def test_what_is_not_utf_8_is_refused() -> None:
    with pytest.raises(CorruptRecord):
        decode_properties(b"a=\xff")
