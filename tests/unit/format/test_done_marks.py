"""Done marks: every offset comes back, in bodies that are not too large; nonsense counts for nothing."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from embermq.format.done_marks import decode_done_marks, encode_done_marks


@given(st.lists(st.integers(0, 2**63 - 1), max_size=50), st.integers(1, 200))
def test_every_offset_comes_back_in_bodies_that_are_not_too_large(offsets: list[int], max_size: int) -> None:
    bodies = encode_done_marks(offsets, max_size=max_size)
    decoded = [decode_done_marks(body) for body, _ in bodies]
    assert [offset for each in decoded for offset in each] == offsets
    assert [max(each) for each in decoded] == [highest for _, highest in bodies]
    for (body, _), each in zip(bodies, decoded, strict=True):
        assert len(body) <= max_size or len(each) == 1


def test_what_old_brokers_wrote_and_what_is_no_number_is_read() -> None:
    assert decode_done_marks(b"17") == [17]
    assert decode_done_marks(b",,3,x,-4, 5,\xff,6") == [3, 6]
    assert decode_done_marks(b"") == decode_done_marks(b"9" * 30) == []


@given(st.binary(max_size=100))
def test_any_bytes_are_read(body: bytes) -> None:
    assert all(offset >= 0 for offset in decode_done_marks(body))
