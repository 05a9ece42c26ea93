"""The queues of many records, each named once."""

from __future__ import annotations

import pytest

pytest.importorskip("numba")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from embermq.kernels.placing import list_places

ROOM = 8


def listed(places: list[int]) -> list[int] | None:
    """What is listed; None if there are too many."""
    found = np.full(ROOM + 2, -7, np.int64)
    count = list_places(np.array(places, np.int64), found[1 : ROOM + 1])
    assert found[0] == found[ROOM + 1] == -7
    return None if count < 0 else found[1 : 1 + count].tolist()


@given(st.lists(st.integers(0, ROOM + 2).map(lambda number: number * 8), max_size=60))
def test_each_place_is_listed_once_in_the_order_they_come_in(places: list[int]) -> None:
    expected = list(dict.fromkeys(places))
    assert listed(places) == (expected if len(expected) <= ROOM else None)


def test_as_many_as_there_is_room_for_are_listed() -> None:
    assert listed(list(range(ROOM))) == list(range(ROOM))
    assert listed(list(range(ROOM + 1))) is None
