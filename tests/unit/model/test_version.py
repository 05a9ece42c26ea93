from __future__ import annotations

from itertools import pairwise

from embermq.model.version import DataVersion


def test_a_change_counts_one_up_and_takes_the_time() -> None:
    assert DataVersion(7, 3, 1000).next(2000) == DataVersion(0, 4, 2000)
    assert DataVersion(7, 3, 1000).next(2000, state_version=8) == DataVersion(8, 4, 2000)


def test_the_state_version_counts_before_the_counter_and_the_counter_before_the_time() -> None:
    ascending = [
        DataVersion(0, 1, 9),
        DataVersion(0, 2, 1),
        DataVersion(0, 2, 5),
        DataVersion(1, 0, 0),
    ]
    assert all(older < newer for older, newer in pairwise(ascending))
