"""Memory, as kernels see it: numbers at addresses, in the byte order of files and wire, big-endian.

Nothing is checked here: who calls has made sure that all bytes from the address on lie in a buffer it was given.
All this works inside kernels only, except `address_of`, which is for those who call one.

A table that a kernel hands to a function is counted up and down each time, at the price of several numbers. So
functions are given the address of a row, `row_at`, and `get` and `put` its columns; these are in the byte order
of the host.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from mmap import mmap
from typing import Any, Final, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from embermq.kernels.compiling import Table, kernel

__all__ = [
    "address_of",
    "copy",
    "fence",
    "find_byte",
    "fits",
    "get",
    "is_same",
    "load_i32",
    "load_i64",
    "load_little_i64",
    "load_native_i32",
    "load_u8",
    "load_u16",
    "load_u32",
    "prefetch",
    "put",
    "row_at",
    "store_8",
    "store_16",
    "store_32",
    "store_64",
]  # fmt: skip

_BYTE: Final = ir.IntType(8)
_I32: Final = ir.IntType(32)
_I64: Final = ir.IntType(64)
_LANES: Final = 16  # bytes that a search looks at together
_IS_LITTLE: Final = sys.byteorder == "little"


def address_of(buffer: bytes | bytearray | memoryview | array[int] | mmap) -> int:
    """Where the bytes of `buffer` begin; it must stay alive, and its size the same, while a kernel uses them."""
    interface: dict[str, Any] = np.frombuffer(buffer, np.uint8).__array_interface__
    return cast("int", interface["data"][0])


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def _make_load(bits: int, *, is_signed: bool, is_little: bool = False) -> Callable[[int], int]:
    kind = ir.IntType(bits)

    def load(_: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = builder.load(_pointer(builder, arguments[0], kind), align=1, typ=kind)
            if bits > 8 and is_little != _IS_LITTLE:
                value = builder.bswap(value)
            if bits == 64:
                return value
            return builder.sext(value, _I64) if is_signed else builder.zext(value, _I64)

        return types.int64(types.int64), generate

    return cast("Callable[[int], int]", intrinsic(load))


def _make_store(bits: int) -> Callable[[int, int], None]:
    kind = ir.IntType(bits)

    def store(_: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            target, value = arguments
            if bits < 64:
                value = builder.trunc(value, kind)
            if bits > 8 and _IS_LITTLE:
                value = builder.bswap(value)
            builder.store(value, _pointer(builder, target, kind), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return cast("Callable[[int, int], None]", intrinsic(store))


load_u8 = _make_load(8, is_signed=False)
load_u16 = _make_load(16, is_signed=False)
load_i32 = _make_load(32, is_signed=True)
load_u32 = _make_load(32, is_signed=False)
load_i64 = _make_load(64, is_signed=True)
load_little_i64 = _make_load(64, is_signed=True, is_little=True)  # in the other byte order

# Of a number that is too large, the lowest bits are stored.
store_8 = _make_store(8)
store_16 = _make_store(16)
store_32 = _make_store(32)
store_64 = _make_store(64)


def _make_copy(write: Callable[..., Any]) -> Callable[[int, int, int], None]:
    def copying(_: Any, target: Any, source: Any, size: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            to, from_, size = arguments
            write(builder, _pointer(builder, to, _BYTE), _pointer(builder, from_, _BYTE), size, 1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return cast("Callable[[int, int, int], None]", intrinsic(copying))


def _load_native_i32(_: Any, address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.sext(builder.load(_pointer(builder, arguments[0], _I32), align=4, typ=_I32), _I64)

    return types.int64(types.int64), generate


def _fence(_: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        builder.fence("release")
        return context.get_dummy_value()

    return types.void(), generate


def _prefetch(_: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        place = _pointer(builder, arguments[0], _BYTE)
        kind = ir.FunctionType(ir.VoidType(), [place.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [place, _I32(1), _I32(3), _I32(1)])  # to write, to keep, data
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _row_at(_: Any, table: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        row_size = cgutils.unpack_tuple(builder, array.strides)[0]
        return builder.add(builder.ptrtoint(array.data, _I64), builder.mul(arguments[1], row_size))

    return types.int64(table, types.int64), generate


def _column(builder: Any, row: Any, column: Any) -> Any:
    return _pointer(builder, builder.add(row, builder.mul(column, _I64(8))), _I64)


def _get(_: Any, row: Any, column: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(_column(builder, *arguments), align=8, typ=_I64)

    return types.int64(types.int64, types.int64), generate


def _put(_: Any, row: Any, column: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        row, column, value = arguments
        builder.store(value, _column(builder, row, column), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _make_match(lanes: int) -> Callable[[int, int], int]:
    """What finds a byte among so many at an address: its number, 64 if it is not there."""
    kind = ir.VectorType(_BYTE, lanes)

    def match(_: Any, address: Any, byte: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            found = builder.load(_pointer(builder, arguments[0], kind), align=1, typ=kind)
            wanted = builder.insert_element(
                ir.Constant(kind, ir.Undefined), builder.trunc(arguments[1], _BYTE), _I32(0)
            )
            wanted = builder.shuffle_vector(wanted, wanted, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))
            bits = builder.bitcast(builder.icmp_unsigned("==", found, wanted), ir.IntType(lanes))
            return builder.cttz(builder.zext(bits, _I64), ir.IntType(1)(0))

        return types.int64(types.int64, types.int64), generate

    return cast("Callable[[int, int], int]", intrinsic(match))


copy = _make_copy(cgutils.raw_memcpy)  # to, from, size; the two do not overlap
move = _make_copy(cgutils.raw_memmove)  # the same where the two may overlap
load_native_i32 = cast("Callable[[int], int]", intrinsic(_load_native_i32))  # as the machine keeps it
fence = cast("Callable[[], None]", intrinsic(_fence))  # whoever sees a later store has seen all earlier ones
prefetch = cast("Callable[[int], None]", intrinsic(_prefetch))  # a hint; the address may be any
row_at = cast("Callable[[Table, int], int]", intrinsic(_row_at))
get = cast("Callable[[int, int], int]", intrinsic(_get))
put = cast("Callable[[int, int, int], None]", intrinsic(_put))
_match = _make_match(_LANES)
_match_half = _make_match(_LANES // 2)


@kernel("boolean(int64, int64, int64)")
def fits(at: int, size: int, whole: int) -> bool:
    """Whether the bytes [at, at + size) lie in a buffer of `whole` bytes. For any numbers."""
    return 0 <= size <= whole and 0 <= at <= whole - size


@kernel("int64(int64, int64, int64)")
def find_byte(begin: int, end: int, byte: int) -> int:
    """The first address in [begin, end) that holds `byte`; `end` if none does."""
    at = begin
    while end - at >= _LANES:
        found = _match(at, byte)
        if found < _LANES:
            return at + found
        at += _LANES
    if end - begin >= _LANES // 2:  # of what is left, those before it are looked at once more
        while at < end:
            at = min(at, end - _LANES // 2)
            found = _match_half(at, byte)
            if found < _LANES // 2:
                return at + found
            at += _LANES // 2
        return end
    while at < end:
        if load_u8(at) == byte:
            return at
        at += 1
    return end


@kernel("boolean(int64, int64, int64)")
def is_same(left: int, right: int, size: int) -> bool:
    """Whether the `size` bytes at two addresses are the same."""
    at = 0
    if size >= 8:
        while size - at > 8:
            if load_i64(left + at) != load_i64(right + at):
                return False
            at += 8
        return load_i64(left + size - 8) == load_i64(right + size - 8)  # some of them perhaps once more
    while at < size:
        if load_u8(left + at) != load_u8(right + at):
            return False
        at += 1
    return True
