"""Staged messages as bytes: what is written is read, and whatever else is there is refused where it begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord, IllegalMessage
from embermq.format.record import DraftFields
from embermq.format.staged import (
    CHUNK_HEAD,
    StagedMessage,
    check_chunk,
    decode_chunk_head,
    decode_drafts_aside,
    encode_chunk_head,
    encode_drafts_aside,
    encode_staged,
    iter_staged,
    make_chunk,
)
from embermq.format.staged_json import decode_manifest, decode_plan, encode_manifest, encode_plan
from embermq.model.staged import BatchKeys, Manifest, StagedTask

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
messages = st.lists(st.builds(StagedMessage, i32, i32, i32, i64, st.binary(), st.binary()))
drafts = st.lists(
    st.tuples(
        *(st.binary(), i32, st.binary(), st.binary(), i32, i32, i64, st.sampled_from([b"h" * 8, b"h" * 20])),
        *(st.just(0), st.just(0)),
    )
)
tasks = st.lists(st.builds(StagedTask, st.text(min_size=1), st.integers(0, 9), st.integers(0, 9))).map(tuple)


@given(messages)
def test_messages_come_back_as_they_were(given_: list[StagedMessage]) -> None:
    assert list(iter_staged(encode_staged(given_))) == given_


@given(drafts)
def test_drafts_come_back_as_they_were(given_: list[DraftFields]) -> None:
    assert decode_drafts_aside(encode_drafts_aside(given_)) == given_


def test_a_message_cut_anywhere_is_refused_where_it_begins() -> None:
    whole = encode_staged([StagedMessage(0, 0, 0, 0, b"first", b""), StagedMessage(1, 0, 0, 0, b"body", b"p\x01v\x02")])
    first = len(encode_staged([StagedMessage(0, 0, 0, 0, b"first", b"")]))
    for kept in range(first + 1, len(whole)):
        with pytest.raises(CorruptRecord) as caught:
            list(iter_staged(whole[:kept]))
        assert caught.value.position == first


@given(st.binary(max_size=200))
def test_any_bytes_are_messages_or_refused(data: bytes) -> None:
    for read in (lambda: list(iter_staged(data)), lambda: decode_drafts_aside(data), lambda: decode_plan(data)):
        try:
            read()
        except CorruptRecord:
            continue


def test_what_no_field_holds_is_refused() -> None:
    with pytest.raises(IllegalMessage, match="no message can be staged like this"):
        encode_staged([StagedMessage(2**31, 0, 0, 0, b"", b"")])


def test_a_chunk_is_known_by_its_numbers_and_its_bytes() -> None:
    chunk = make_chunk(3, 2, b"messages")
    head = encode_chunk_head(chunk)
    assert decode_chunk_head(head, 0) == chunk
    check_chunk(chunk, b"messages", 0)
    for changed in (chunk._replace(sequence=4), chunk._replace(messages=1), chunk._replace(size=7)):
        with pytest.raises(CorruptRecord, match="does not match its checksum"):
            check_chunk(changed, b"messages", 0)
    with pytest.raises(CorruptRecord, match="does not match its checksum"):
        check_chunk(chunk, b"Messages", 0)
    for broken in (head[:-1], b"\0" * CHUNK_HEAD.size, head[:12] + b"\xff" * 8):
        with pytest.raises(CorruptRecord):
            decode_chunk_head(broken, 0)


@given(st.dictionaries(st.text(), tasks), tasks, st.booleans())
def test_plans_and_manifests_come_back_as_they_were(
    plan: dict[str, tuple[StagedTask, ...]], own: tuple[StagedTask, ...], is_done: bool
) -> None:
    assert decode_plan(encode_plan(plan)) == plan
    manifest = Manifest("job", 7, is_done, 4096, 12345, own, plan)
    assert decode_manifest(encode_manifest(manifest)) == manifest


@pytest.mark.parametrize(
    "data", [b"", b"{}", b'{"job": "j", "batch": 1, "state": "other", "position": 0, "monthMs": 0}']
)
def test_a_manifest_without_its_parts_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_manifest(data)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**40))
def test_a_key_tells_the_number_of_its_message_and_only_in_its_batch(index: int, month_ms: int) -> None:
    keys = BatchKeys("job", 3, month_ms)
    assert keys.find_index(keys.key(index)) == index
    assert len(keys.key(index)) == 32
    for other in (BatchKeys("job", 4, month_ms), BatchKeys("bob", 3, month_ms), BatchKeys("job", 3, month_ms + 1)):
        assert other.find_index(keys.key(index)) is None
    assert keys.find_index(keys.key(index)[:-1] + "x") is None
