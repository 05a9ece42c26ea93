"""What a broker tells of its store, to bytes and back."""

from __future__ import annotations

import pytest

from embermq.errors import CorruptRecord
from embermq.format.store_body import (
    QueueSpan,
    StoreEntry,
    decode_folders,
    decode_queues,
    encode_folders,
    encode_queues,
)


def test_queues_come_back_as_they_were() -> None:
    spans = (QueueSpan("%RETRY%g", 0, 0, 0), QueueSpan("orders", 0, 12, 40), QueueSpan("orders", 10, 0, 2**40))
    assert decode_queues(encode_queues(spans)) == spans


def test_folders_come_back_as_they_were() -> None:
    folders = {"": (StoreEntry("orders", 0, True),), "orders/0": (StoreEntry("0" * 20, 6_000_000, False),), "x": ()}
    assert decode_folders(encode_folders(folders)) == folders


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"a": 1}', b'{"a": {"x": [0, 1]}}', b'{"a": {"0": [0]}}', b'{"a": {"0": [2, 1]}}',
     b'{"a": {"0": [-1, 1]}}', b'{"a": {"0": ["0", "1"]}}', b'{"a": {"0": [0, 9223372036854775808]}}', b"\xff"],
)  # fmt: skip
def test_queues_that_make_no_sense_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_queues(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"a": 1}', b'{"a": [1]}', b'{"a": [["x", 1]]}', b'{"a": [["", 1, true]]}',
     b'{"a": [["../x", 1, true]]}', b'{"a": [["x", -1, false]]}', b'{"a": [["x", 1, 1]]}'],
)  # fmt: skip
def test_folders_that_make_no_sense_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_folders(data)
