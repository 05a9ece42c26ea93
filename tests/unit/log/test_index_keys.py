"""What records are filed under, and the hashes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.log.index_keys import hash_texts, keys_of, rows_of
from embermq.model.flags import SysFlag
from embermq.model.hashing import key_hash
from embermq.model.properties import format_properties
from tests.builders import a_placed

ASCII = st.text(st.characters(max_codepoint=127), max_size=140)


def properties(**values: str) -> bytes:
    return format_properties(values)


def test_a_record_is_filed_under_its_unique_id_and_then_its_keys() -> None:
    assert keys_of(properties(KEYS="a b", TAGS="t", UNIQ_KEY="id")) == ["id", "a", "b"]


@pytest.mark.parametrize(
    ("keys", "found"),
    [("a", ["a"]), ("a  b", ["a", "b"]), (" a ", ["a"]), (" ", []), ("a a", ["a", "a"]), ("a\tb", ["a\tb"])],
)
def test_keys_are_parted_by_single_blanks_and_empty_ones_are_none(keys: str, found: list[str]) -> None:
    assert keys_of(properties(KEYS=keys)) == found


def test_a_record_without_keys_is_filed_under_nothing() -> None:
    assert keys_of(b"") == keys_of(properties(TAGS="KEYS", TIMER_DEL_UNIQKEY="x", MYKEYS="y")) == []


def test_keys_that_are_not_utf_8_are_read_as_java_reads_them() -> None:
    assert keys_of(b"KEYS\x01a\xff b\x02") == ["a\N{REPLACEMENT CHARACTER}", "b"]


@given(st.lists(ASCII, max_size=600))
def test_hashes_of_many_texts_are_those_of_each(keys: list[str]) -> None:
    assert hash_texts([f"t#{key}".encode() for key in keys]) == [key_hash("t", key) for key in keys]


@given(st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_hashes_of_texts_outside_ascii_are_those_of_each(keys: list[str]) -> None:
    keys = [key + "键😀" for key in keys]
    assert hash_texts([f"t#{key}".encode() for key in keys]) == [key_hash("t", key) for key in keys]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 128, 200])
@pytest.mark.parametrize("count", [1, 255, 256, 257])
def test_hashes_are_right_on_both_sides_of_every_bound(size: int, count: int) -> None:
    text = ("~\x7fa" * size)[:size]
    hashed = hash_texts([text.encode()] * count)
    topic, _, key = f"#{text}".partition("#")
    assert hash_texts([f"#{text}".encode()]) == [key_hash(topic, key)]
    assert len(set(hashed)) == 1 and len(hashed) == count


def test_the_hash_without_absolute_value_counts_as_zero() -> None:
    assert hash_texts([b"polygenelubricants"]) == [0]  # Java's hash of it is -2**31


def test_the_hash_of_a_topic_and_key_is_the_one_the_format_names() -> None:
    assert hash_texts([b"TopicTest#k1"]) == [2746024]


def test_rows_come_in_the_order_of_the_log_with_the_place_of_their_record() -> None:
    items = [
        a_placed(position=100, store_time=7, properties=properties(KEYS="a b")),
        a_placed(position=200, store_time=8, properties=properties(TAGS="none")),
        a_placed(position=300, store_time=9, topic="other", properties=properties(UNIQ_KEY="a")),
    ]
    assert rows_of(items, after=-1) == [
        (key_hash("orders", "a"), (100, 7)),
        (key_hash("orders", "b"), (100, 7)),
        (key_hash("other", "a"), (300, 9)),
    ]


def test_records_up_to_a_position_are_passed_over() -> None:
    items = [a_placed(position=position, properties=properties(KEYS="a")) for position in (99, 100, 101)]
    assert [place for _, (place, _) in rows_of(items, after=100)] == [101]


@pytest.mark.parametrize(
    ("flag", "is_filed"),
    [(0, True), (SysFlag.PREPARED, True), (SysFlag.COMMITTED, True), (SysFlag.ROLLED_BACK, False)],
)
def test_only_records_rolled_back_are_left_out(flag: int, is_filed: bool) -> None:
    item = a_placed(sys_flag=flag | SysFlag.COMPRESSED, properties=properties(KEYS="a"))
    assert bool(rows_of([item], after=-1)) is is_filed
