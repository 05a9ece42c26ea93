"""Java's string hash of UTF-8 in memory: u0·31ⁿ + … + un over the UTF-16 units, in 32 bits.

Sixteen ASCII characters are taken at once, each multiplied with its power of 31; of the last few bytes, those before
them are read as well, and left out. Of less than sixteen, eight are taken as one 64-bit number: every two neighbours
become one number, `left·31 + right`, then every two of these, and once more. All else goes character by character.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from embermq.kernels.compiling import kernel, part, variable
from embermq.kernels.memory import load_i64, load_u8, load_u32

_STEP: Final = 16
_MASK: Final = 0xFFFF_FFFF
_NOT_ASCII: Final = -0x7F7F_7F7F_7F7F_7F80  # the highest bit of eight bytes
_RIGHT_8: Final = 0x00FF_00FF_00FF_00FF
_RIGHT_16: Final = 0x0000_FFFF_0000_FFFF
_POWERS: Final = np.array([pow(31, count, 1 << 32) for count in range(_STEP + 1)], np.int64)
_BYTES: Final = ir.VectorType(ir.IntType(8), _STEP)
_UNITS: Final = ir.VectorType(ir.IntType(32), _STEP)


def _units(numbers: list[int]) -> Any:
    return ir.Constant(_UNITS, numbers)


def _make_step(_: Any, address: Any, begin: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        long = ir.IntType(64)
        units = builder.zext(
            builder.load(builder.inttoptr(arguments[0], _BYTES.as_pointer()), align=1, typ=_BYTES), _UNITS
        )
        first = builder.insert_element(
            _units([0] * _STEP), builder.trunc(arguments[1], _UNITS.element), _UNITS.element(0)
        )
        first = builder.shuffle_vector(first, first, _units([0] * _STEP))
        is_taken = builder.icmp_unsigned(">=", _units(list(range(_STEP))), first)
        units = builder.select(is_taken, units, _units([0] * _STEP))
        strange = builder.bitcast(builder.icmp_unsigned(">=", units, _units([0x80] * _STEP)), ir.IntType(_STEP))
        kind = ir.FunctionType(_UNITS.element, [_UNITS])
        add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.add.v{_STEP}i32")
        powers = [pow(31, _STEP - 1 - number, 1 << 32) for number in range(_STEP)]
        value = builder.zext(builder.call(add, [builder.mul(units, _units(powers))]), long)
        return builder.select(builder.icmp_unsigned("==", strange, ir.IntType(_STEP)(0)), value, long(-1))

    return types.int64(types.int64, types.int64), generate


# The hash of the sixteen bytes at an address without the first few; -1 if one of those that count is not ASCII.
_hash_step = cast("Callable[[int, int], int]", intrinsic(_make_step))


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


@part
def _hash_few(at: int, size: int) -> int:
    """The hash of less than sixteen ASCII characters; -1 if one of them is not."""
    if size >= 8:
        first, last, more = load_i64(at), load_i64(at + size - 8), size - 8
        if (first | last) & _NOT_ASCII != 0:
            return -1
        value: int = _hash_eight(first) * _POWERS[more] + _hash_eight(last & (1 << 8 * more) - 1)
        return value & _MASK
    if size >= 4:
        more = size - 4
        word = load_u32(at) << 8 * more | load_u32(at + more) & (1 << 8 * more) - 1
        return -1 if word & _NOT_ASCII != 0 else _hash_eight(word) & _MASK
    value = variable(0)
    for index in range(size):
        unit = load_u8(at + index)
        if unit >= 0x80:
            return -1
        value = value * 31 + unit
    return value


@part
def _hash_units(at: int, end: int, value: int) -> int:
    """As hash_text, for text of any characters: one after the other."""
    while at < end:
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


@kernel("int64(int64, int64, int64)")
def hash_text(address: int, size: int, value: int) -> int:
    """The hash of a text with the hash `value` and these bytes behind it; -1 if they are no UTF-8.

    It is from 0 to 2³² - 1: the 32 bits without a sign.
    """
    at, end = address, address + size
    if size < _STEP:
        more = _hash_few(address, size)
        if more < 0:
            return _hash_units(at, end, value)
        value *= _POWERS[size]
        return (value + more) & _MASK
    while at < end:
        count = min(end - at, _STEP)
        more = _hash_step(at + count - _STEP, _STEP - count)
        if more < 0:
            return _hash_units(at, end, value)
        value = (value * _POWERS[count] + more) & _MASK
        at += count
    return value
