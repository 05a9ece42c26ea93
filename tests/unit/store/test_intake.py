"""Bad input: each kind is refused with an error of its own, and nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embermq import Message, Store
from embermq.errors import (
    BodyTooLarge,
    IllegalMessage,
    IllegalProperty,
    IllegalQueue,
    IllegalTopic,
    NotPermitted,
    PropertiesTooLarge,
    TooManyKeys,
)
from embermq.model.topic import TopicConfig
from tests.builders import a_store

MAX_BODY = 1000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with a_store(tmp_path / "s", max_message_size=MAX_BODY, max_properties_size=200, max_keys=3) as store:
        store.save_topic(TopicConfig("orders", read_queues=4, write_queues=4))
        store.save_topic(TopicConfig("locked", permission=4))
        yield store


@pytest.mark.parametrize(
    "topic", ["", " ", "a b", "a/b", "../etc", "ü", "a" * 128, "%RETRY%" + "g" * 249, "a\0b", ".", "a#b"]
)
def test_an_illegal_topic_is_refused(store: Store, topic: str) -> None:
    check_refused(store, IllegalTopic, Message(topic, b"x"))


@pytest.mark.parametrize("topic", ["a" * 127, "%RETRY%" + "g" * 248, "A-z_0|9%"])
def test_the_longest_and_oddest_topics_are_taken(store: Store, topic: str) -> None:
    assert store.put(Message(topic, b"x")).topic == topic
    (message,) = store.get(topic, queue=0, offset=0)
    assert message.topic == topic


def test_a_body_is_taken_up_to_its_limit(store: Store) -> None:
    store.put(Message("orders", b"x" * MAX_BODY))
    check_refused(store, BodyTooLarge, Message("orders", b"x" * (MAX_BODY + 1)), "1001 bytes .* limit 1000")


@pytest.mark.parametrize("body", ["text", None, 12, ["x"]])
def test_a_body_that_is_no_bytes_is_refused(store: Store, body: Any) -> None:
    check_refused(store, IllegalMessage, Message("orders", body), "bytes are wanted")


@pytest.mark.parametrize("body", [bytearray(b"x"), memoryview(b"x"), b""])
def test_whatever_holds_bytes_is_taken(store: Store, body: Any) -> None:
    receipt = store.put(Message("orders", body))
    (message,) = store.get("orders", queue=receipt.queue, offset=receipt.offset)
    assert message.body == bytes(body)


@pytest.mark.parametrize("queue", [-1, 4, 2**31])
def test_a_queue_that_the_topic_does_not_have_is_refused(store: Store, queue: int) -> None:
    check_refused(store, IllegalQueue, Message("orders", b"x", queue=queue), "queues 0 to 3")


def test_a_topic_without_write_permission_is_refused(store: Store) -> None:
    check_refused(store, NotPermitted, Message("locked", b"x"), "write permission")


@pytest.mark.parametrize(
    "properties",
    [
        {"a": "x\x01y"},
        {"a": "x\x02y"},
        {"a\x01": "x"},
        {"": "x"},
        {"a": ""},
        {"KEYS": "k"},
        {"TAGS": "t"},
        {"UNIQ_KEY": "u"},
        {"a": 12},
        {"a": None},
        {"a": "\ud800"},
    ],
)
def test_a_property_that_would_not_come_back_as_it_went_is_refused(store: Store, properties: Any) -> None:
    check_refused(store, IllegalProperty, Message("orders", b"x", properties=properties))


@pytest.mark.parametrize(
    "fields",
    [
        {"tags": "a\x02b"},
        {"tags": 5},
        {"tags": "\ud800"},
        {"keys": ["a\x01"]},
        {"keys": ["a b"]},
        {"keys": [""]},
        {"keys": "one text"},
        {"keys": [5]},
        {"keys": ["\udfff"]},
    ],
)
def test_tags_and_keys_are_checked_likewise(store: Store, fields: Any) -> None:
    check_refused(store, IllegalProperty, Message("orders", b"x", **fields))


def test_keys_are_taken_up_to_their_limit(store: Store) -> None:
    store.put(Message("orders", b"x", keys=["a", "b", "c"]))
    check_refused(store, TooManyKeys, Message("orders", b"x", keys=["a", "b", "c", "d"]), "4 keys .* limit 3")


def test_properties_are_taken_up_to_their_limit(store: Store) -> None:
    store.put(Message("orders", b"x", properties={"a": "x" * 197}))
    message = Message("orders", b"x", properties={"a": "x" * 198})
    check_refused(store, PropertiesTooLarge, message, "201 bytes .* limit 200")


@pytest.mark.parametrize("flag", [2**31, -(2**31) - 1])
def test_a_flag_that_needs_more_than_32_bits_is_refused(store: Store, flag: int) -> None:
    check_refused(store, IllegalMessage, Message("orders", b"x", flag=flag), "no 32-bit number")


def test_a_record_larger_than_a_log_file_is_refused(tmp_path: Path) -> None:
    with a_store(tmp_path / "s", log_file_size=4096) as store:
        largest = 4096 - 8 - 91 - len("orders")
        assert store.put(Message("orders", b"x" * largest)).position == 0
        check_refused(store, IllegalMessage, Message("orders", b"x" * (largest + 1)), "raise log_file_size")


def test_one_bad_message_refuses_its_whole_batch(store: Store) -> None:
    before = store.state()
    with pytest.raises(BodyTooLarge):
        store.put_many([Message("orders", b"fine"), Message("orders", b"x" * (MAX_BODY + 1))])
    after = store.state()
    assert after.log_written == before.log_written
    assert after.puts.refused == before.puts.refused + 1


def test_a_light_queue_with_an_impossible_name_is_refused(tmp_path: Path) -> None:
    with a_store(tmp_path / "s", light_queues=True) as store:
        for names in ("plain,%LMQ%a", "%LMQ%../../x"):
            check_refused(store, IllegalProperty, Message("orders", b"x", properties={"INNER_MULTI_DISPATCH": names}))


def check_refused(store: Store, kind: type[Exception], message: Message, text: str | None = None) -> None:
    before = store.state()
    with pytest.raises(kind, match=text):
        store.put(message)
    after = store.state()
    assert (after.log_written, after.queues) == (before.log_written, before.queues)
    assert message.topic not in set(store.topics()) - {"orders", "locked"}
