"""What compaction notes of records in log memory: where each lies, and the digest of its keys.

The records come as a table from scan_records, their tags codes from find_codes_and_keys. What is written down is what
jobs.compact_reading writes down where there are no kernels.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.kernels.columns import (
    DONE,
    FULL,
    KEYED_CODE,
    KEYED_HIGH,
    KEYED_LOW,
    KEYED_OFFSET,
    KEYED_POSITION,
    KEYED_SIZE,
    KEYED_STORE_TIME,
    KEYED_TRAITS,
    KEYED_WIDTH,
    MISUSED,
    OUTSIDE,
    RECORD_BODY_SIZE,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_PROPERTIES_SIZE,
    RECORD_SIZE,
    RECORD_STORE_TIME,
    RECORD_WIDTH,
)
from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.digests import DIGEST_WORDS, digest_of
from embermq.kernels.memory import find_byte, fits, get, load_i32, load_u8, put, row_at
from embermq.model.properties import KEYS

_KEYS: Final = int.from_bytes(KEYS.encode(), "big")
_NAME_SIZE: Final = len(KEYS)
_NAME_END: Final = 1
_VALUE_END: Final = 2

assert _NAME_SIZE == 4, "the name is compared as one number"


@part
def _find_keys(begin: int, end: int) -> tuple[int, int]:
    """Where the keys in the properties [begin, end) begin and end, by the rules of model.properties.find_property."""
    keys = keys_end = at = begin
    while at < end:
        value_end = find_byte(at, end, _VALUE_END)
        value = at + _NAME_SIZE + 1
        if value_end > value and load_i32(at) == _KEYS and load_u8(value - 1) == _NAME_END:
            keys, keys_end = value, value_end
        at = value_end + 1
    return keys, keys_end


@kernel("UniTuple(int64, 2)(int64, int64, int64[:, ::1], int64[::1], int64[::1], int64, int64, int64[:, ::1])")
def note_keys(
    data: int, size: int, records: Table, codes: Table, numbers: Table, traits: int, bodiless: int, rows: Table
) -> tuple[int, int]:
    """Fill `rows` with those of the records `numbers` that have keys, in this order.

    `data` is the log memory of `size` bytes that the records lie in; `traits` are those of a record with a body,
    `bodiless` those of one without. Returns how many rows there are, and why there are none: it is all or nothing.
    """
    if records.shape[1] != RECORD_WIDTH or rows.shape[1] != KEYED_WIDTH or codes.size < records.shape[0] or size < 0:
        return 0, MISUSED
    if rows.shape[0] < numbers.size:
        return 0, FULL
    scratch = np.empty((1, DIGEST_WORDS), np.int64)
    count = 0
    for index in range(numbers.size):
        number = numbers[index]
        if not 0 <= number < records.shape[0]:
            return 0, OUTSIDE
        record = row_at(records, number)
        if not fits(get(record, RECORD_PROPERTIES_AT), get(record, RECORD_PROPERTIES_SIZE), size):
            return 0, OUTSIDE
        begin = data + get(record, RECORD_PROPERTIES_AT)
        keys, keys_end = _find_keys(begin, begin + get(record, RECORD_PROPERTIES_SIZE))
        if keys == keys_end:
            continue
        high, low = digest_of(keys, keys_end - keys, row_at(scratch, 0))
        row = row_at(rows, count)
        put(row, KEYED_HIGH, high)
        put(row, KEYED_LOW, low)
        put(row, KEYED_OFFSET, get(record, RECORD_OFFSET))
        put(row, KEYED_POSITION, get(record, RECORD_POSITION))
        put(row, KEYED_SIZE, get(record, RECORD_SIZE))
        put(row, KEYED_TRAITS, traits if get(record, RECORD_BODY_SIZE) else bodiless)
        put(row, KEYED_CODE, codes[number])
        put(row, KEYED_STORE_TIME, get(record, RECORD_STORE_TIME))
        count += 1
    return count, DONE
