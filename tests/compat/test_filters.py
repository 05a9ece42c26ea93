"""Our filters beside RocketMQ's own: the same texts are refused, and the same messages wanted.

One difference is meant: RocketMQ ignores what follows a whole expression, and we refuse it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from embermq.filters import parse_tags
from embermq.model.subscription import is_tag_expression
from tests.compat.filter_tool import FilterTool, ask_table
from tests.filter_answers import our_answers, our_batch_answers
from tests.filter_cases import chance_message, chance_nonsense, chance_text, recorded

SOME, MANY = 3_000, 60_000
MESSAGES_EACH = 6


@pytest.fixture(scope="module")
def count(request: pytest.FixtureRequest) -> int:
    return MANY if request.config.getoption("--all") else SOME


@pytest.fixture
def random(request: pytest.FixtureRequest) -> Random:
    """The same chance every time; another with --all, whose seed is shown if the test fails."""
    seed = Random().randrange(2**32) if request.config.getoption("--all") else 1
    print(f"seed {seed}")
    return Random(seed)


def test_the_recorded_answers_are_rocketmqs(filter_tool: FilterTool) -> None:
    assert ask_table(filter_tool) == recorded()


Answers = Callable[[str, Sequence[dict[str, str]]], Any]


def differences(tool: FilterTool, texts: list[str], random: Random, answers_of: Answers) -> list[object]:
    """Filters that are not the same here and there, with RocketMQ's answers and ours."""
    asked = [(text, [chance_message(random) for _ in range(MESSAGES_EACH)]) for text in texts]
    found = []
    for (text, messages), theirs in zip(asked, tool.many(asked), strict=True):
        ours = answers_of(text, messages)
        expected = theirs.answers if theirs.is_whole else None
        if repr(ours) != repr(expected):  # 1 == True
            found.append((text, messages, expected, ours))
    return found


def test_filters_made_by_chance_mean_the_same(filter_tool: FilterTool, count: int, random: Random) -> None:
    texts = [chance_text(random) for _ in range(count)]
    assert differences(filter_tool, texts, random, our_answers) == []


def test_they_mean_the_same_for_a_batch(filter_tool: FilterTool, count: int, random: Random) -> None:
    pytest.importorskip("pyarrow")
    texts = [text for text in (chance_text(random) for _ in range(count)) if our_answers(text, []) is not None]
    assert differences(filter_tool, texts, random, our_batch_answers) == []


def test_of_texts_with_mistakes_the_same_are_refused(filter_tool: FilterTool, count: int, random: Random) -> None:
    texts = [chance_nonsense(random) for _ in range(count)]
    assert differences(filter_tool, texts, random, our_answers) == []


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "eu",
        "eu || us",
        " eu||us ",
        "eu || eu",
        "|| eu",
        "eu ||",
        "eu || || us",
        "eu || *",
        "a.b-c/d",
        "ä || €",
        "1 || 2",
    ],
)
def test_a_tag_expression_means_the_same(filter_tool: FilterTool, text: str) -> None:
    assert is_tag_expression(text)
    assert sorted(parse_tags(text).wanted.tags) == filter_tool.tags(text)
