from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from embermq.format.property_crc import encode_property_crc, prepare_properties, verify_property_crc
from embermq.format.record import Draft, decode_record, encode_draft
from embermq.model.properties import parse_properties


def a_record(properties: bytes, *, with_property_crc: bool = True) -> bytes:
    draft = Draft(b"orders", 0, b"body", properties)
    return encode_draft(
        draft, offset=0, position=0, store_time=0, store_host=bytes(8), with_property_crc=with_property_crc
    )


def test_the_digits_stand_in_reverse() -> None:
    assert encode_property_crc(314164012) == b"__CRC32#\x012104614130\x02"
    assert encode_property_crc(0) == b"__CRC32#\x010000000000\x02"
    assert encode_property_crc(2**31 - 1) == b"__CRC32#\x017463847412\x02"


@given(st.binary(max_size=60))
@example(b"a\x01b")
@example(b"a\x01b\x02__CRC32#\x010000000000\x02")
def test_a_record_with_a_crc_verifies(properties: bytes) -> None:
    assert verify_property_crc(a_record(properties)) is True


def test_any_flipped_bit_is_found() -> None:
    whole = a_record(b"a\x01b\x02")
    for at in range(len(whole)):
        for bit in range(8):
            broken = bytearray(whole)
            broken[at] ^= 1 << bit
            assert verify_property_crc(broken) is not True


@given(st.binary(max_size=60))
def test_a_record_without_a_crc_has_none(properties: bytes) -> None:
    if b"__CRC32#" not in properties:
        assert verify_property_crc(a_record(properties, with_property_crc=False)) is None


@pytest.mark.parametrize("size", [0, 1, 19])
def test_what_is_too_short_for_a_crc_has_none(size: int) -> None:
    assert verify_property_crc(bytes(size)) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b""),
        (b"a\x01b\x02", b"a\x01b\x02"),
        (b"a\x01b", b"a\x01b\x02"),
        (b"__CRC32#\x011111111111\x02", b""),
        (b"a\x01b\x02__CRC32#\x011111111111\x02c\x01d\x02", b"a\x01b\x02c\x01d\x02"),
        (b"a\x01b\x02__CRC32#\x011111111111", b"a\x01b\x02"),
        (b"a\x01__CRC32#\x01x\x02", b"a\x01__CRC32#\x01x\x02"),
    ],
)
def test_an_old_crc_goes_and_the_last_separator_comes(before: bytes, after: bytes) -> None:
    assert prepare_properties(before) == after


def test_a_missing_last_separator_does_not_glue_the_crc_to_a_value() -> None:
    record = decode_record(a_record(b"a\x01b"), 0)
    assert parse_properties(record.properties)["a"] == "b"
    assert "__CRC32#" in parse_properties(record.properties)
