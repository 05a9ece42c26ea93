"""Checkpoints and acks as text: back and forth, older spellings, and nonsense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.pop_records import (
    decode_ack,
    decode_checkpoint,
    direct_properties,
    encode_ack,
    encode_checkpoint,
    parked_properties,
)
from embermq.model.pop import Ack, Checkpoint, Delivery
from embermq.model.properties import parse_properties

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=20)
NUMBERS = st.integers(0, 2**50)
DELIVERIES = st.builds(Delivery, NAMES, NAMES, st.integers(0, 1023), NUMBERS, NUMBERS, NAMES)


@given(DELIVERIES, st.lists(st.integers(0, 10_000), max_size=32, unique=True), NUMBERS, st.integers(0, 20))
def test_a_checkpoint_survives_its_text(delivery: Delivery, steps: list[int], invisible: int, put_back: int) -> None:
    offsets = tuple(delivery.start + step for step in sorted(steps))
    checkpoint = Checkpoint(delivery, offsets, invisible, put_back)
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


@given(DELIVERIES, st.lists(NUMBERS, min_size=1, max_size=40))
def test_an_ack_survives_its_text(delivery: Delivery, offsets: list[int]) -> None:
    ack = Ack(delivery, tuple(offsets))
    assert decode_ack(encode_ack(ack), broker="nobody") == ack


def test_a_checkpoint_without_steps_is_of_messages_side_by_side() -> None:
    found = decode_checkpoint(b'{"n":3,"so":7,"t":"T","c":"g","it":5,"pt":9}')
    assert found.offsets == (7, 8, 9)
    assert found.revive_time == 14


def test_an_ack_in_the_older_spelling_is_of_the_broker_that_reads_it() -> None:
    found = decode_ack(
        b'{"ackOffset":8,"startOffset":7,"consumerGroup":"g","topic":"T","queueId":1,"popTime":9}', broker="broker-a"
    )
    assert found == Ack(Delivery("T", "g", 1, 7, 9, "broker-a"), (8,))


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"t":"T"}', b'{"t":"T","c":"g","n":2,"d":[1]}', b'{"t":"T","c":"g","n":99}', b"\xff"],
)
def test_what_is_no_checkpoint_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_checkpoint(body)


@pytest.mark.parametrize("body", [b"{}", b'{"t":"T","c":"g"}', b'{"t":"T","c":"g","ao":"x"}', b'{"aol":7}'])
def test_what_is_no_ack_is_refused(body: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_ack(body, broker="broker-a")


@pytest.mark.parametrize(("deliver_ms", "due"), [(5_001, 5_000), (5_999, 5_000), (5_000, 4_000)])
def test_a_record_waits_for_the_last_whole_second_before_its_time(deliver_ms: int, due: int) -> None:
    found = parse_properties(parked_properties("revive", 3, tag="ck", key="k", deliver_ms=deliver_ms))
    assert found == {
        "REAL_TOPIC": "revive", "REAL_QID": "3", "TAGS": "ck", "UNIQ_KEY": "k",
        "TIMER_DELIVER_MS": str(deliver_ms), "TIMER_OUT_MS": str(due),
    }  # fmt: skip


def test_a_record_whose_time_has_come_tells_no_place() -> None:
    found = parse_properties(direct_properties(tag="ack", key="k", deliver_ms=7))
    assert found == {"TAGS": "ack", "UNIQ_KEY": "k", "TIMER_DELIVER_MS": "7"}
