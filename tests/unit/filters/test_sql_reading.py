"""Texts that are refused: where, and what was expected there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import IllegalFilter
from embermq.filters import parse_sql
from embermq.filters.sql_building import DEEPEST
from embermq.filters.sql_reading import LONGEST, MOST_CONSTANTS


def refusal(text: str) -> IllegalFilter:
    with pytest.raises(IllegalFilter) as caught:
        parse_sql(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ("a > > 5", 4, ["column 5", "found >", "a property", "a number", "NOT"]),
        ("a = 'x", 4, ["column 5", "has no end", "another single quote"]),
        ("a 'x'", 2, ["column 3", "found 'x'", "AND"]),
        ("a = 5 b", 6, ["column 7", "found b", "AND", "OR", "the end"]),
        ("(a = 5", 6, ["column 7", "the text ends here", "expected )"]),
        ("a\n  = = 5", 6, ["line 2, column 5", "found =", "equal is written once"]),
        ("a IN (5)", 6, ["column 7", "expected a text in single quotes"]),
        ("a IN ('5'", 9, ["column 10", "expected , or )"]),
        ("a IS 5", 5, ["column 6", "expected NOT or NULL"]),
        ("a != 5", 2, ["column 3", "found !=", "unequal is <>"]),
        ('a = "5"', 4, ["column 5", "single quotes"]),
        ("a LIKE '5%'", 2, ["column 3", "no LIKE", "STARTSWITH"]),
        ("a + 1 = 2", 2, ["column 3", "no arithmetic"]),
        ("a.b = 1", 1, ["column 2", "letters, digits, _ and $"]),
        ("a = 1 || b = 2", 6, ["column 7", "use OR"]),
        ("", 0, ["column 1", "the text ends here"]),
        ("x = 'äöü' AND 5", 14, ["column 15", "expected a condition"]),
        ("a = 1 AND b > 'x'", 14, ["column 15", "must be a number or a property"]),
        ("a = NULL", 4, ["column 5", "IS NULL"]),
        ("TRUE = 5", 0, ["column 1", "conditions and properties"]),
        ("a < 0.0", 4, ["column 5", "0.0", "use 0"]),
        ("a < 1e999", 4, ["column 5", "1.7976931348623157E308"]),
        ("a < 9223372036854775808", 4, ["column 5", "at most 9223372036854775807"]),
        ("a BETWEEN 9 AND 1", 10, ["column 11", "smaller first"]),
        ("5 IN ('5')", 0, ["column 1", "name of one"]),
        ("a = '\ud800'", 5, ["column 6", "half of a character"]),
    ],
)
def test_a_refusal_names_the_place_and_what_was_expected(text: str, at: int, words: list[str]) -> None:
    refused = refusal(text)
    assert refused.at == at
    assert [word for word in words if word not in str(refused)] == []


def test_a_refusal_shows_only_the_beginning_of_a_long_text() -> None:
    assert len(str(refusal("a = 5 AND " * 1000))) < 500


def test_a_text_of_the_largest_size_is_read_and_a_larger_one_refused() -> None:
    largest = "a = 5".ljust(LONGEST)
    assert parse_sql(largest).matches({"a": "5"})
    assert f"{LONGEST + 1} characters, limit {LONGEST}" in str(refusal(largest + " "))


def test_as_many_constants_as_the_limit_are_read_and_one_more_refused() -> None:
    many = ",".join(["'x'"] * (MOST_CONSTANTS - 1))
    assert parse_sql(f"a IN ({many}, 'y')").matches({"a": "y"})
    assert f"more than {MOST_CONSTANTS} constants" in str(refusal(f"a IN ({many}, 'y', 'z')"))


@pytest.mark.parametrize(("opening", "closing"), [("NOT ", ""), ("-(", ") IS NULL"), ("(a = 6 OR ", ")")])
def test_levels_up_to_the_limit_are_read_and_looked_at_and_more_refused(opening: str, closing: str) -> None:
    def nested(times: int) -> str:
        return f"{opening * times}(a){closing * times}"

    levels = next(times for times in range(DEEPEST + 1) if not is_read(nested(times + 1)))
    assert DEEPEST // 3 <= levels < DEEPEST
    parse_sql(nested(levels)).evaluate({"a": "5"})
    assert f"more than {DEEPEST} levels" in str(refusal(nested(levels + 1)))


def is_read(text: str) -> bool:
    try:
        parse_sql(text)
    except IllegalFilter:
        return False
    return True


def test_parentheses_and_long_chains_are_no_levels() -> None:
    assert parse_sql("(" * 5000 + "a = 5" + ")" * 5000).matches({"a": "5"})
    assert parse_sql(" OR ".join(["a"] * 8000 + ["a = 5"])).matches({"a": "5"})


@pytest.mark.parametrize("times", [10, 32])
def test_betweens_inside_each_other_are_looked_at_once(times: int) -> None:
    text = "a"
    for _ in range(times):
        text = f"-(({text}) BETWEEN 1 AND 2)"
    assert parse_sql(f"{text} IS NULL").evaluate({"a": "1"}) is True


@given(st.text(st.sampled_from("ab'5.0eL=<>()-+*/ \n,!NOTANDORISUL€"), max_size=60))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        parse_sql(text)
    except IllegalFilter as refused:
        assert refused.at is not None and 0 <= refused.at <= len(text)
