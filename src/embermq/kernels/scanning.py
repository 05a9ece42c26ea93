"""Looking for bytes in text, sixteen at a time, and reading the numbers and characters found there.

Addresses are checked by the callers' `end` (of the text) and `limit` (of the memory it lies in): sixteen
bytes are read at once only where they end at or before `limit`, and what lies behind `end` never counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from embermq.kernels.compiling import part, variable
from embermq.kernels.memory import load_i64, load_u8

QUOTE: Final = 0x22
BACKSLASH: Final = 0x5C
STEP: Final = 16  # bytes looked at at once
MOST_DIGITS: Final = 19
LARGEST: Final = 2**63 - 1

_BYTE: Final = ir.IntType(8)
_LONG: Final = ir.IntType(64)
_BYTES: Final = ir.VectorType(_BYTE, STEP)


def _splat(number: int) -> Any:
    return ir.Constant(_BYTES, [number] * STEP)


def _load(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, _BYTES.as_pointer()), align=1, typ=_BYTES)


def _to_mask(builder: Any, found: Any) -> Any:
    """One bit a byte, the first byte's lowest."""
    return builder.zext(builder.bitcast(found, ir.IntType(STEP)), _LONG)


def _text_stops(_: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        data = _load(builder, arguments[0])
        found = builder.icmp_signed("<", data, _splat(0x20))  # as signed numbers, 0x80 and more are below, too
        for stop in (QUOTE, BACKSLASH):
            found = builder.or_(found, builder.icmp_unsigned("==", data, _splat(stop)))
        return _to_mask(builder, found)

    return types.int64(types.int64), generate


def _high_bytes(_: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _to_mask(builder, builder.icmp_signed("<", _load(builder, arguments[0]), _splat(0)))

    return types.int64(types.int64), generate


def _word_marks(_: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        data = _load(builder, arguments[0])
        underscores = builder.icmp_unsigned("==", data, _splat(ord("_")))
        return _to_mask(builder, builder.or_(underscores, builder.icmp_unsigned("==", data, _splat(ord("Y")))))

    return types.int64(types.int64), generate


def _separators(_: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        data = _load(builder, arguments[0])
        name_ends = builder.icmp_unsigned("==", data, _splat(1))
        return _to_mask(builder, builder.or_(name_ends, builder.icmp_unsigned("==", data, _splat(2))))

    return types.int64(types.int64), generate


def _first_bit(_: Any, mask: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), generate


_Look = Callable[[int], int]
# Which of the sixteen bytes at an address end a run of plain text in JSON: control characters, quotes, backslashes
# and all that is not ASCII.
text_stops = cast("_Look", intrinsic(_text_stops))
high_bytes = cast("_Look", intrinsic(_high_bytes))  # which of them are not ASCII
word_marks = cast("_Look", intrinsic(_word_marks))  # which of them are `_` or `Y`
separators = cast("_Look", intrinsic(_separators))  # which of them are 0x01 or 0x02, which part properties
first_bit = cast("_Look", intrinsic(_first_bit))  # the number of the lowest bit that is set; one must be


@part
def find_stop(at: int, end: int, limit: int) -> int:
    """The first byte of the text that is not plain (see text_stops), else its end."""
    while at < end:
        if limit - at >= STEP:
            mask = text_stops(at)
            if mask != 0:
                return min(at + first_bit(mask), end)
            at += STEP
        else:
            byte = load_u8(at)
            if byte < 0x20 or byte >= 0x80 or byte in (QUOTE, BACKSLASH):
                return at
            at += 1
    return end


@part
def skip_space(at: int, end: int) -> int:
    """The first byte from `at` on that is no white space of JSON, else the end."""
    while at < end:
        byte = load_u8(at)
        if byte > 0x20 or byte not in (0x20, 0x0A, 0x0D, 0x09):
            return at
        at += 1
    return at


@part
def read_word(at: int, size: int) -> int:
    """At most eight bytes as one number."""
    word = variable(0)
    for index in range(size):
        word = word << 8 | load_u8(at + index)
    return word


@part
def peek(at: int, end: int) -> int:
    """The next eight bytes as one number, the first one highest; zeros for those behind the end."""
    if end - at >= 8:
        return load_i64(at)
    size = max(end - at, 0)
    return read_word(at, size) << 8 * (8 - size) if size > 0 else 0


@part
def read_number(at: int, end: int) -> tuple[int, int]:
    """A number as JSON writes integers, and the byte after it; -1 for that if there is none, or it is too large.

    Minus zero and zeros in front are none, and neither is -2⁶³.
    """
    negative = at < end and load_u8(at) == 0x2D
    begin = at + 1 if negative else at
    at = begin
    value = variable(0)
    while at < end:
        digit = load_u8(at) - 0x30
        if digit < 0 or digit > 9:
            break
        if at - begin >= MOST_DIGITS - 1 and (at - begin >= MOST_DIGITS or value > (LARGEST - digit) // 10):
            return 0, -1
        value = value * 10 + digit
        at += 1
    if at == begin or (load_u8(begin) == 0x30 and (at - begin > 1 or negative)):
        return 0, -1
    return (-value if negative else value), at


@part
def _is_tail(at: int) -> bool:
    return load_u8(at) & 0xC0 == 0x80  # a byte of a character that has begun before it


@part
def skip_character(at: int, end: int) -> int:
    """The byte after a character of two to four bytes; -1 if it is not UTF-8 as it should be."""
    first = load_u8(at)
    left = end - at
    if first < 0xC2 or left < 2 or not _is_tail(at + 1):
        return -1
    if first < 0xE0:
        return at + 2
    second = load_u8(at + 1)
    if left < 3 or not _is_tail(at + 2):
        return -1
    if first < 0xF0:
        too_long, surrogate = first == 0xE0 and second < 0xA0, first == 0xED and second >= 0xA0
        return -1 if too_long or surrogate else at + 3
    if first > 0xF4 or left < 4 or not _is_tail(at + 3):
        return -1
    too_long, too_large = first == 0xF0 and second < 0x90, first == 0xF4 and second >= 0x90
    return -1 if too_long or too_large else at + 4


@part
def is_utf8(at: int, end: int, limit: int) -> bool:
    """Whether the text is UTF-8 without surrogates."""
    while at < end:
        if limit - at >= STEP:
            mask = high_bytes(at)
            if mask == 0:
                at += STEP
                continue
            at += first_bit(mask)
            if at >= end:
                return True
        if load_u8(at) < 0x80:
            at += 1
            continue
        at = skip_character(at, end)
        if at < 0:
            return False
    return True
