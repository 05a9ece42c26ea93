"""Finds entries by time. Pure: times come from a function, so any kind of queue can be searched.

Times rise with the index. An entry that has no time, because its record is gone, counts
as earlier than every time: the log loses its oldest records first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Final

_BEFORE_ALL: Final = -(2**63) - 1


def first_at_or_after(time_ms: int, begin: int, end: int, time_at: Callable[[int], int | None]) -> int:
    """The first index of [begin, end) with a time of at least `time_ms`; `end` if there is none."""
    return bisect_left(range(end), time_ms, lo=begin, hi=end, key=lambda index: _known(time_at(index)))


def last_at_or_before(time_ms: int, begin: int, end: int, time_at: Callable[[int], int | None]) -> int:
    """The last index of [begin, end) with a time of at most `time_ms`; `begin - 1` if there is none."""
    return bisect_right(range(end), time_ms, lo=begin, hi=end, key=lambda index: _known(time_at(index))) - 1


def _known(time_ms: int | None) -> int:
    return _BEFORE_ALL if time_ms is None else time_ms
