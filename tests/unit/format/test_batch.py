from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord, IllegalMessage
from embermq.format.batch import BatchElement, encode_batch, iter_batch

EXAMPLE = bytes.fromhex(
    "00000022000000000000000000000000000000026230000a5441475301546167"
    "410200000022000000000000000000000000000000026231000a544147530154"
    "61674202"
)
elements = st.builds(BatchElement, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=100), st.binary(max_size=100))


def test_a_batch_has_the_bytes_of_the_format() -> None:
    both = [BatchElement(0, b"b0", b"TAGS\x01TagA\x02"), BatchElement(0, b"b1", b"TAGS\x01TagB\x02")]
    assert encode_batch(both) == EXAMPLE
    assert list(iter_batch(EXAMPLE)) == both


@given(st.lists(elements, max_size=5))
def test_a_batch_comes_back(many: list[BatchElement]) -> None:
    assert list(iter_batch(encode_batch(many))) == many


def test_size_magic_and_crc_are_not_looked_at() -> None:
    assert list(iter_batch(b"\xff" * 12 + EXAMPLE[12:])) == list(iter_batch(EXAMPLE))


@pytest.mark.parametrize("kept", [size for size in range(1, 68) if size != 34])
def test_a_batch_cut_anywhere_is_reported_where_the_broken_message_begins(kept: int) -> None:
    with pytest.raises(CorruptRecord) as caught:
        list(iter_batch(EXAMPLE[:kept]))
    assert caught.value.position == (0 if kept < 34 else 34)


def test_negative_sizes_are_corrupt() -> None:
    for broken in (EXAMPLE[:16] + b"\xff\xff\xff\xff" + EXAMPLE[20:], EXAMPLE[:22] + b"\xff\xff" + EXAMPLE[24:]):
        with pytest.raises(CorruptRecord, match="-1 bytes wanted"):
            list(iter_batch(broken))


def test_properties_may_have_their_limit_and_not_one_more() -> None:
    longest = BatchElement(0, b"", bytes(32767))
    assert list(iter_batch(encode_batch([longest]))) == [longest]
    with pytest.raises(IllegalMessage):
        encode_batch([BatchElement(0, b"", bytes(32768))])
