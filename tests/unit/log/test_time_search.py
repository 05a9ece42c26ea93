"""The two bounds of a time, compared with a plain search."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from embermq.log.time_search import first_at_or_after, last_at_or_before

times = st.lists(st.integers(-3, 9)).map(sorted)


@given(gone=st.integers(0, 5), known=times, begin=st.integers(0, 4), time=st.integers(-4, 10))
def test_both_bounds_are_those_of_a_plain_search(gone: int, known: list[int], begin: int, time: int) -> None:
    entries = [None] * gone + known
    begin = min(begin, len(entries))
    inside = range(begin, len(entries))
    late = [index for index in inside if (each := entries[index]) is not None and each >= time]
    early = [index for index in inside if (each := entries[index]) is None or each <= time]
    end = len(entries)
    assert first_at_or_after(time, begin, end, entries.__getitem__) == min(late, default=end)
    assert last_at_or_before(time, begin, end, entries.__getitem__) == max(early, default=begin - 1)


def test_a_search_looks_at_few_entries() -> None:
    asked: list[int] = []

    def time_at(index: int) -> int:
        asked.append(index)
        return index

    assert first_at_or_after(777_777, 0, 1_000_000, time_at) == 777_777
    assert len(asked) <= 20
