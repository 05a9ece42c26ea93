from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.batch_entry import (
    BATCH_ENTRY_SIZE,
    END_MARK,
    BatchEntry,
    decode_batch_entries,
    decode_batch_entry,
    encode_batch_entry,
)

i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
entries = st.builds(BatchEntry, i64, i32, i64, i64, i64, i16, i32, i32)


def test_an_entry_has_the_bytes_of_the_format() -> None:
    entry = BatchEntry(4096, 300, 2598919, 1700000002001, base_offset=80, count=10)
    expected = "00000000000010000000012c000000000027a8070000018bcfe56fd10000000000000050000affffffff00000000"
    assert encode_batch_entry(entry).hex() == expected
    assert decode_batch_entry(bytes.fromhex(expected)) == entry


def test_the_end_mark_has_the_bytes_of_the_format() -> None:
    assert encode_batch_entry(END_MARK).hex() == "ff" * 8 + "00" * 30 + "ffffffff00000000"


@given(entries)
def test_an_entry_comes_back(entry: BatchEntry) -> None:
    data = encode_batch_entry(entry)
    assert len(data) == BATCH_ENTRY_SIZE == 46
    assert decode_batch_entry(b"x" + data, 1) == entry


@given(st.lists(entries, max_size=4))
def test_many_entries_come_back_at_once(many: list[BatchEntry]) -> None:
    assert decode_batch_entries(b"".join(map(encode_batch_entry, many))) == many


def test_a_part_of_an_entry_is_corrupt() -> None:
    for data, at in ((bytes(45), 0), (bytes(46), 1), (bytes(46), -1)):
        with pytest.raises(CorruptRecord):
            decode_batch_entry(data, at)
    with pytest.raises(CorruptRecord):
        decode_batch_entries(bytes(91))


def test_an_entry_is_valid_if_it_points_at_some_messages() -> None:
    entry = BatchEntry(0, 1, 0, 0, base_offset=0, count=1)
    assert entry.is_valid
    for change in ({"position": -1}, {"size": 0}, {"base_offset": -1}, {"count": 0}):
        assert not entry._replace(**change).is_valid
    assert not END_MARK.is_valid
