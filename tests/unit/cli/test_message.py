"""How one message is shown."""

from __future__ import annotations

import json

from embermq.cli.message import body_lines, message_facts, message_line
from embermq.client.incoming import decode_messages
from embermq.model.message import StoredMessage
from tests.unit.client.test_incoming import a_record


def a_stored(body: bytes = b"hello") -> StoredMessage:
    properties = {"TAGS": "eu", "KEYS": "o-1 o-2", "UNIQ_KEY": "U1", "amount": "12"}
    (message,) = decode_messages(a_record(body, properties=properties))
    return message


def test_a_line_has_time_place_marks_and_body() -> None:
    assert message_line(a_stored()) == "2023-11-14T22:13:20.123Z  orders/2/7 tags=eu keys=o-1,o-2  hello"


def test_a_line_with_the_id_has_the_beginning_of_the_body_alone() -> None:
    line = message_line(a_stored(b"x" * 100), with_id=True)
    assert "id=7F00000100002A9F0000000000001000" in line
    assert line.endswith("x" * 60 + "… 100 bytes")
    assert not line.endswith("x" * 61 + "… 100 bytes")


def test_facts_are_json_whatever_the_body_is() -> None:
    facts = json.loads(json.dumps(message_facts(a_stored())))
    assert (facts["body"], facts["keys"], facts["uniqueKey"]) == ("hello", ["o-1", "o-2"], "U1")
    binary = message_facts(a_stored(b"\xff\x00"))
    assert binary["bodyHex"] == "ff00"
    assert "body" not in binary


def test_a_body_is_shown_as_text_json_or_hexadecimal() -> None:
    assert body_lines(b"two\nlines") == ["two", "lines"]
    assert body_lines(b'{"a":[1]}') == ["{", '  "a": [', "    1", "  ]", "}"]
    assert body_lines(b"{no json") == ["{no json"]
    assert body_lines(b"\xff" * 33) == [" ".join(["ff"] * 32), "ff"]
