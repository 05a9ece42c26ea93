from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from embermq.errors import IllegalProperty
from embermq.model.properties import (
    ASKABLE,
    DELAY,
    KEYS,
    PROPERTY_CRC,
    RESERVED,
    TAGS,
    UNIQ_KEY,
    check_property,
    find_property,
    format_properties,
    parse_properties,
)

# Characters that separate are frequent, so that odd places of them are tried.
pieces = st.text(alphabet=st.sampled_from("ab\x01\x02é"), max_size=12)
legal = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1)


def parse_by_the_rules(text: str) -> dict[str, str]:
    found = {}
    for piece in text.split("\x02"):
        separator = piece.find("\x01")
        if len(piece) >= 3 and separator >= 1 and separator < len(piece) - 1:
            found[piece[:separator]] = piece[separator + 1 :]
    return found


@given(st.dictionaries(legal, legal))
def test_properties_come_back_in_their_order(properties: dict[str, str]) -> None:
    parsed = parse_properties(format_properties(properties))
    assert parsed == properties
    assert list(parsed) == list(properties)


def test_the_text_form_ends_every_value() -> None:
    assert format_properties({"KEYS": "k1 k2", "TAGS": "TagA"}) == b"KEYS\x01k1 k2\x02TAGS\x01TagA\x02"
    assert format_properties({}) == b""


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", {}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"a\x01\x02", {}),
        (b"\x01b\x02", {}),
        (b"\x01b\x01c\x02", {}),
        (b"ab\x02", {}),
        (b"a\x01b\x01c\x02", {"a": "b\x01c"}),
        (b"a\x011\x02a\x012\x02", {"a": "2"}),
        (b"a\x011\x02a\x01\x02", {"a": "1"}),
        (b"\x02\x02a\x01b\x02\x02", {"a": "b"}),
    ],
)
def test_pieces_that_are_no_property_count_for_nothing(data: bytes, expected: dict[str, str]) -> None:
    assert parse_properties(data) == expected


@given(pieces)
def test_any_text_is_parsed_by_the_rules(text: str) -> None:
    assert parse_properties(text.encode()) == parse_by_the_rules(text)


@given(pieces, st.sampled_from(["a", "b", "aa", "é", "ab", "ba"]))
@example("a\x011\x02a\x01\x02", "a")
@example("a\x01\x02a\x01\x02", "a")
@example("b\x01x\x02a\x011\x02a\x01\x02", "a")
@example("a\x010\x02a\x011\x02a\x01\x02a\x01", "a")
@example("b\x01a\x01x", "a")
@example("ba\x01x\x02", "a")
def test_a_single_look_up_finds_what_parsing_finds(text: str, name: str) -> None:
    found = find_property(text.encode(), name.encode())
    assert found == (parse_properties(text.encode()).get(name, "").encode() or None)


@given(st.binary(max_size=40), st.binary(max_size=4))
def test_a_single_look_up_takes_any_bytes(data: bytes, name: bytes) -> None:
    found = find_property(data, name)
    assert found is None or found in data


def test_a_value_without_a_name_is_not_found_under_the_empty_name() -> None:
    data = b"\x01x\x02\x01y\x02"
    assert find_property(data, b"") is None
    assert parse_properties(data) == {}


@pytest.mark.parametrize("name", [KEYS, TAGS, UNIQ_KEY])
def test_a_known_name_is_found_first_last_and_in_the_middle(name: str) -> None:
    wanted = f"{name}\x01value\x02".encode()
    other = b"x\x01y\x02"
    for data in (wanted, wanted + other, other + wanted, other + wanted + other, wanted[:-1]):
        assert find_property(data, name.encode()) == b"value"
    assert find_property(other, name.encode()) is None


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        parse_properties(b"a\x01\xff\x02")


@given(legal.filter(lambda name: name not in RESERVED and not name.startswith("__RMQ.")), legal)
def test_what_passes_the_check_comes_back_as_it_was(name: str, value: str) -> None:
    check_property(name, value)
    assert parse_properties(format_properties({name: value})) == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("", "x"),
        ("x", ""),
        ("a\x01b", "x"),
        ("a\x02b", "x"),
        ("x", "a\x01b"),
        ("x", "a\x02b"),
        ("x", "\ud800"),
        (KEYS, "k1"),
        (TAGS, "TagA"),
        (PROPERTY_CRC, "0123456789"),
        ("__RMQ.TRANSIENT.x", "x"),
    ],
)
def test_what_would_be_lost_or_mistaken_is_refused(name: str, value: str) -> None:
    with pytest.raises(IllegalProperty):
        check_property(name, value)


def test_users_may_ask_for_a_delay() -> None:
    check_property(DELAY, "3")


def test_a_name_is_either_the_systems_or_the_users_to_set() -> None:
    assert not ASKABLE & RESERVED
