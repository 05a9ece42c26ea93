"""Filters over columns: the same answers as for one message at a time, whatever the columns look like."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.filters import parse_filter, parse_sql
from tests.filter_answers import map_column, our_answers, our_batch_answers
from tests.filter_cases import MESSAGES, VALUES, chance_message, chance_text, recorded

pa = pytest.importorskip("pyarrow")
from embermq.filters.property_table import PropertyTable  # noqa: E402  # it needs pyarrow


def mask(text: str, *arguments: Any, **known: Any) -> list[bool | None]:
    answers: list[bool | None] = parse_filter(text).mask(PropertyTable(*arguments, **known)).to_pylist()
    return answers


@pytest.mark.parametrize("case", [case for case in recorded() if case["answers"]], ids=lambda case: repr(case["sql"]))
def test_a_filter_means_for_a_batch_what_rocketmq_recorded(case: dict[str, Any]) -> None:
    assert repr(our_batch_answers(case["sql"], MESSAGES)) == repr(case["answers"])


@given(st.randoms(use_true_random=False))
def test_a_batch_gives_what_its_messages_give_one_by_one(random: Random) -> None:
    messages = [chance_message(random) for _ in range(random.randint(0, 8))]
    for text in [chance_text(random) for _ in range(4)]:
        one_by_one = our_answers(text, messages)
        if one_by_one is not None:
            assert repr(our_batch_answers(text, messages)) == repr(one_by_one)
            assert mask(f"({text})", len(messages), map_column(messages)) == [each is True for each in one_by_one]


NEARLY_NUMBERS = st.text(st.sampled_from("0123456789+-.eExXpPdfNaInty _\t٣５𝟓"), max_size=24) | st.sampled_from(VALUES)
COMPARED = [
    "a > 5",
    "a = 5",
    "a <= 5000000000",
    "a > 2.5",
    "a = 2.5",
    "a >= b",
    "a < b",
    "a = b",
    "-2.5 >= a",
    "a <> -7",
]


@given(st.lists(st.fixed_dictionaries({"a": NEARLY_NUMBERS, "b": NEARLY_NUMBERS}), max_size=6))
def test_columns_are_read_as_numbers_as_single_texts_are(messages: list[dict[str, str]]) -> None:
    for text in COMPARED:
        assert repr(our_batch_answers(text, messages)) == repr(our_answers(text, messages))


def test_columns_of_plain_numbers_are_compared() -> None:
    messages = [{"a": str(number), "b": str(number / 8)} for number in range(-1000, 1000)]
    for text in ("a > 5", "a BETWEEN -7 AND 9.5", "b < 2.5", "b >= a", "a > 5000000000"):
        assert our_batch_answers(text, messages) == our_answers(text, messages)


def test_known_columns_count_and_need_no_maps() -> None:
    tags, keys = pa.array(["eu", None, "us"]), pa.array(["k1", "k2", None])
    known = {"TAGS": tags, "KEYS": keys}
    assert mask("eu || asia", 3, known=known) == [True, False, False]
    assert mask("TAGS IS NOT NULL AND KEYS STARTSWITH 'k'", 3, known=known) == [True, False, False]
    maps = map_column([{"TAGS": "x", "a": "5"}, {}, {"a": "6"}])
    assert mask("TAGS = 'eu' OR a = 6", 3, maps, known=known) == [True, False, True]


def test_tags_are_picked_from_maps() -> None:
    maps = map_column([{"TAGS": "eu", "x": "1"}, {"TAGS": "us"}, {}, None])
    assert mask("eu", 4, maps) == [True, False, False, False]
    assert mask("*", 4, maps) == [True] * 4


def test_every_shape_of_maps_is_read() -> None:
    messages: list[dict[str, str] | None] = [
        {"a": "1", "b": "x"},
        None,
        {},
        {"b": "y", "a": "2"},
        {"c": "3"},
        {"a": "1"},
    ]
    maps, wanted = map_column(messages), [True, False, False, False, False, True]
    large = pa.array(maps.to_pylist(), pa.map_(pa.large_string(), pa.large_string()))
    chunked = pa.chunked_array([maps.slice(0, 2), maps.slice(2, 0), maps.slice(2)])
    for column in (maps, large, chunked):
        assert mask("a = 1", 6, column) == wanted
        assert mask("a = 1", 3, column.slice(3)) == wanted[3:]
    assert mask("a = 1", 0, maps.slice(6)) == []


def test_of_two_properties_with_one_name_the_later_counts() -> None:
    maps = pa.array([[("a", "1"), ("a", "2")], [("a", "2"), ("a", "1")]], pa.map_(pa.string(), pa.string()))
    assert mask("a = 1", 2, maps) == [False, True]


def test_a_mask_has_no_nulls() -> None:
    for text in ("eu", "*", "a > 5", "missing > 5"):
        answer = parse_filter(text).mask(PropertyTable(2, map_column([{"a": "x"}, {}])))
        assert answer.type == pa.bool_() and answer.null_count == 0


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match="no column 'a'"):
        parse_sql("a = 5").mask(PropertyTable(2, known={"TAGS": pa.array(["x", "y"])}))
    with pytest.raises(ValueError, match="'TAGS' has 1 rows, the table 2"):
        PropertyTable(2, known={"TAGS": pa.array(["x"])})
