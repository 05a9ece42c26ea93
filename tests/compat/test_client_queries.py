"""Looking for messages by key, by unique key and by offset id."""

from __future__ import annotations

import time

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Refused, text, texts
from tests.compat.scene import Scene

FOREVER = 1 << 62
NO_MESSAGE = 208


def query(scene: Scene, topic: str, key: str, *, limit: int = 32, begin: int = 0, end: int = FOREVER) -> list[str]:
    """The bodies found, sorted; RocketMQ's client says by an exception that there are none."""
    try:
        return sorted(texts(scene.ask_admin("queryMessage", topic, key, limit, begin, end)["messageList"]))
    except Refused as refused:
        assert refused.code == NO_MESSAGE, refused
        return []


def wait_for(scene: Scene, topic: str, key: str, count: int) -> None:
    """Until the index has followed."""
    wait_until(lambda: len(query(scene, topic, key)) == count)


def test_by_key(scene: Scene) -> None:
    """query.by-key, query.by-each-key, query.key-is-per-topic, query.unknown-key"""
    topic, other = scene.topic(2), scene.topic(2)
    scene.producer().send_ok(
        scene.message(topic, "one", keys=["red", "small"]),
        scene.message(topic, "two", keys=["red", "large", "键"]),
        scene.message(topic, "three", keys=["blue"]),
        scene.message(other, "four", keys=["red"]),
    )
    wait_for(scene, other, "red", 1)
    assert query(scene, topic, "red") == ["one", "two"]
    assert query(scene, topic, "small") == ["one"]
    assert query(scene, topic, "large") == query(scene, topic, "键") == ["two"]
    assert query(scene, topic, "blue") == ["three"]
    assert query(scene, other, "red") == ["four"]
    began = time.monotonic()
    assert query(scene, topic, "nobody-has-it") == query(scene, other, "blue") == []
    assert time.monotonic() - began < 5


def test_time_and_number(scene: Scene) -> None:
    """query.time-bounded, query.max-num"""
    topic, producer = scene.topic(1), scene.producer()
    producer.send_ok(scene.message(topic, "early", keys=["k"]))
    time.sleep(2.1)  # the index counts in seconds
    producer.send_ok(scene.message(topic, "late", keys=["k"]), *scene.messages(topic, range(10), keys=["many"]))
    wait_for(scene, topic, "many", 10)
    stored = {text(message): message["storeTimestamp"] for message in scene.read(topic, 0)}
    assert query(scene, topic, "k") == ["early", "late"]
    assert query(scene, topic, "k", end=stored["early"]) == ["early"]
    assert query(scene, topic, "k", begin=stored["early"] + 1_000) == ["late"]
    assert query(scene, topic, "k", begin=stored["late"] + 60_000) == []
    assert 1 <= len(query(scene, topic, "many", limit=3)) <= 3


def test_by_unique_key(scene: Scene) -> None:
    """query.by-unique-key, query.view-by-unique-key"""
    topic = scene.topic(1)
    wanted, _ = scene.producer().send_ok(*scene.messages(topic, ["wanted", "other"], keys=["k"]))
    wait_for(scene, topic, "k", 2)
    arguments = (scene.cluster_name, topic, wanted["msgId"], 32, 0, FOREVER)
    assert texts(scene.ask_admin("queryMessageByUniqKey", *arguments)["messageList"]) == ["wanted"]
    for message_id in (wanted["msgId"], wanted["offsetMsgId"]):
        found = scene.ask_admin("viewMessage", topic, message_id)
        assert (text(found), found["msgId"], found["topic"]) == ("wanted", wanted["msgId"], topic)


def test_view_unknown_offset(scene: Scene) -> None:
    """query.view-unknown-offset"""
    topic = scene.topic(1)
    (sent,) = scene.producer().send_ok(scene.message(topic))
    beyond = sent["offsetMsgId"][:16] + f"{1 << 50:016X}"
    began = time.monotonic()
    with pytest.raises(Refused):
        scene.ask_admin("viewMessage", topic, beyond)
    assert time.monotonic() - began < 10
