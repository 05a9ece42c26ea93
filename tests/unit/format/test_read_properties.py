"""The properties of a record, found without decoding the rest of it."""

from __future__ import annotations

import contextlib

import hypothesis.strategies as st
import pytest
from hypothesis import given

from embermq.errors import CorruptRecord
from embermq.format.record import Draft, decode_record, encode_draft, read_properties

HOSTS = st.sampled_from([b"\x7f\0\0\1\0\0\0\1", bytes(range(20))])
DRAFTS = st.builds(
    lambda topic, queue, body, properties, born_host: Draft(topic, queue, body, properties, born_host=born_host),
    topic=st.integers(1, 255).map(lambda size: b"t" * size),
    queue=st.just(0),
    body=st.binary(max_size=300),
    properties=st.binary(max_size=300),
    born_host=HOSTS,
)


@given(DRAFTS, HOSTS)
def test_they_are_those_of_the_decoder(draft: Draft, store_host: bytes) -> None:
    data = encode_draft(draft, offset=3, position=7, store_time=1, store_host=store_host)
    assert read_properties(memoryview(data)) == decode_record(data, 7).properties == draft.properties


@given(DRAFTS, st.data())
def test_a_record_that_is_cut_is_refused(draft: Draft, data: st.DataObject) -> None:
    whole = encode_draft(draft, offset=3, position=7, store_time=1, store_host=b"\x7f\0\0\1\0\0\0\1")
    kept = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptRecord):
        read_properties(memoryview(whole[:kept]))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(CorruptRecord):
        read_properties(memoryview(data))
