"""Filters by tags, and which texts they are."""

from __future__ import annotations

import pickle

import pytest

from embermq.errors import IllegalFilter
from embermq.filters import SqlFilter, TagExpression, parse_filter, parse_tags


def test_a_message_with_one_of_the_tags_is_wanted() -> None:
    wanted = parse_filter("eu || us")
    messages = [{"TAGS": "eu"}, {"TAGS": "us"}, {"TAGS": "asia"}, {"TAGS": "eu || us"}, {}]
    assert [wanted.matches(message) for message in messages] == [True, True, False, False, False]
    assert [wanted.evaluate(message) for message in messages] == [True, True, False, False, False]
    assert wanted.names == {"TAGS"}


def test_a_star_wants_every_message_and_looks_at_nothing() -> None:
    wanted = parse_filter("*")
    assert wanted.matches({"TAGS": "eu"}) and wanted.matches({})
    assert wanted.names == frozenset()


def test_a_star_beside_tags_is_a_tag() -> None:
    wanted = parse_filter("eu || *")
    assert [wanted.matches({"TAGS": tag}) for tag in ("eu", "*", "us")] == [True, True, False]


@pytest.mark.parametrize(
    "text", ["*", "eu", "eu||us", " eu || us ", "eu ||", "a.b-c/d:e", "ä", "5", "TRUE", "a+b", "-x", "eu*"]
)
def test_words_are_tags(text: str) -> None:
    assert isinstance(parse_filter(text), TagExpression)


@pytest.mark.parametrize("text", ["a = 5", "a=5", "(TRUE)", "NOT a", "a IS NULL", "a IN('x')", "a = 'x || y'", "a <5"])
def test_everything_else_is_sql(text: str) -> None:
    assert isinstance(parse_filter(text), SqlFilter)


@pytest.mark.parametrize("text", ["", " ", "||", "eu | us", "eu us", "eu || 'us'", "eu,us", "|| ||"])
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(IllegalFilter):
        parse_filter(text)


def test_only_tags_are_parsed_as_tags() -> None:
    with pytest.raises(IllegalFilter, match=r"no tag expression; expected words joined by \|\|"):
        parse_tags("a = 5")


def test_a_tag_expression_travels() -> None:
    wanted = parse_tags("eu || us")
    assert pickle.loads(pickle.dumps(wanted)) == wanted
