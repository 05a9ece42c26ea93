from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.queue_entry import (
    PRE_BLANK,
    QUEUE_ENTRY_SIZE,
    QueueEntry,
    address_of,
    decode_queue_entries,
    decode_queue_entry,
    encode_queue_entry,
    is_address,
    real_of,
    tags_code,
)

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.parametrize(
    ("entry", "data"),
    [
        (QueueEntry(0, 177, tags_code("TagA")), "0000000000000000000000b1000000000027a807"),
        (QueueEntry(1234567890123, 512, tags_code("pay_success")), "0000011f71fb04cb00000200ffffffffe57f6f6c"),
        (QueueEntry(0, 0x7FFFFFFF, 0), "00000000000000007fffffff0000000000000000"),
    ],
)
def test_an_entry_has_the_bytes_of_the_format(entry: QueueEntry, data: str) -> None:
    assert encode_queue_entry(entry).hex() == data
    assert decode_queue_entry(bytes.fromhex(data)) == entry


@given(st.builds(QueueEntry, i64, i32, i64))
def test_an_entry_comes_back(entry: QueueEntry) -> None:
    data = encode_queue_entry(entry)
    assert len(data) == QUEUE_ENTRY_SIZE == 20
    assert decode_queue_entry(b"x" + data, 1) == entry


@given(st.lists(st.builds(QueueEntry, i64, i32, i64), max_size=5))
def test_many_entries_come_back_at_once(entries: list[QueueEntry]) -> None:
    assert decode_queue_entries(b"".join(map(encode_queue_entry, entries))) == entries


def test_a_part_of_an_entry_is_corrupt() -> None:
    for data, at in ((bytes(19), 0), (bytes(20), 1), (bytes(20), -1)):
        with pytest.raises(CorruptRecord):
            decode_queue_entry(data, at)
    with pytest.raises(CorruptRecord):
        decode_queue_entries(bytes(39))


@pytest.mark.parametrize(
    ("entry", "valid"),
    [
        (QueueEntry(0, 1, 0), True),
        (QueueEntry(0, 0, 0), False),
        (QueueEntry(-1, 1, 0), False),
        (QueueEntry(5, -1, 0), False),
    ],
)
def test_an_entry_is_valid_if_it_points_at_something(entry: QueueEntry, valid: bool) -> None:
    assert entry.is_valid is valid


def test_a_pre_blank_is_valid_but_stands_for_no_message() -> None:
    blank = decode_queue_entry(PRE_BLANK)
    assert blank.is_valid
    assert blank.is_blank
    assert not QueueEntry(0, 177, 0).is_blank
    assert not QueueEntry(8, 0x7FFFFFFF, 0).is_blank


def test_no_tags_have_the_code_zero() -> None:
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("TagA") == 2598919


@given(st.text(max_size=40))
def test_no_tags_code_is_an_address(tags: str) -> None:
    assert not is_address(tags_code(tags))


@pytest.mark.parametrize(
    ("real", "data"),
    [(0, "8000000000000000"), (28, "800000000000001c"), (2**63 - 2**31 - 1, "ffffffff7fffffff")],
)
def test_an_address_has_the_bytes_of_the_format(real: int, data: str) -> None:
    address = address_of(real)
    assert address.to_bytes(8, "big", signed=True).hex() == data
    assert is_address(address)
    assert real_of(address) == real


def test_addresses_end_where_hashes_begin() -> None:
    assert is_address(-(2**31) - 1)
    assert not is_address(-(2**31))
    for real in (-1, 2**63 - 2**31):
        with pytest.raises(ValueError, match="no address"):
            address_of(real)
    with pytest.raises(ValueError, match="not an address"):
        real_of(-(2**31))
