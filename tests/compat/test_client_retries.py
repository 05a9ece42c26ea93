"""Messages that a push consumer could not handle: they come again later, and at last become dead letters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from tests.compat.client_tool import Facts, text, texts, together
from tests.compat.scene import Scene

DELAY_2_MS = 5_000


Letter = tuple[Facts, list[Facts], list[Facts]]  # as sent, its deliveries, and the dead letters


class Retries:
    """Four groups that fail at the same time, and what they saw."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.topic = scene.topic(2)
        self.other = scene.topic(2)
        together([self._fails_twice, self._always_fails, self._fails_for_good, self._many_fail_once])
        time.sleep(3)  # whatever comes once too often
        self.twice = self._twice.deliveries()
        self.many = self._many.deliveries()

    def _fails_twice(self) -> None:
        group = self.scene.retry_ready(self.scene.group(), self.topic)
        self._twice = self.scene.push(group, {self.topic: "T"}, listener={"fail": 2, "delayLevel": 2})
        facts = {"tags": "T", "keys": ["k1", "k2"], "properties": {"color": "red"}, "flag": 5, "queue": 1}
        (self.sent,) = self.scene.producer().send_ok(self.scene.message(self.topic, "twice", **facts))
        assert len(self._twice.deliveries(3, seconds=30)) == 3

    def _always_fails(self) -> None:
        self.dead = self._fails_until_dead("X", {"fail": 99, "delayLevel": 1}, deliveries=2)

    def _fails_for_good(self) -> None:
        self.direct = self._fails_until_dead("Y", {"fail": 99, "delayLevel": -1}, deliveries=1)

    def _fails_until_dead(self, tag: str, listener: Facts, *, deliveries: int) -> Letter:
        scene, group = self.scene, self.scene.retry_ready(self.scene.group(), self.topic)
        consumer = scene.push(group, {self.topic: tag}, listener=listener, maxReconsumeTimes=1)
        message = scene.message(self.topic, f"to die {tag}", tags=tag, keys=["grave"], properties={"color": "black"})
        (sent,) = scene.producer().send_ok(message)
        consumer.deliveries(deliveries, seconds=20)
        return sent, consumer.deliveries(), scene.dead_letters(group)

    def _many_fail_once(self) -> None:
        group = self.scene.retry_ready(self.scene.group(), self.other)
        self._many = self.scene.push(group, {self.other: "*"}, listener={"fail": 1, "delayLevel": 1})
        self.scene.producer().send_ok(*self.scene.messages(self.other, range(50)))
        self._many.deliveries(100, seconds=30)


@pytest.fixture(scope="module")
def retries(open_scene: Callable[[], Scene]) -> Iterator[Retries]:
    with open_scene() as scene:
        yield Retries(scene)


def test_reconsume_times(retries: Retries) -> None:
    """retry.reconsume-times, retry.no-more-after-success, retry.filter-not-reapplied"""
    assert [each["reconsumeTimes"] for each in retries.twice] == [0, 1, 2]
    assert texts(retries.twice) == ["twice"] * 3


def test_delay(retries: Retries) -> None:
    """retry.delay"""
    times = [each["at"] for each in retries.twice]
    for before, after in pairwise(times):
        assert DELAY_2_MS - 50 <= after - before <= DELAY_2_MS + 2_500


def test_identity(retries: Retries) -> None:
    """retry.identity"""
    for each in retries.twice:
        assert each["topic"] == retries.topic
        assert each["msgId"] == retries.sent["msgId"]
        assert text(each) == "twice"
        assert (each["tags"], each["keys"], each["flag"]) == ("T", "k1 k2", 5)
        assert each["properties"]["color"] == "red"


def test_origin_properties(retries: Retries) -> None:
    """retry.origin-properties"""
    for each in retries.twice[1:]:
        assert each["properties"]["RETRY_TOPIC"] == retries.topic
        assert each["properties"]["ORIGIN_MESSAGE_ID"] == retries.sent["offsetMsgId"]


def test_dead_letter(retries: Retries) -> None:
    """dlq.content"""
    sent, delivered, (letter,) = retries.dead
    assert [each["reconsumeTimes"] for each in delivered] == [0, 1]
    assert text(letter) == "to die X"
    assert (letter["tags"], letter["keys"], letter["msgId"]) == ("X", "grave", sent["msgId"])
    assert letter["properties"]["color"] == "black"
    assert letter["properties"]["RETRY_TOPIC"] == retries.topic
    assert letter["properties"]["ORIGIN_MESSAGE_ID"] == sent["offsetMsgId"]


def test_direct_dead_letter(retries: Retries) -> None:
    """dlq.direct"""
    sent, delivered, (letter,) = retries.direct
    assert len(delivered) == 1
    assert text(letter) == "to die Y"
    assert letter["msgId"] == sent["msgId"]


def test_many(retries: Retries) -> None:
    """retry.many"""
    found = Counter((text(each), each["reconsumeTimes"]) for each in retries.many)
    assert found == {(str(number), times): 1 for number in range(50) for times in (0, 1)}
