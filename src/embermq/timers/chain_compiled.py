"""Chains of units followed by a kernel, thousands at a time. Only loaded where kernels are."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Final

import numpy as np

from embermq.kernels.memory import address_of
from embermq.kernels.timer_units import follow_units
from embermq.timers.unit_log import UnitLog

_AT_ONCE: Final = 4096


class CompiledChain:
    """Follows chains in the units of one timer. Used in one thread."""

    def __init__(self, units: UnitLog) -> None:
        self._units = units
        self._places = np.zeros(_AT_ONCE, np.int64)
        self._codes = np.zeros(_AT_ONCE, np.int64)

    def follow(self, place: int, most: int, places: array[int], counts: Counter[int]) -> tuple[int, int]:
        """Go back over usual units, `most` at most, and note them; how many, and the place to go on with."""
        found = self._units.select_file(place)
        if found is None:
            return 0, place
        start, data = found
        size = min(most, _AT_ONCE)
        count, after = follow_units(address_of(data), len(data), start, place, self._places[:size], self._codes[:size])
        places.frombytes(self._places[:count].tobytes())
        codes, each = np.unique(self._codes[:count], return_counts=True)
        for code, number in zip(codes.tolist(), each.tolist(), strict=True):
            counts[code] += number
        return count, after
