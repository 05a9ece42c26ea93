"""What changes under running clients, and client modes: permissions, more queues, heartbeats without content,
namespaces, TLS."""

from __future__ import annotations

import time
from typing import Any

import pytest

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


def test_namespace_of_the_second_kind(scene: Scene) -> None:
    """Told in a field of its own; names stay as they are."""
    topic, group, space = scene.topic(2), scene.group(), {"namespaceV2": scene.name("space")}
    consumer = scene.push(group, {topic: "*"}, **space)
    scene.producer(**space).send_ok(*scene.messages(topic, ["one", "two"]))
    assert sorted(consumer.bodies(2)) == ["one", "two"]
    assert scene.members(group) == {consumer.client_id}


def test_unit_mode(scene: Scene) -> None:
    topic, group = scene.topic(1), scene.group()
    consumer = scene.push(group, {topic: "*"}, unitMode=True, unitName="unit-1")
    scene.producer(unitName="unit-1").send_ok(scene.message(topic, "of a unit"))
    assert consumer.bodies(1) == ["of a unit"]
    assert consumer.client_id.endswith("@unit-1")
    assert scene.ask_admin("examineTopicConfig", scene.broker, f"%RETRY%{group}")["topicSysFlag"] == 2


@pytest.mark.parametrize("tells_filter", [False, True], ids=["of its group", "of its own"])
def test_another_subscription_while_it_runs(scene: Scene, tells_filter: bool) -> None:
    """A pull that waits with the old filter passes over nothing that the new one wants."""
    if not scene.cluster.is_ember:
        pytest.skip("RocketMQ's broker may pass over it")
    topic, producer = scene.topic(1), scene.producer()
    settings = {"heartbeatBrokerInterval": 500, "postSubscriptionWhenPull": tells_filter}
    consumer = scene.push(scene.group(), {topic: "A"}, **settings)
    # What is not wanted comes first: a pull that waited before it would ask for it again, with the new filter.
    producer.send_ok(scene.message(topic, "b1", tags="B"), scene.message(topic, "a1", tags="A"))
    assert consumer.bodies(1) == ["a1"]
    consumer.call("subscribe", topic, "B")
    group = consumer.call("getConsumerGroup")
    wait_until(lambda: scene.ask_admin("querySubscription", group, topic)["subString"] == "B", seconds=15)
    producer.send_ok(scene.message(topic, "b2", tags="B"))
    assert consumer.bodies(2) == ["a1", "b2"]
    producer.send_ok(scene.message(topic, "a2", tags="A"), scene.message(topic, "b3", tags="B"))
    assert consumer.bodies(3) == ["a1", "b2", "b3"]


def test_a_topic_that_is_made_again_begins_anew(scene: Scene) -> None:
    topic, group, producer = scene.topic(1), scene.group(), scene.producer()
    producer.send_ok(*scene.messages(topic, range(5)))
    first = scene.push(group, {topic: "*"})
    assert len(first.deliveries(5)) == 5
    first.close()
    scene.mqadmin("deleteTopic", "-c", scene.cluster_name, "-t", topic)
    scene.topic(1, name=topic)
    (sent,) = producer.send_ok(scene.message(topic, "new"))
    assert sent["queueOffset"] == 0
    assert scene.push(group, {topic: "*"}).bodies(1) == ["new"]


def test_a_group_that_is_deleted_under_its_consumer_goes_on(scene: Scene) -> None:
    topic, group, producer = scene.topic(1), scene.group(), scene.producer()
    consumer = scene.push(group, {topic: "*"}, heartbeatBrokerInterval=500)
    producer.send_ok(scene.message(topic, "before"))
    assert consumer.bodies(1) == ["before"]
    scene.ask_admin("deleteSubscriptionGroup", scene.broker, group, True)
    producer.send_ok(scene.message(topic, "after"))
    assert consumer.bodies(2) == ["before", "after"]


def test_a_group_that_may_not_consume_waits_until_it_may(scene: Scene) -> None:
    topic, group = scene.topic(1), scene.group()
    scene.save_group(group, consumeEnable=False)
    consumer = scene.push(group, {topic: "*"})
    scene.producer().send_ok(scene.message(topic, "for later"))
    assert consumer.bodies(1, seconds=3) == []
    scene.save_group(group, consumeEnable=True)
    assert consumer.bodies(1) == ["for later"]
