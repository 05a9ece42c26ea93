"""What SQL92 filters mean: as RocketMQ said, and how one is used."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from embermq.filters import SqlFilter, parse_sql
from embermq.filters.sql_numbers import NotComparable
from tests.filter_answers import our_answers
from tests.filter_cases import MESSAGES, recorded


@pytest.mark.parametrize("case", recorded(), ids=lambda case: repr(case["sql"]))
def test_a_filter_means_what_rocketmq_recorded(case: dict[str, Any]) -> None:
    assert repr(our_answers(case["sql"], MESSAGES)) == repr(case["answers"])  # 1 == True


def test_a_message_matches_only_if_the_expression_is_true() -> None:
    wanted = parse_sql("amount > 100")
    messages = [{"amount": "101"}, {"amount": "100"}, {"amount": "much"}, {}]
    assert [wanted.matches(message) for message in messages] == [True, False, False, False]
    assert [wanted.evaluate(message) for message in messages] == [True, False, None, None]


def test_what_cannot_be_compared_can_be_asked_for() -> None:
    with pytest.raises(NotComparable, match="'much' is no whole number"):
        parse_sql("amount > 100").evaluate_strictly({"amount": "much"})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a > 5 AND NOT (b = 'x' OR c) OR d IN ('x')", {"a", "b", "c", "d"}),
        ("-(a = 1) IS NULL AND b CONTAINS 'x' = c", {"a", "b", "c"}),
        ("A BETWEEN a AND 3", {"A", "a"}),
        ("TRUE", set()),
    ],
)
def test_a_filter_knows_the_properties_it_looks_at(text: str, names: set[str]) -> None:
    assert parse_sql(text).names == names


def test_a_filter_asks_for_no_other_property() -> None:
    class Asked(dict[str, str]):
        def get(self, name: str, default: Any = None) -> Any:
            asked.add(name)
            return super().get(name, default)

    asked: set[str] = set()
    assert parse_sql("a = '1' OR b = '2'").matches(Asked(a="1", b="2"))
    assert asked == {"a"}


def test_a_filter_travels_and_is_equal_to_itself() -> None:
    wanted = parse_sql("a > 5")
    again = pickle.loads(pickle.dumps(wanted))
    assert again == wanted == SqlFilter("a > 5") != SqlFilter("a > 6")
    assert hash(again) == hash(SqlFilter("a > 5"))
    assert again.matches({"a": "6"})
    assert repr(again) == "SqlFilter('a > 5')"


def test_a_text_is_read_once() -> None:
    assert parse_sql("a > 7") is parse_sql("a > 7")
