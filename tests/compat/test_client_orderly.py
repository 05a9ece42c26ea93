"""RocketMQ's orderly push consumer: one consumer a queue, in the order of its messages."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Client, ClientTool, Facts, text, texts, together
from tests.compat.cluster import Cluster
from tests.compat.scene import Scene

LOCK, UNLOCK = 41, 42
QUEUES = 4
ORDERLY = {"orderly": True}


class Ordered:
    """Consumers that come and go while messages arrive, one that fails for a while, and one that fails for good."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        together([self._changing_members, self._fails_for_a_while, self._fails_for_good])

    def _changing_members(self) -> None:
        scene, group = self.scene, self.scene.group()
        topic, producer = scene.topic(QUEUES), scene.producer()
        listener = {**ORDERLY, "sleepMs": 5}
        consumers = [scene.push(group, {topic: "*"}, listener=listener)]
        self.sent: list[str] = []
        for turn in range(8):
            bodies = [f"{queue} {turn * 10 + number}" for number in range(10) for queue in range(QUEUES)]
            producer.send_ok(*(scene.message(topic, body, queue=int(body[0])) for body in bodies))
            self.sent += bodies
            if turn in {1, 3}:
                consumers.append(scene.push(group, {topic: "*"}, listener=listener))
            if turn == 5:
                consumers[0].close(wait=False)
            time.sleep(0.8)

        def by_consumer() -> list[list[Facts]]:
            return [consumer.deliveries() for consumer in consumers]

        wait_until(lambda: {text(one) for each in by_consumer() for one in each} == set(self.sent), seconds=60)
        self.by_consumer = by_consumer()

    def _fails_for_a_while(self) -> None:
        topic, producer = self.scene.topic(1), self.scene.producer()
        producer.send_ok(*self.scene.messages(topic, ["a", "b"], tags="bad"), self.scene.message(topic, "c"))
        listener = {**ORDERLY, "fail": 2, "failTag": "bad", "suspendMs": 300}
        self.suspended = self.scene.push(self.scene.group(), {topic: "*"}, listener=listener).deliveries(7)

    def _fails_for_good(self) -> None:
        scene = self.scene
        topic, group = scene.topic(1), scene.group()
        scene.producer().send_ok(scene.message(topic, "bad", tags="bad"), scene.message(topic, "good"))
        listener = {**ORDERLY, "fail": 99, "failTag": "bad", "suspendMs": 100}
        consumer = scene.push(group, {topic: "*"}, listener=listener, maxReconsumeTimes=2)
        self.given_up = consumer.deliveries(4, seconds=40)
        self.origin, self.dead = topic, scene.dead_letters(group)


@pytest.fixture(scope="module")
def ordered(eager_tool: ClientTool, cluster: Cluster, admin: Client) -> Iterator[Ordered]:
    with Scene(eager_tool, cluster, admin) as scene:
        yield Ordered(scene)


def test_all_received(ordered: Ordered) -> None:
    """order.all-received, order.both-work"""
    assert {text(one) for each in ordered.by_consumer for one in each} == set(ordered.sent)
    assert sum(bool(each) for each in ordered.by_consumer) > 1


def test_one_at_a_time(ordered: Ordered) -> None:
    """order.one-at-a-time"""
    for queue in range(QUEUES):
        calls = sorted(
            (one["at"], one["until"], who)
            for who, each in enumerate(ordered.by_consumer)
            for one in each
            if one["queueId"] == queue
        )
        for (_, until, before), (at, _, after) in pairwise(calls):
            assert before == after or until <= at
        for each in ordered.by_consumer:
            offsets = [one["queueOffset"] for one in each if one["queueId"] == queue]
            assert offsets == sorted(offsets)


def test_suspend_retry(ordered: Ordered) -> None:
    """order.suspend-retry"""
    assert texts(ordered.suspended) == ["a", "a", "a", "b", "b", "b", "c"]
    assert [each["reconsumeTimes"] for each in ordered.suspended] == [0, 1, 2, 0, 1, 2, 0]


def test_max_reconsume(ordered: Ordered) -> None:
    """order.max-reconsume-dlq"""
    assert texts(ordered.given_up) == ["bad", "bad", "bad", "good"]
    assert texts(ordered.dead) == ["bad"]
    assert ordered.dead[0]["properties"]["RETRY_TOPIC"] == ordered.origin


def test_locks(scene: Scene) -> None:
    """order.lock-exclusive, order.lock-reentrant, order.lock-per-group, order.lock-release"""
    topic, group = scene.topic(2), scene.group()
    scene.save_group(group)

    def locked(client: str, *queues: int, group: str = group) -> list[int]:
        answer = scene.raw(LOCK, body=request(client, *queues, group=group))
        assert answer["code"] == 0, answer
        return sorted(queue["queueId"] for queue in json.loads(answer["body"])["lockOKMQSet"])

    def request(client: str, *queues: int, group: str = group) -> Facts:
        places = [scene.queue(topic, queue) for queue in queues]
        return {"clientId": client, "consumerGroup": group, "mqSet": places}

    assert locked("one", 0) == [0]
    assert locked("two", 0, 1) == [1]
    assert locked("one", 0) == [0]
    assert locked("three", 0, 1, group=scene.group()) == [0, 1]
    assert scene.raw(UNLOCK, body=request("two", 0))["code"] == 0  # not the owner's
    assert locked("two", 0) == []
    assert scene.raw(UNLOCK, body=request("one", 0))["code"] == 0
    assert locked("two", 0) == [0]
    assert locked("one", 0) == []
