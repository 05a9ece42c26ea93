"""What changes under running clients, and client modes: permissions, more queues, heartbeats without content,
namespaces, TLS."""

from __future__ import annotations

import time
from typing import Any

from tests.builders import wait_until
from tests.compat.client_tool import Client, ClientTool, texts
from tests.compat.cluster import Cluster
from tests.compat.scene import Scene

QUICK: dict[str, Any] = {"pollNameServerInterval": 500}  # how soon a client sees a new route


def test_read_only(scene: Scene) -> None:
    """admin.perm-read-only"""
    topic, producer = scene.topic(2), scene.producer(**QUICK)
    producer.send_ok(scene.message(topic))
    scene.save_topic(topic, read=2, write=2, perm=4)
    wait_until(lambda: "error" in producer.send(scene.message(topic))[0], seconds=15)
    scene.save_topic(topic, read=2, write=2, perm=6)
    wait_until(lambda: "error" not in producer.send(scene.message(topic))[0], seconds=15)


def test_queue_growth(eager_tool: ClientTool, cluster: Cluster, admin: Client) -> None:
    """admin.queue-growth"""
    with Scene(eager_tool, cluster, admin) as scene:
        grow(scene)


def grow(scene: Scene) -> None:
    topic, producer = scene.topic(2), scene.producer(**QUICK)
    consumer = scene.push(scene.group(), {topic: "*"})
    producer.send_ok(*scene.messages(topic, ["old"] * 4))
    scene.save_topic(topic, read=4, write=4)
    wait_until(lambda: len(producer.call("fetchPublishMessageQueues", topic)) == 4, seconds=15)
    queues: set[int] = set()
    sent = 4

    def used_all() -> bool:
        nonlocal sent
        queues.update(each["queueId"] for each in producer.send_ok(*scene.messages(topic, ["new"] * 4)))
        sent += 4
        return len(queues) == 4

    wait_until(used_all, seconds=15)
    assert len(consumer.deliveries(sent)) == sent
    assert consumer.queues(topic) == [0, 1, 2, 3]


def test_heartbeat_v2(scene: Scene) -> None:
    """heartbeat.v2"""
    topic, group = scene.topic(2), scene.group()
    consumer = scene.push(group, {topic: "*"}, useHeartbeatV2=True, heartbeatBrokerInterval=300)
    producer = scene.producer(useHeartbeatV2=True, heartbeatBrokerInterval=300)
    producer.send_ok(*scene.messages(topic, range(5)))
    assert len(consumer.deliveries(5)) == 5
    time.sleep(2)  # several heartbeats without subscriptions
    assert scene.members(group) == {consumer.client_id}
    subscription = scene.ask_admin("querySubscription", group, topic)
    assert subscription["subString"] == "*"
    producer.send_ok(*scene.messages(topic, range(5, 10)))
    assert sorted(consumer.bodies(10)) == [str(number) for number in range(10)]


def test_namespace(scene: Scene) -> None:
    """namespace.v1"""
    space, topic, group = scene.name("space"), scene.name("topic"), scene.group()
    scene.topic(2, name=f"{space}%{topic}")
    consumer = scene.push(group, {topic: "*"}, namespace=space)
    scene.producer(namespace=space).send_ok(*scene.messages(topic, ["one", "two"]))
    deliveries = consumer.deliveries(2)
    assert sorted(texts(deliveries)) == ["one", "two"]
    assert {each["topic"] for each in deliveries} == {topic}
    assert sorted(texts(scene.read_all(f"{space}%{topic}", 2))) == ["one", "two"]
    assert scene.members(f"{space}%{group}") == {consumer.client_id}
    assert scene.find_route(topic) is None


def test_tls(scene: Scene) -> None:
    """tls.permissive"""
    topic = scene.topic(2)
    consumer = scene.push(scene.group(), {topic: "*"}, useTLS=True)
    scene.producer(useTLS=True).send_ok(*scene.messages(topic, ["one", "two"]))
    scene.producer().send_ok(scene.message(topic, "without"))
    assert sorted(consumer.bodies(3)) == ["one", "two", "without"]
