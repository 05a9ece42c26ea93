"""The properties of many records, taken apart at once, by the rules of model.properties.parse_properties.

Sixteen bytes are looked at together: of each sixteen, those that part names from values and values from names.
"""

from __future__ import annotations

from typing import Final

from embermq.kernels.columns import (
    DONE,
    FULL,
    MISUSED,
    NOT_TEXT,
    OUTSIDE,
    PAIR_NAME_AT,
    PAIR_NAME_SIZE,
    PAIR_VALUE_AT,
    PAIR_VALUE_SIZE,
    PAIR_WIDTH,
    VALUE_KEYS_AT,
    VALUE_KEYS_SIZE,
    VALUE_TAGS_AT,
    VALUE_TAGS_SIZE,
    VALUE_UNIQUE_AT,
    VALUE_UNIQUE_SIZE,
    VALUE_WIDTH,
)
from embermq.kernels.compiling import Offsets, Table, inlined, kernel, part, variable
from embermq.kernels.memory import fits, is_same, load_i64, load_u8, load_u32
from embermq.kernels.scanning import STEP, first_bit, is_utf8, separators
from embermq.model.properties import KEYS, TAGS, UNIQ_KEY

_TAGS: Final = int.from_bytes(TAGS.encode(), "big")
_KEYS: Final = int.from_bytes(KEYS.encode(), "big")
_UNIQUE: Final = int.from_bytes(UNIQ_KEY.encode(), "big")
_NAME_END: Final = 1

assert len(TAGS) == len(KEYS) == 4 and len(UNIQ_KEY) == 8, "the names are compared as one number"


@part
def _next_separator(at: int, end: int, limit: int) -> int:
    """The first address in [at, end) that holds 0x01 or 0x02, else the end; bytes up to `limit` may be looked at."""
    while at < end:
        if limit - at >= STEP:
            mask = separators(at)
            if mask != 0:
                return min(at + first_bit(mask), end)
            at += STEP
        else:
            byte = load_u8(at)
            if byte == 1 or byte == 2:  # noqa: PLR1714
                return at
            at += 1
    return end


@part
def _drop_earlier(data: int, pairs: Table, first: int, last: int) -> int:
    """Of the pairs [first, last) with the name of the pair `last`, keep none; where `last` is now."""
    at, size = pairs[PAIR_NAME_AT, last], pairs[PAIR_NAME_SIZE, last]
    for number in range(first, last):
        if pairs[PAIR_NAME_SIZE, number] == size and is_same(data + pairs[PAIR_NAME_AT, number], data + at, size):
            for column in range(PAIR_WIDTH):
                for later in range(number, last):
                    pairs[column, later] = pairs[column, later + 1]
            return last - 1  # there was no other, for none was kept twice
    return last


@inlined
def _note_value(values: Table, row: int, name: int, name_size: int, place: int, size: int) -> None:
    """Write down where the value lies if it is one of the three that are looked for."""
    if name_size == 4:
        word = load_u32(name)
        if word == _TAGS:
            values[VALUE_TAGS_AT, row] = place
            values[VALUE_TAGS_SIZE, row] = size
        elif word == _KEYS:
            values[VALUE_KEYS_AT, row] = place
            values[VALUE_KEYS_SIZE, row] = size
    elif name_size == 8 and load_i64(name) == _UNIQUE:
        values[VALUE_UNIQUE_AT, row] = place
        values[VALUE_UNIQUE_SIZE, row] = size


@part
def _find_value_end(at: int, end: int, limit: int) -> int:
    """The first 0x02 in [at, end), else the end: a value may hold 0x01."""
    at = _next_separator(at, end, limit)
    while at < end and load_u8(at) == _NAME_END:
        at = _next_separator(at + 1, end, limit)
    return at


@kernel("UniTuple(int64, 3)(int64, int64, int64[::1], int64[::1], boolean, int32[::1], int64[:, ::1], int64[:, ::1])")
def split_properties(
    data: int, size: int, places: Table, sizes: Table, with_pairs: bool, ends: Offsets, pairs: Table, values: Table
) -> tuple[int, int, int]:
    """Take the properties at `places` of `size` bytes of memory apart.

    `values` gets tags, keys and unique key of each, with `with_pairs` `pairs` all names and values, and `ends` how many
    pairs there were up to each. Returns how many properties it took apart, how many pairs that made, and why it went
    no further: FULL if `pairs` is, NOT_TEXT for properties that are not UTF-8.
    """
    count, limit = len(places), data + size
    if len(sizes) != count or values.shape[0] != VALUE_WIDTH or values.shape[1] < count or size < 0:
        return 0, 0, MISUSED
    if len(ends) < count or pairs.shape[0] != PAIR_WIDTH:
        return 0, 0, MISUSED
    made = 0
    for row in range(count):
        if not fits(places[row], sizes[row], size):
            return row, made, OUTSIDE
        at = data + places[row]
        end = at + sizes[row]
        if not is_utf8(at, end, limit):
            return row, made, NOT_TEXT
        for column in range(VALUE_WIDTH):
            values[column, row] = -1
        first, seen = made, variable(0)
        while at < end:
            name_end = _next_separator(at, end, limit)
            if name_end == end or load_u8(name_end) != _NAME_END:
                at = name_end + 1  # no name, or no value
                continue
            value = name_end + 1
            value_end = _find_value_end(value, end, limit)
            if name_end > at and value_end > value:
                _note_value(values, row, at, name_end - at, value - data, value_end - value)
                if with_pairs:
                    if made == pairs.shape[1]:
                        return row, first, FULL
                    pairs[PAIR_NAME_AT, made] = at - data
                    pairs[PAIR_NAME_SIZE, made] = name_end - at
                    pairs[PAIR_VALUE_AT, made] = value - data
                    pairs[PAIR_VALUE_SIZE, made] = value_end - value
                    mark = 1 << (load_u8(at) + 8 * (name_end - at) & 63)
                    if seen & mark:  # else no earlier name begins so and has that size
                        made = _drop_earlier(data, pairs, first, made)
                    seen |= mark
                    made += 1
            at = value_end + 1
        ends[row] = made
    return count, made, DONE
