"""EmberMQ's Python client beside RocketMQ's own: the same messages, and one group of both."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from hashlib import sha256

import pytest

from embermq import Client, Delivery, Message, SendReceipt
from tests.builders import wait_until
from tests.compat.client_tool import text, texts
from tests.compat.scene import Scene


@pytest.fixture
def mq(scene: Scene) -> Iterator[Client]:
    with Client(scene.namesrv, timeout=10) as client:
        yield client


class Member:
    """A Python consumer in a thread, which acks all it gets."""

    def __init__(self, mq: Client, topic: str, group: str) -> None:
        self.bodies: list[str] = []
        self._consumer = mq.consume(topic, group=group)
        self._stop = threading.Event()
        self._consumer.open()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for message in self._consumer:
            if message.body == b"the end":
                message.ack()
                return
            with message:
                self.bodies.append(message.body.decode())

    @property
    def queues(self) -> list[int]:
        membership = self._consumer._consumer._membership
        assert membership is not None
        return sorted(queue.queue for queue in membership.progress if not queue.topic.startswith("%RETRY%"))

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


def test_java_gets_what_python_sends(scene: Scene, mq: Client) -> None:
    topic = scene.topic()
    large = "large " * 5_000
    mq.send(topic, b"one", tags="A", keys=["k1", "k2"], properties={"a": "b"})
    mq.send(topic, large.encode())
    outcomes = mq.send_many(Message(topic, b"%d" % number, tags="B", keys=[f"n{number}"]) for number in range(100))
    receipts = [outcome for outcome in outcomes if isinstance(outcome, SendReceipt)]
    consumer = scene.push(scene.group(), {topic: "*"})
    deliveries = consumer.deliveries(102)
    found = {text(each): each for each in deliveries if "bodyHex" in each}
    assert set(found) == {"one", *(str(number) for number in range(100))}
    assert [each["bodySha256"] for each in deliveries if "bodyHex" not in each] == [sha256(large.encode()).hexdigest()]
    assert found["one"]["properties"]["a"] == "b"
    assert (found["one"]["properties"]["TAGS"], found["one"]["properties"]["KEYS"]) == ("A", "k1 k2")
    for number, receipt in enumerate(receipts):
        assert found[str(number)]["properties"]["UNIQ_KEY"] == receipt.unique_key
        assert found[str(number)]["queueOffset"] == receipt.offset


def test_python_gets_what_java_sends(scene: Scene, mq: Client) -> None:
    topic, producer = scene.topic(2), scene.producer()
    large = "large " * 5_000
    producer.send_ok(scene.message(topic, "one", tags="A", keys=["k1", "k2"]), scene.message(topic, large))
    producer.send_ok(*scene.messages(topic, range(20), queue=1), mode="batch")
    found = {message.body.decode(): message for message in mq.read(topic)}
    assert set(found) == {"one", large, *(str(number) for number in range(20))}
    assert (found["one"].tags, found["one"].keys) == ("A", ("k1", "k2"))


def test_both_share_the_queues_of_one_group(scene: Scene, mq: Client) -> None:
    topic, group = scene.topic(8), scene.group()
    java = scene.push(group, {topic: "*"})
    wait_until(lambda: java.queues(topic) == list(range(8)), seconds=30)
    python = Member(mq, topic, group)
    wait_until(lambda: len(java.queues(topic)) == len(python.queues) == 4, seconds=30)
    assert sorted(java.queues(topic) + python.queues) == list(range(8))

    sent = [str(number) for number in range(400)]
    mq.send_many(Message(topic, body.encode()) for body in sent)
    wait_until(lambda: len(java.deliveries()) + len(python.bodies) >= 400, seconds=30)
    assert sorted(texts(java.deliveries()) + python.bodies) == sorted(sent)
    assert python.bodies and java.deliveries()

    mq.send(topic, b"the end", queue=python.queues[0])
    python.join()
    wait_until(lambda: java.queues(topic) == list(range(8)), seconds=30)  # at once, when we leave
    mq.send_many(Message(topic, b"after", queue=queue) for queue in range(8))
    wait_until(lambda: texts(java.deliveries()).count("after") == 8, seconds=30)


def test_what_python_gives_back_comes_to_java_in_the_same_group(scene: Scene, mq: Client) -> None:
    topic, group = scene.topic(1), scene.group()
    receipt = mq.send(topic, b"try me", keys=["k"])
    for message in mq.consume(topic, group=group, timeout=20):
        assert isinstance(message, Delivery)
        message.give_back()
        break
    java = scene.push(group, {topic: "*"})
    (delivery,) = java.deliveries(1, seconds=40)
    assert text(delivery) == "try me"
    assert delivery["properties"]["UNIQ_KEY"] == receipt.unique_key
    assert delivery["reconsumeTimes"] == 1


def test_mqadmin_sees_a_python_member(scene: Scene, mq: Client) -> None:
    topic, group = scene.topic(2), scene.group()
    with mq.consume(topic, group=group, filter="A || B"):
        scene.wait_for_route(f"%RETRY%{group}")
        listed = scene.mqadmin("consumerConnection", "-g", group)
        assert "PYTHON" in listed
        assert "A || B" in listed
        status = scene.mqadmin("consumerStatus", "-g", group)
        assert "Same subscription in the same group of consumer" in status
