"""Handles, and what a pop is told of queues and offsets."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord, IllegalField
from embermq.format.pop_fields import (
    PoppedQueue,
    decode_batch_acks,
    format_handle,
    format_offsets,
    format_order_counts,
    format_starts,
    parse_handle,
)
from embermq.model.pop import Handle

NUMBERS = st.integers(0, 10**18 - 1)


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS, st.sampled_from(["broker-a", "b", "brøker"]))
def test_a_handle_survives_its_text(start: int, popped: int, invisible: int, queue: int, broker: str) -> None:
    handle = Handle(start, popped, invisible, queue, broker)
    assert parse_handle(format_handle(handle, 1, 3, 17)) == handle


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "1 2 3 4 5",
        "a 2 3 4 0 broker 0 0",
        "1 -2 3 4 0 broker 0 0",
        "1 2 3 4 0  0 0",
        "1 2 3 4 0 b\x01 0 0",
        "9 " * 999,
    ],
)
def test_what_is_no_handle_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(IllegalField, match="send POP_CK as it came"):
        parse_handle(text)


def test_queues_and_offsets_are_told_as_clients_read_them() -> None:
    queues = [PoppedQueue(0, 2, 5, [5, 6, 9]), PoppedQueue(1, 0, 0, [0])]
    assert format_starts(queues) == "0 2 5;1 0 0"
    assert format_offsets(queues) == "0 2 5,6,9;1 0 0"
    assert format_order_counts(0, 0, [(6, 1), (8, 1)], 0) == "0 qo0%6 1;0 qo0%8 1;0 0 0"


def batch(**changes: object) -> bytes:
    element = {"b": "CQ==", "c": "g", "it": 60_000, "pt": 17, "q": 1, "r": "2", "rq": 3, "so": 7, "t": "T", **changes}
    return json.dumps({"acks": [element], "brokerName": "broker-a"}).encode()


def test_a_batch_of_acks_names_offsets_by_bits() -> None:
    (found,) = decode_batch_acks(batch())
    assert found.offsets == (7, 10)
    assert found.handle == Handle(7, 17, 60_000, 3, "broker-a")
    assert (found.group, found.topic, found.kind, found.queue) == ("g", "T", 2, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"b": "?"},
        {"b": "ä"},
        {"b": 7},
        {"b": base64.b64encode(bytes(10_000)).decode()},
        {"r": "x"},
        {"r": "3"},
        {"c": ""},
        {"t": None},
    ],
)
def test_a_batch_that_makes_no_sense_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(CorruptRecord):
        decode_batch_acks(batch(**changes))
