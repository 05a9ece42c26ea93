from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.extended_entry import (
    END_MARK,
    ExtendedEntry,
    decode_extended_entry,
    encode_extended_entry,
)

i64 = st.integers(-(2**63), 2**63 - 1)


def test_an_entry_has_the_bytes_of_the_format() -> None:
    entry = ExtendedEntry(2598919, 1700000000123, bytes(range(1, 9)))
    data = "001c000000000027a8070000018bcfe5687b00080102030405060708"
    assert encode_extended_entry(entry).hex() == data
    assert decode_extended_entry(bytes.fromhex(data)) == entry
    assert entry.size == 28


@given(st.builds(ExtendedEntry, i64, i64, st.binary(max_size=40)), st.binary(max_size=5))
def test_an_entry_comes_back(entry: ExtendedEntry, around: bytes) -> None:
    data = encode_extended_entry(entry)
    assert len(data) == entry.size
    assert decode_extended_entry(around + data + around, len(around)) == entry


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0", END_MARK, bytes(20), END_MARK + bytes(20)])
def test_zeros_and_the_end_mark_are_the_end(data: bytes) -> None:
    assert decode_extended_entry(data) is None


def test_an_entry_may_have_its_limit_and_not_one_more() -> None:
    longest = ExtendedEntry(0, 0, bytes(32767 - 20))
    assert decode_extended_entry(encode_extended_entry(longest)) == longest
    with pytest.raises(ValueError, match="limit 32767"):
        encode_extended_entry(longest._replace(bits=longest.bits + b"x"))


def test_sizes_that_contradict_each_other_are_corrupt() -> None:
    data = encode_extended_entry(ExtendedEntry(1, 2, b"abc"))
    for broken in (data[:-1], b"\0\x13" + data[2:], b"\0\x18" + data[2:] + b"x", data[:18] + b"\xff\xff" + data[20:]):
        with pytest.raises(CorruptRecord):
            decode_extended_entry(broken)


@pytest.mark.parametrize("size", range(1, 20))
def test_an_entry_that_says_it_is_smaller_than_any_is_corrupt(size: int) -> None:
    with pytest.raises(CorruptRecord, match=f"of {size} bytes announced"):
        decode_extended_entry(size.to_bytes(2, "big") + bytes(size))
