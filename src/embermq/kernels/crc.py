"""CRC-32 of memory, the same as zlib's.

Where the processor multiplies without carries (x86-64 with PCLMULQDQ), 64 bytes are folded at a time: the
bytes are a polynomial over two elements, and four lanes of 128 bits each are moved ahead by a multiplication with
the remainder of a power of x, until 64 bits are left to be divided by the polynomial (Barrett's way). What is
shorter than that, and every other processor, takes eight bytes at a time through eight tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.memory import load_i64, load_u8

_POLYNOMIAL: Final = 0xEDB8_8320  # bits reversed, as in all of zlib's
_ALL: Final = 0xFFFF_FFFF
_LEAST_FOLDED: Final = 64
_FOLDED: Final = 16

# Whether the code that numba makes may multiply without carries: what the host can do, unless numba is told otherwise.
HAS_CARRYLESS: Final = "+pclmul" in cpu_target.target_context.codegen().magic_tuple()[2].split(",")

_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_LANE: Final = ir.VectorType(_I64, 2)


def _make_tables() -> Table:
    tables = np.zeros((8, 256), np.int64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for number in range(1, 8):
        before = tables[number - 1]
        tables[number] = before >> 8 ^ tables[0][before & 255]
    return tables


_TABLES: Final = _make_tables()


@part
def _go_on(state: int, address: int, size: int) -> int:
    """The state behind `size` more bytes."""
    at, end = address, address + size
    while end - at >= 8:
        word = load_i64(at)
        state = (
            _TABLES[7, (word >> 56 ^ state) & 255] ^ _TABLES[6, (word >> 48 ^ state >> 8) & 255]
            ^ _TABLES[5, (word >> 40 ^ state >> 16) & 255] ^ _TABLES[4, (word >> 32 ^ state >> 24) & 255]
            ^ _TABLES[3, word >> 24 & 255] ^ _TABLES[2, word >> 16 & 255]
            ^ _TABLES[1, word >> 8 & 255] ^ _TABLES[0, word & 255]
        )  # fmt: skip
        at += 8
    while at < end:
        state = _TABLES[0, (state ^ load_u8(at)) & 255] ^ state >> 8
        at += 1
    return state


@kernel("int64(int64, int64)")
def crc32_by_tables(address: int, size: int) -> int:
    """The CRC-32 of `size` bytes, on any processor."""
    return _go_on(_ALL, address, size) ^ _ALL


class _Folding:
    """Writes the instructions that fold memory."""

    # Remainders of powers of x, two for a lane: to move ahead by 64 bytes, by 16, and by 8; the last are the
    # polynomial and its inverse.
    BY_64 = (0x01_5444_2BD4, 0x01_C6E4_1596)
    BY_16 = (0x01_7519_97D0, 0x00_CCAA_009E)
    BY_8 = (0x01_63CD_6124, 0)
    DIVISOR = (0x01_DB71_0641, 0x01_F701_1641)

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        kind = ir.FunctionType(_LANE, [_LANE, _LANE, ir.IntType(8)])
        self._function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.pclmulqdq")

    def load(self, address: Any, at: Any) -> Any:
        place = self._builder.inttoptr(self._builder.add(address, at), _LANE.as_pointer())
        return self._builder.load(place, align=1, typ=_LANE)

    def multiply(self, value: Any, factors: tuple[int, int], halves: int) -> Any:
        """One half of `value` times one of the factors; the two digits of `halves` say which factor and which half."""
        return self._builder.call(self._function, [value, ir.Constant(_LANE, factors), ir.IntType(8)(halves)])

    def fold(self, value: Any, factors: tuple[int, int], more: Any) -> Any:
        """`value` moved ahead, and `more` that lies there."""
        low, high = self.multiply(value, factors, 0x00), self.multiply(value, factors, 0x11)
        return self._builder.xor(self._builder.xor(low, high), more)

    def shift(self, value: Any, count: int) -> Any:
        """`value` without its first `count` bytes."""
        kind = ir.VectorType(ir.IntType(8), 16)
        numbers = ir.Constant(ir.VectorType(_I32, 16), [count + each for each in range(16)])
        moved = self._builder.shuffle_vector(self._builder.bitcast(value, kind), ir.Constant(kind, [0] * 16), numbers)
        return self._builder.bitcast(moved, _LANE)

    def reduce(self, value: Any) -> Any:
        """The 32 bits that are left of a lane."""
        builder, low = self._builder, ir.Constant(_LANE, (_ALL, _ALL))
        value = builder.xor(self.shift(value, 8), self.multiply(value, self.BY_16, 0x10))
        value = builder.xor(self.multiply(builder.and_(value, low), self.BY_8, 0x00), self.shift(value, 4))
        quotient = builder.and_(self.multiply(builder.and_(value, low), self.DIVISOR, 0x10), low)
        value = builder.xor(value, self.multiply(quotient, self.DIVISOR, 0x00))
        return builder.extract_element(builder.bitcast(value, ir.VectorType(_I32, 4)), _I32(1))


def _fold_memory(_: Any, state: Any, address: Any, size: Any) -> Any:
    """The state behind `size` more bytes: at least 64, and a multiple of 16."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        state, address, size = arguments
        folding = _Folding(builder)
        first = builder.insert_element(ir.Constant(_LANE, (0, 0)), state, _I32(0))
        lanes = [folding.load(address, _I64(16 * number)) for number in range(4)]
        lanes[0] = builder.xor(lanes[0], first)
        kept = [cgutils.alloca_once_value(builder, lane) for lane in lanes]
        whole = builder.and_(size, _I64(-64))
        with cgutils.for_range_slice(builder, _I64(64), whole, _I64(64), intp=_I64) as (at, _number):
            for number, place in enumerate(kept):
                more = folding.load(address, builder.add(at, _I64(16 * number)))
                builder.store(folding.fold(builder.load(place), folding.BY_64, more), place)
        value = builder.load(kept[0])
        for place in kept[1:]:
            value = folding.fold(value, folding.BY_16, builder.load(place))
        builder.store(value, kept[0])
        with cgutils.for_range_slice(builder, whole, size, _I64(16), intp=_I64) as (at, _number):
            builder.store(folding.fold(builder.load(kept[0]), folding.BY_16, folding.load(address, at)), kept[0])
        return builder.zext(folding.reduce(builder.load(kept[0])), _I64)

    return types.int64(types.int64, types.int64, types.int64), generate


if HAS_CARRYLESS:
    _fold = cast("Callable[[int, int, int], int]", intrinsic(_fold_memory))

    @kernel("int64(int64, int64)")
    def crc32(address: int, size: int) -> int:
        """The CRC-32 of `size` bytes."""
        state, folded = _ALL, 0
        if size >= _LEAST_FOLDED:
            folded = size & -_FOLDED
            state = _fold(state, address, folded)
        return _go_on(state, address + folded, size - folded) ^ _ALL

else:
    crc32 = crc32_by_tables
