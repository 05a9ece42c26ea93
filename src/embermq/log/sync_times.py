"""How long the disk takes to sync, as a histogram."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class SyncSummary(NamedTuple):
    """The times of all syncs so far."""

    counts: tuple[int, ...]  # up to each bound, and above the last; not added up
    total_s: float


class SyncTimes:
    """Collects them. One thread counts, any may ask."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._total_s = 0.0

    def count(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._total_s += seconds

    def summary(self) -> SyncSummary:
        return SyncSummary(tuple(self._counts), self._total_s)
