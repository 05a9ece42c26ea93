"""Java's string hash of UTF-8 in memory: u0·31ⁿ + … + un over the UTF-16 units, in 32 bits.

Eight ASCII characters are taken at once: of their bytes in one 64-bit number every two neighbours become one
number, `left·31 + right`, then every two of these, and once more.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.kernels.compiling import kernel, part
from embermq.kernels.memory import load_i64, load_u8

_MASK: Final = 0xFFFF_FFFF
_NOT_ASCII: Final = -0x7F7F_7F7F_7F7F_7F80  # the highest bit of eight bytes
_RIGHT_8: Final = 0x00FF_00FF_00FF_00FF
_RIGHT_16: Final = 0x0000_FFFF_0000_FFFF
_POWERS: Final = np.array([pow(31, count, 1 << 32) for count in range(9)], np.int64)


@part
def _hash_eight(word: int) -> int:
    """The hash of eight ASCII characters; leading zeros count for nothing."""
    word = (word & _RIGHT_8) + 31 * (word >> 8 & _RIGHT_8)
    word = (word & _RIGHT_16) + 961 * (word >> 16 & _RIGHT_16)
    return (word & _MASK) + 923_521 * (word >> 32)


@part
def _read_character(at: int, end: int) -> int:
    """The character beyond ASCII at an address; -1 if the bytes up to `end` do not begin with one."""
    first = load_u8(at)
    if first < 0xC0 or first > 0xF4:
        return -1
    more = 1 + (first >= 0xE0) + (first >= 0xF0)  # bytes
    if end - at <= more:
        return -1
    value = first & 0x3F >> more
    for index in range(1, more + 1):
        byte = load_u8(at + index)
        if byte & 0xC0 != 0x80:
            return -1
        value = value << 6 | byte & 0x3F
    least = 0x80 if more == 1 else 0x800 if more == 2 else 0x1_0000
    if value < least or value > 0x10_FFFF or 0xD800 <= value < 0xE000:
        return -1
    return value


@kernel("int64(int64, int64, int64)")
def hash_text(address: int, size: int, value: int) -> int:
    """The hash of a text with the hash `value` and these bytes behind it; -1 if they are no UTF-8.

    It is from 0 to 2³² - 1: the 32 bits without a sign.
    """
    at, end = address, address + size
    while at < end:
        left = end - at
        if left >= 8 or size >= 8:
            # Of the last few bytes, those before them are read as well, and left out.
            count = min(left, 8)
            word = load_i64(at + count - 8)
            if count < 8:
                word &= (1 << 8 * count) - 1
            if word & _NOT_ASCII == 0:
                value = (value * _POWERS[count] + _hash_eight(word)) & _MASK
                at += count
                continue
        unit = load_u8(at)
        if unit < 0x80:
            value = (value * 31 + unit) & _MASK
            at += 1
            continue
        unit = _read_character(at, end)
        if unit < 0:
            return -1
        at += 2 + (unit >= 0x800) + (unit >= 0x1_0000)
        if unit >= 0x1_0000:
            value = (value * 31 + 0xD7C0 + (unit >> 10)) & _MASK
            unit = 0xDC00 | unit & 0x3FF
        value = (value * 31 + unit) & _MASK
    return value
