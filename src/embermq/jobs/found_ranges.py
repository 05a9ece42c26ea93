"""Records that kernels find in a stretch of the log, and keys of them that were staged.

Only loaded where kernels are.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.kernels.columns import (
    KEY_WIDTH,
    RECORD_BODY_AT,
    RECORD_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_SIZE,
    RECORD_TOPIC_AT,
    RECORD_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.dispatch import find_codes_and_keys
from embermq.kernels.found_records import KEYS_PER_RECORD, FoundRecords
from embermq.kernels.memory import address_of
from embermq.kernels.record_check import count_named
from embermq.kernels.record_scan import LAST_POSITION, scan_records

_ROOM: Final = 16_384  # records looked for at a time
_NEAR: Final = 2_048  # of them that one kernel after the other looks at, while their bytes are near
_PLACES: Final = [RECORD_TOPIC_AT, RECORD_BODY_AT, RECORD_PROPERTIES_AT]


def find_records(
    data: memoryview, at: int, stop: int, start: int, *, with_keys: bool, check_bodies: bool = False
) -> FoundRecords | None:
    """The next records that begin in bytes [at, stop) of `data`, which begins at position `start`.

    None if plain code must look at what is there. Without `with_keys`, nobody wants to know their keys.
    """
    rows, codes = np.empty((_ROOM, RECORD_WIDTH), np.int64), np.empty(_ROOM, np.int64)
    keys = np.empty((KEYS_PER_RECORD * _ROOM if with_keys else 0, KEY_WIDTH), np.int64)
    address, count, key_count, size = address_of(data), 0, 0, 0
    while count < _ROOM:
        near = rows[count : count + _NEAR]
        named = _find_near(address, at + size, stop, len(data), start, near, check_bodies)
        found, more, _ = find_codes_and_keys(
            address + at + size, len(data) - at - size, near[:named], -1 if with_keys else LAST_POSITION,
            codes[count:], keys[key_count:],
        )  # fmt: skip
        near[:found][:, _PLACES] += size
        count, key_count = count + found, key_count + more
        if found < _NEAR:
            break
        size = int(near[-1, RECORD_POSITION] + near[-1, RECORD_SIZE]) - start - at
    return FoundRecords(data[at:], rows[:count], codes[:count], keys[:key_count]) if count else None


def _find_near(address: int, at: int, stop: int, end: int, start: int, rows: Table, check_bodies: bool) -> int:
    """Fill `rows` with the records that begin in bytes [at, stop); how many. Their places count from `at`."""
    address, size, position = address + at, end - at, start + at
    count, _, _ = scan_records(address, size, position, check_bodies, rows)
    count = min(count, int(np.searchsorted(rows[:count, RECORD_POSITION], start + stop)))
    return count_named(address, size, position, rows[:count], False)


def read_keys(path: str, begin: int, count: int) -> Table:
    """`count` keys of a staging file, from number `begin` on."""
    numbers = np.fromfile(path, np.int64, KEY_WIDTH * count, offset=begin * KEY_WIDTH * 8)
    return numbers.reshape(count, KEY_WIDTH)
