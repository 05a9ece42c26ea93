from __future__ import annotations

import ipaddress
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.host import encode_host
from embermq.format.message_id import (
    UniqueId,
    UniqueIds,
    decode_message_id,
    decode_unique_id,
    encode_message_id,
    encode_unique_id,
)
from embermq.model.message import Host

BROKER = encode_host(Host("192.168.0.10", 10911))


class HandClock:
    """A clock that tells what it is told."""

    def __init__(self, now_ms: int) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


def local_ms(*date: int) -> int:
    return int(datetime(*date).timestamp()) * 1000  # type: ignore[arg-type]


def is_no_ipv4(address: ipaddress.IPv6Address) -> bool:
    return address.ipv4_mapped is None


def test_ids_have_the_text_of_the_format() -> None:
    assert encode_message_id(BROKER, 0) == "C0A8000A00002A9F0000000000000000"
    assert encode_message_id(BROKER, 0x1070) == "C0A8000A00002A9F0000000000001070"
    v6 = encode_host(Host("2001:db8::2", 10911))
    assert encode_message_id(v6, 177) == "20010DB800000000000000000000000200002A9F00000000000000B1"


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6).filter(is_no_ipv4), st.integers(0, 2**63 - 1))
def test_an_id_leads_back_to_broker_and_position(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, position: int
) -> None:
    text = encode_message_id(encode_host(Host(str(address), 10911)), position)
    assert len(text) == (32 if address.version == 4 else 56)
    host, found = decode_message_id(text)
    assert ipaddress.ip_address(host.address) == address
    assert (host.port, found) == (10911, position)
    assert decode_message_id(text.lower()) == (host, found)


@pytest.mark.parametrize("size", [0, 30, 31, 33, 34, 54, 55, 57, 58])
def test_an_id_of_another_length_is_none(size: int) -> None:
    for decode in (decode_message_id, decode_unique_id):
        with pytest.raises(CorruptRecord, match="no message id"):
            decode("0" * size)


@pytest.mark.parametrize("text", ["x" * 32, "0" * 31 + " ", "é" * 32, "00 " * 16])
def test_an_id_with_other_characters_is_none(text: str) -> None:
    for decode in (decode_message_id, decode_unique_id):
        with pytest.raises(CorruptRecord, match="no message id"):
            decode(text)


unique_ids = st.builds(
    UniqueId,
    st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**16 - 1),
)


@given(unique_ids)
def test_a_unique_id_is_taken_apart_and_put_together(unique: UniqueId) -> None:
    text = encode_unique_id(unique)
    assert len(text) == (32 if len(unique.address) == 4 else 56)
    assert decode_unique_id(text) == unique


def test_a_unique_id_tells_where_and_when_it_was_made() -> None:
    clock = HandClock(local_ms(2024, 3, 1) + 5000)
    ids = UniqueIds(b"\x7f\0\0\1", process=0x12345, instance=-1, clock=clock)
    first, second = (decode_unique_id(ids.next()) for _ in range(2))
    assert first == UniqueId(b"\x7f\0\0\1", 0x2345, 0xFFFFFFFF, 5000, 0)
    assert second == first._replace(counter=1)


def test_time_counts_from_the_start_of_the_new_month_once_it_begins() -> None:
    clock = HandClock(local_ms(2023, 12, 31, 23, 59, 59))
    ids = UniqueIds(bytes(4), process=1, instance=1, clock=clock)
    before = decode_unique_id(ids.next())
    assert before.month_ms == local_ms(2023, 12, 31, 23, 59, 59) - local_ms(2023, 12, 1)
    clock.ms = local_ms(2024, 1, 1)
    assert decode_unique_id(ids.next()).month_ms == 0


def test_a_clock_that_is_set_back_over_the_month_does_no_harm() -> None:
    clock = HandClock(local_ms(2024, 3, 1))
    ids = UniqueIds(bytes(4), process=1, instance=1, clock=clock)
    clock.ms -= 1000
    assert decode_unique_id(ids.next()).month_ms == 0


def test_the_counter_goes_round_after_65536_ids() -> None:
    ids = UniqueIds(bytes(4), process=1, instance=1, clock=HandClock(local_ms(2024, 3, 1)))
    made = [ids.next() for _ in range(65537)]
    assert len(set(made[:65536])) == 65536
    assert made[65536] == made[0]
