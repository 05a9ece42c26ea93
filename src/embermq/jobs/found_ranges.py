"""Records that kernels find in a stretch of the log, and keys of them that were staged.

Only loaded where kernels are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.kernels.columns import KEY_WIDTH, RECORD_POSITION, RECORD_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.found_records import FoundRecords, find_known
from embermq.kernels.memory import address_of
from embermq.kernels.record_check import count_named
from embermq.kernels.record_scan import scan_records

_ROOM: Final = 16_384  # records looked for at a time


def find_records(data: memoryview, at: int, stop: int, start: int) -> FoundRecords | None:
    """The next records that begin in bytes [at, stop) of `data`, which begins at position `start`.

    None if plain code must look at what is there.
    """
    rows = np.empty((_ROOM, RECORD_WIDTH), np.int64)
    address, size = address_of(data) + at, len(data) - at
    count, _, _ = scan_records(address, size, start + at, False, rows)
    count = min(count, int(np.searchsorted(rows[:count, RECORD_POSITION], start + stop)))
    count = count_named(address, size, start + at, rows[:count], False)
    return find_known(address, data[at:], rows[:count]) if count else None


def read_keys(path: str, begin: int, count: int) -> Table:
    """`count` keys of a staging file, from number `begin` on."""
    numbers = np.fromfile(path, np.int64, KEY_WIDTH * count, offset=begin * KEY_WIDTH * 8)
    return numbers.reshape(count, KEY_WIDTH)
