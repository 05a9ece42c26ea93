from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.model.hashing import java_hash, key_hash


def hash_by_definition(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "big")) % 2**32
    return value - 2**32 if value >= 2**31 else value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("pay_success", -444633236),
        ("😀", 1772899),
        ("polygenelubricants", -(2**31)),
    ],
)
def test_known_texts_have_the_hash_that_java_gives_them(text: str, expected: int) -> None:
    assert java_hash(text) == expected


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=300))
def test_ascii_is_hashed_as_defined(text: str) -> None:
    assert java_hash(text) == hash_by_definition(text)


@given(st.text(alphabet=st.characters(), max_size=80))
def test_any_text_is_hashed_as_defined_even_half_a_character(text: str) -> None:
    assert java_hash(text) == hash_by_definition(text)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 127, 128, 129, 1000])
def test_the_highest_characters_do_not_spill_over_at_any_length(size: int) -> None:
    text = "\x7f" * size
    assert java_hash(text) == hash_by_definition(text)


def test_equal_hashes_of_different_texts_stay_equal() -> None:
    assert java_hash("Aa") == java_hash("BB")


def test_a_key_is_hashed_together_with_its_topic() -> None:
    assert key_hash("TopicTest", "k1") == 2746024


@given(st.text(max_size=20), st.text(max_size=60))
def test_a_key_hash_is_never_negative(topic: str, key: str) -> None:
    value = key_hash(topic, key)
    assert 0 <= value < 2**31
    assert value in (abs(hash_by_definition(f"{topic}#{key}")), 0)


def test_the_one_hash_without_a_positive_twin_becomes_zero() -> None:
    topic, key = "t", key_that_hashes_to_the_minimum("t")
    assert java_hash(f"{topic}#{key}") == -(2**31)
    assert key_hash(topic, key) == 0


def key_that_hashes_to_the_minimum(topic: str) -> str:
    """Seven characters are enough to reach any hash: digits of the difference to base 31."""
    head = f"{topic}#"
    rest = (-(2**31) - hash_by_definition(head + "A" * 7)) % 2**32
    characters = []
    for _ in range(7):
        rest, digit = divmod(rest, 31)
        characters.append(chr(ord("A") + digit))
    return "".join(reversed(characters))
