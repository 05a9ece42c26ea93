"""Limits of a stream's batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from embermq_spark.admission import Limits, Patience, spread


class StoppedClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.time_s = 100.0

    def now_ms(self) -> int:
        return int(self.time_s * 1000)

    def monotonic(self) -> float:
        return self.time_s


@given(st.dictionaries(st.integers(), st.integers(0, 10_000), max_size=20), st.integers(1, 20_000))
def test_shares_stay_within_the_limit_and_leave_no_queue_out(available: dict[int, int], limit: int) -> None:
    shares = spread(available, limit)
    filled = sum(1 for count in available.values() if count)
    assert shares.keys() == available.keys()
    assert sum(shares.values()) == min(sum(available.values()), max(limit, filled))
    assert all(min(count, 1) <= shares[key] <= count for key, count in available.items())


def test_shares_are_in_proportion() -> None:
    assert spread({"a": 900, "b": 90, "c": 10, "d": 0}, 100) == {"a": 90, "b": 9, "c": 1, "d": 0}


def test_few_messages_wait_for_more_but_not_for_ever() -> None:
    clock = StoppedClock()
    patience = Patience(Limits(max_offsets=None, max_bytes=None, min_offsets=10, max_wait_ms=2_000), clock)
    assert not patience.is_over(9)
    assert patience.is_over(10)
    clock.time_s += 1.999
    assert not patience.is_over(9)
    clock.time_s += 0.001
    assert patience.is_over(9)
    assert not patience.is_over(9)


def test_without_a_minimum_nothing_waits() -> None:
    assert Patience(Limits(None, None, None, 1_000), StoppedClock()).is_over(0)
