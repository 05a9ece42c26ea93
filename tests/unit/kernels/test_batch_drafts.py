"""Drafts of bodies that lie side by side: each is told its part of the memory, and what all have in common."""

from __future__ import annotations

from array import array
from random import Random

import numpy as np
import pytest

from embermq.kernels.batch_drafts import place_bodies, share_out
from embermq.kernels.columns import (
    DRAFT_BODY_AT,
    DRAFT_BODY_SIZE,
    DRAFT_BORN_TIME,
    DRAFT_PROPERTIES_SIZE,
    DRAFT_QUEUE,
    DRAFT_SYS_FLAG,
    DRAFT_WIDTH,
)
from embermq.kernels.memory import address_of
from tests.unit.kernels.kernel_builders import CASES, NUMBERS, run_cases, table


def place_plainly(ends: list[int], size: int, room: int) -> list[tuple[int, int]]:
    placed: list[tuple[int, int]] = []
    for begin, end in zip([0, *ends], ends[:room], strict=False):
        if not begin <= end <= size:
            break
        placed.append((begin, end - begin))
    return placed


@pytest.mark.parametrize("count", CASES)
def test_bodies_are_placed_up_to_the_first_that_cannot_be(count: int) -> None:
    def case(random: Random) -> int:
        ends = sorted(random.randrange(5_000) for _ in range(random.randrange(1, 40)))
        size = random.choice((ends[-1], 5_000, random.randrange(5_000)))
        if random.random() < 0.5:
            ends[random.randrange(len(ends))] = random.choice((*NUMBERS, size, size + 1))
        drafts = table(random.choice((len(ends), random.randrange(40))), DRAFT_WIDTH)
        expected = place_plainly(ends, size, len(drafts))
        numbers = array("q", ends)
        placed, largest = place_bodies(address_of(numbers), len(numbers), size, drafts)
        assert drafts[:placed, [DRAFT_BODY_AT, DRAFT_BODY_SIZE]].tolist() == [list(place) for place in expected]
        assert largest == max((body_size for _, body_size in expected), default=0)
        assert not drafts[placed:].any()
        return len(ends)

    assert run_cases(count, 1, case) >= count


@pytest.mark.parametrize(("queue", "queues"), [(0, 1), (0, 3), (2, 3), (1, 4), (5, 0), (0, 0)])
def test_queues_take_turns_unless_all_go_to_one(queue: int, queues: int) -> None:
    drafts = table(9, DRAFT_WIDTH)
    share_out(drafts, queue, queues, 7, 1_700_000_000_123, 16)
    turns = np.arange(queue, queue + 9) % queues if queues else np.full(9, queue)
    assert drafts[:, DRAFT_QUEUE].tolist() == turns.tolist()
    for column, value in ((DRAFT_PROPERTIES_SIZE, 7), (DRAFT_BORN_TIME, 1_700_000_000_123), (DRAFT_SYS_FLAG, 16)):
        assert set(drafts[:, column].tolist()) == {value}


def test_tables_of_another_width_are_left_alone() -> None:
    drafts, numbers = table(3, DRAFT_WIDTH - 1), array("q", [1, 2, 3])
    assert place_bodies(address_of(numbers), 3, 3, drafts) == (0, 0)
    share_out(drafts, 1, 3, 1, 1, 1)
    assert not drafts.any()
