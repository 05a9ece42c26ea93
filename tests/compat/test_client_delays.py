"""Messages with a delay level."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.compat.client_tool import Facts, text
from tests.compat.scene import Scene

DELAYS_MS = {1: 1_000, 2: 5_000, 3: 10_000}
LATE_MS = 5_000


@pytest.fixture(scope="module")
def delayed(open_scene: Callable[[], Scene]) -> Iterator[dict[int, tuple[Facts, list[Facts]]]]:
    """By level: what the send answered, and all deliveries."""
    with open_scene() as scene:
        topic, producer = scene.topic(4), scene.producer()
        consumer = scene.push(scene.group(), {topic: "T"})
        fields = {"tags": "T", "keys": ["k1", "k2"], "properties": {"color": "red"}, "flag": 9, "queue": 2}
        sent = {
            level: producer.send_ok(scene.message(topic, f"level {level}", delayLevel=level, **fields))[0]
            for level in DELAYS_MS
        }
        producer.send_ok(scene.message(topic, "of another tag", tags="U", delayLevel=1))
        consumer.deliveries(3)
        found = consumer.deliveries(4, seconds=3)  # one more than there should be
        assert {each["topic"] for each in found} == {topic}
        yield {
            level: (sent[level], [each for each in found if text(each) == f"level {level}"]) for level in DELAYS_MS
        } | {0: ({}, found)}


@pytest.mark.parametrize("level", DELAYS_MS)
def test_delay(delayed: dict[int, tuple[Facts, list[Facts]]], level: int) -> None:
    """delay.level-1, delay.level-2, delay.level-3"""
    _, (found,) = delayed[level]
    assert DELAYS_MS[level] <= found["at"] - found["bornTimestamp"] <= DELAYS_MS[level] + LATE_MS


@pytest.mark.parametrize("level", DELAYS_MS)
def test_identity(delayed: dict[int, tuple[Facts, list[Facts]]], level: int) -> None:
    """delay.identity"""
    sent, (found,) = delayed[level]
    assert found["msgId"] == sent["msgId"]
    assert (found["tags"], found["keys"], found["flag"], found["queueId"]) == ("T", "k1 k2", 9, 2)
    assert found["properties"]["color"] == "red"


def test_tag_filter(delayed: dict[int, tuple[Facts, list[Facts]]]) -> None:
    """delay.tag-filter"""
    _, found = delayed[0]
    assert [text(each) for each in found] == ["level 1", "level 2", "level 3"]
