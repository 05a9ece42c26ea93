from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.index_entry import (
    IndexEntry,
    IndexHeader,
    decode_index_entry,
    decode_index_header,
    decode_slot,
    encode_index_entry,
    encode_index_header,
    entry_at,
    index_file_size,
    slot_at,
)
from embermq.model.hashing import key_hash

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)

# Four slots and five entries, with the three keys of one record.
TINY = bytes.fromhex(
    "0000018bcfe5687b0000018bcfe5687b00000000000000000000000000000000"
    "00000002000000040000000200000003000000000000000000000000"
    "00000000000000000000000000000000"
    "1506614400000000000000000000000000000000"
    "0029e6a800000000000000000000000000000001"
    "0029e6a900000000000000000000000000000000"
    "0000000000000000000000000000000000000000"
)


def test_the_tiny_file_of_the_format_is_read() -> None:
    assert len(TINY) == index_file_size(4, 5)
    assert decode_index_header(TINY) == IndexHeader(1700000000123, 1700000000123, 0, 0, 2, 4)
    assert [decode_slot(TINY, slot_at(slot)) for slot in range(4)] == [2, 3, 0, 0]
    unique = key_hash("TopicTest", "7F00000100010000000000000000000A")
    assert [decode_index_entry(TINY, entry_at(4, number)) for number in range(1, 4)] == [
        IndexEntry(unique, 0, 0, 0),
        IndexEntry(key_hash("TopicTest", "k1"), 0, 0, 1),
        IndexEntry(key_hash("TopicTest", "k2"), 0, 0, 0),
    ]


def test_the_tiny_file_of_the_format_is_written() -> None:
    header = encode_index_header(decode_index_header(TINY))
    entries = [encode_index_entry(decode_index_entry(TINY, entry_at(4, number))) for number in range(5)]
    assert header + TINY[40:56] + b"".join(entries) == TINY


def test_a_file_of_the_usual_shape_has_the_usual_size() -> None:
    assert index_file_size(5_000_000, 20_000_000) == 420_000_040


@given(st.builds(IndexHeader, i64, i64, i64, i64, i32, st.integers(1, 2**31 - 1)))
def test_a_header_comes_back(header: IndexHeader) -> None:
    assert decode_index_header(encode_index_header(header) + b"more") == header


@given(st.builds(IndexEntry, i32, i64, i32, i32))
def test_an_entry_comes_back(entry: IndexEntry) -> None:
    assert decode_index_entry(b"x" + encode_index_entry(entry), 1) == entry


@pytest.mark.parametrize("count", [0, -1])
def test_a_file_that_was_never_used_counts_from_one(count: int) -> None:
    assert decode_index_header(bytes(36) + count.to_bytes(4, "big", signed=True)) == IndexHeader(next_entry=1)


def test_parts_are_corrupt() -> None:
    with pytest.raises(CorruptRecord):
        decode_index_header(bytes(39))
    for at in (-1, 1):
        with pytest.raises(CorruptRecord):
            decode_index_entry(bytes(20), at)
        with pytest.raises(CorruptRecord):
            decode_slot(bytes(4), at)
