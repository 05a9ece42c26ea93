"""Records that kernels find in a stretch of the log, and keys of them that were staged.

Only loaded where kernels are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.kernels.columns import KEY_WIDTH, RECORD_POSITION, RECORD_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.dispatch import find_codes_and_keys
from embermq.kernels.found_records import FoundRecords, find_known
from embermq.kernels.memory import address_of
from embermq.kernels.record_check import count_named
from embermq.kernels.record_scan import LAST_POSITION, scan_records

_ROOM: Final = 16_384  # records looked for at a time


def find_records(data: memoryview, at: int, stop: int, start: int, *, with_keys: bool) -> FoundRecords | None:
    """The next records that begin in bytes [at, stop) of `data`, which begins at position `start`.

    None if plain code must look at what is there. Without `with_keys`, nobody wants to know their keys.
    """
    rows = np.empty((_ROOM, RECORD_WIDTH), np.int64)
    address, size = address_of(data) + at, len(data) - at
    count, _, _ = scan_records(address, size, start + at, False, rows)
    count = min(count, int(np.searchsorted(rows[:count, RECORD_POSITION], start + stop)))
    count = count_named(address, size, start + at, rows[:count], False)
    if not count:
        return None
    if with_keys:
        return find_known(address, data[at:], rows[:count])
    codes, keys = np.empty(count, np.int64), np.empty((0, KEY_WIDTH), np.int64)
    done, _, _ = find_codes_and_keys(address, size, rows[:count], LAST_POSITION, codes, keys)
    return FoundRecords(data[at:], rows[:done], codes[:done], keys) if done else None


def read_keys(path: str, begin: int, count: int) -> Table:
    """`count` keys of a staging file, from number `begin` on."""
    numbers = np.fromfile(path, np.int64, KEY_WIDTH * count, offset=begin * KEY_WIDTH * 8)
    return numbers.reshape(count, KEY_WIDTH)
