"""The smallest parts of kernels: numbers at addresses, bytes that are sought, copied and compared."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from embermq.kernels.byte_table import ByteTable
from embermq.kernels.compiling import Table, kernel
from embermq.kernels.memory import (
    address_of,
    copy,
    find_byte,
    fits,
    is_same,
    load_i32,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
    store_8,
    store_16,
    store_32,
    store_64,
)

I64 = st.integers(-(2**63), 2**63 - 1)


@kernel("void(int64, int64[::1])")
def load_all(address: int, found: Table) -> None:
    found[0] = load_u8(address)
    found[1] = load_u16(address)
    found[2] = load_i32(address)
    found[3] = load_u32(address)
    found[4] = load_i64(address)


@kernel("void(int64, int64)")
def store_all(address: int, value: int) -> None:
    store_8(address, value)
    store_16(address + 1, value)
    store_32(address + 3, value)
    store_64(address + 7, value)


@kernel("void(int64, int64, int64)")
def copy_bytes(target: int, source: int, size: int) -> None:
    copy(target, source, size)


@given(data=st.binary(min_size=8, max_size=8))
def test_numbers_are_loaded_as_struct_unpacks_them(data: bytes) -> None:
    found = np.zeros(5, np.int64)
    load_all(address_of(data), found)
    assert found.tolist() == [struct.unpack_from(f">{kind}", data)[0] for kind in "BHiIq"]


@given(value=I64)
def test_numbers_are_stored_with_their_lowest_bits(value: int) -> None:
    memory = bytearray(16)
    store_all(address_of(memory), value)
    bits = value % 2**64
    assert bytes(memory) == struct.pack(">BHIQx", bits % 2**8, bits % 2**16, bits % 2**32, bits)


@given(data=st.binary(max_size=100), before=st.integers(0, 9))
def test_exactly_the_bytes_named_are_copied(data: bytes, before: int) -> None:
    memory = bytearray(b"." * 120)
    copy_bytes(address_of(memory) + before, address_of(data), len(data))
    assert bytes(memory) == b"." * before + data + b"." * (120 - before - len(data))


@given(at=I64, size=I64, whole=I64)
def test_a_range_fits_only_if_all_of_it_does(at: int, size: int, whole: int) -> None:
    assert fits(at, size, whole) == (at >= 0 and size >= 0 and at + size <= whole)


@given(at=st.integers(-2, 5), size=st.integers(-2, 5), whole=st.integers(-2, 5))
def test_a_small_range_fits_only_if_all_of_it_does(at: int, size: int, whole: int) -> None:
    assert fits(at, size, whole) == (at >= 0 and size >= 0 and at + size <= whole)


@given(data=st.text("abc\x02", max_size=70), begin=st.integers(0, 40), end=st.integers(0, 70))
def test_the_first_byte_of_its_kind_is_found(data: str, begin: int, end: int) -> None:
    raw = data.encode()
    begin, end = min(begin, len(raw)), min(end, len(raw))
    address = address_of(raw)
    found = raw.find(b"\x02", begin, end)
    assert find_byte(address + begin, address + end, 2) - address == (found if found >= 0 else end)


@given(data=st.binary(max_size=40), at=st.integers(0, 39), bit=st.integers(0, 7))
def test_bytes_are_the_same_only_if_all_of_them_are(data: bytes, at: int, bit: int) -> None:
    other = bytearray(data)
    assert is_same(address_of(data), address_of(other), len(data))
    if at < len(data):
        other[at] ^= 1 << bit
        assert not is_same(address_of(data), address_of(other), len(data))


def test_a_byte_table_numbers_each_byte_string_once_and_keeps_it() -> None:
    items = [b"item %d" % number * (number % 7) for number in range(100)]
    items_once = list(dict.fromkeys(items))
    byte_table = ByteTable(*items)
    assert [byte_table.number_of(item) for item in items_once] == list(range(len(items_once)))
    assert byte_table.rows.shape == (len(byte_table), 2) == (len(items_once), 2)
    for item, (address, size) in zip(items_once, byte_table.rows.tolist(), strict=True):
        assert size == len(item)
        assert is_same(address, address_of(item), size)
