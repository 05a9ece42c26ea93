"""Keys and values of queues in a RocksDB."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format import queue_database as form
from embermq.format.queue_database import Bound, BoundKey, Unit

I64 = st.integers(0, 2**63 - 1)
I32 = st.integers(0, 2**31 - 1)
TOPICS = st.text(min_size=1, max_size=60)


def test_keys_and_values_are_those_that_rocketmq_wrote() -> None:
    prefix = form.queue_prefix(b"RocksTopic", 0)
    assert form.unit_key(prefix, 1).hex(" ", -4) == "0000000a 01526f63 6b73546f 70696301 00000000 01000000 00000000 01"
    unit = Unit(0x918, 0x15D, 0x27A808, 0x1A1E0F79E76)
    assert form.encode_unit(unit).hex() == "00000000000009180000015d000000000027a808000001a1e0f79e76"
    assert form.max_key(b"RocksTopic", 0) == b"\0\0\0\x0a\x01RocksTopic\x01max\x01\0\0\0\0"
    assert form.encode_bound(Bound(0xCDF1, 14)).hex() == "000000000000cdf1000000000000000e"
    assert form.CHECKPOINT_KEY == b"\0\0\0\x10\x01CHECKPOINT_TOPIC\x01max\x01\0\0\0\0"


@given(TOPICS, I32, I64)
def test_what_is_encoded_is_decoded(topic: str, queue: int, number: int) -> None:
    name = topic.encode()
    assert form.decode_bound_key(form.max_key(name, queue)) == BoundKey(topic, queue, is_max=True)
    assert form.decode_bound_key(form.min_key(name, queue)) == BoundKey(topic, queue, is_max=False)
    prefix = form.queue_prefix(name, queue)
    assert form.offset_of(form.unit_key(prefix, number)) == number
    assert prefix < form.unit_key(prefix, number) < form.queue_end(prefix)
    assert form.decode_position(form.encode_position(number)) == number
    assert form.decode_bound(form.encode_bound(Bound(number, queue))) == Bound(number, queue)


@given(st.binary(max_size=64))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    for decode in (form.decode_unit, form.decode_bound, form.decode_position, form.decode_bound_key, form.offset_of):
        try:
            decode(data)
        except CorruptRecord:
            continue


@pytest.mark.parametrize("size", [0, 27, 29])
def test_a_unit_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(CorruptRecord, match=f"{size} bytes"):
        form.decode_unit(bytes(size))
