"""Messages for a time of their own, and taking them back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Facts, Refused, text
from tests.compat.scene import Scene

LATE_MS = 5_000
ILLEGAL = 13
DAY_MS = 86_400_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def timed(open_scene: Callable[[], Scene]) -> Iterator[dict[str, tuple[int, Facts, list[Facts]]]]:
    """By body: when it was to come, what the send answered, and all its deliveries."""
    with open_scene() as scene:
        topic, producer = scene.topic(4), scene.producer()
        consumer = scene.push(scene.group(), {topic: "T"})
        fields = {"tags": "T", "keys": ["k1", "k2"], "properties": {"color": "red"}, "flag": 9, "queue": 2}
        sent: dict[str, tuple[int, Facts]] = {}
        for body, delay_ms, asked in (
            ("seconds", 4_000, {"delaySec": 4}),
            ("milliseconds", 2_500, {"delayMs": 2_500}),
            ("instant", 3_200, {"deliverMs": now_ms() + 3_200}),
            ("past", 0, {"deliverMs": now_ms() - 60_000}),
            ("level", 1_000, {"delayLevel": 1, "delaySec": 9}),
            ("recalled", 4_000, {"delaySec": 4}),
        ):
            due = now_ms() + delay_ms
            sent[body] = due, producer.send_ok(scene.message(topic, body, **asked, **fields))[0]
        producer.send_ok(scene.message(topic, "of another tag", tags="U", delaySec=1))
        handle = sent["recalled"][1]["recallHandle"]
        assert producer.call("recallMessage", topic, handle) == sent["recalled"][1]["msgId"]
        consumer.deliveries(5)
        found = consumer.deliveries(6, seconds=3)  # one more than there should be
        yield {
            body: (due, answer, [each for each in found if text(each) == body]) for body, (due, answer) in sent.items()
        }


@pytest.mark.parametrize("body", ["seconds", "milliseconds", "instant", "past", "level"])
def test_a_message_comes_at_its_time_and_not_before(
    timed: dict[str, tuple[int, Facts, list[Facts]]], body: str
) -> None:
    """timer.delay-sec"""
    due, _, (found,) = timed[body]
    assert due - 50 <= found["at"] <= due + LATE_MS  # the client's clock is read after the send began


@pytest.mark.parametrize("body", ["seconds", "instant"])
def test_identity(timed: dict[str, tuple[int, Facts, list[Facts]]], body: str) -> None:
    _, sent, (found,) = timed[body]
    assert found["msgId"] == sent["msgId"]
    assert (found["tags"], found["keys"], found["flag"], found["queueId"]) == ("T", "k1 k2", 9, 2)
    assert found["properties"]["color"] == "red"


def test_recall(timed: dict[str, tuple[int, Facts, list[Facts]]]) -> None:
    """timer.recall"""
    assert timed["recalled"][2] == []


def test_only_a_waiting_message_has_a_handle(timed: dict[str, tuple[int, Facts, list[Facts]]]) -> None:
    handles = {body for body, (_, sent, _) in timed.items() if sent["recallHandle"]}
    assert handles == {"seconds", "milliseconds", "instant", "recalled"}


def test_too_far(scene: Scene) -> None:
    """timer.too-far"""
    refusal = scene.producer().refusal(scene.message(scene.topic(), "x", deliverMs=now_ms() + 30 * DAY_MS))
    assert refusal["code"] == ILLEGAL


def test_recall_bad_handle(scene: Scene) -> None:
    """timer.recall-bad-handle"""
    topic, producer = scene.topic(), scene.producer()
    producer.send_ok(scene.message(topic, "so that it knows the topic"))
    with pytest.raises(Refused):
        producer.call("recallMessage", topic, "nonsense")
    handle = producer.send_ok(scene.message(topic, "x", delaySec=30))[0]["recallHandle"]
    other = scene.topic()
    producer.send_ok(scene.message(other, "so that it knows the topic"))
    with pytest.raises(Refused):
        producer.call("recallMessage", other, handle)


def test_brokers_tell_what_waits(scene: Scene) -> None:
    topic = scene.topic()
    scene.producer().send_ok(*(scene.message(topic, str(number), delaySec=60) for number in range(3)))
    wait_until(lambda: waiting(scene).get(topic) == 3)
    status = scene.mqadmin("brokerStatus", "-b", scene.broker)
    assert "timerReadBehind" in status and "timerCongestNum" in status


def waiting(scene: Scene) -> dict[str, int]:
    """How many messages wait for each topic, as slaves are told."""
    counts: Facts = json.loads(scene.raw(61)["body"])["timingCount"]
    return {topic: each["count"] for topic, each in counts.items()}
