"""The Java client with binary (ROCKETMQ) headers, which a process chooses once for all its clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compat.client_tool import Client, Clients, ClientTool, texts
from tests.compat.cluster import Cluster
from tests.compat.scene import Scene


@pytest.fixture
def binary(
    java_classes: str, cluster: Cluster, admin: Client, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """A scene whose clients, admin included, all send binary headers."""
    home = tmp_path_factory.mktemp("binary-home")
    tool = ClientTool(java_classes, home, {"rocketmq.serialize.type": "ROCKETMQ"})
    with Clients(tool, cluster.namesrv) as clients, Scene(tool, cluster, clients.admin()) as scene:
        yield scene
    tool.close()


def test_binary_headers(binary: Scene) -> None:
    """binary.send, binary.push-consume, binary.admin"""
    topic, group = binary.topic(2), binary.group()
    consumer = binary.push(group, {topic: "*"})
    producer = binary.producer()
    results = producer.send_ok(*binary.messages(topic, ["sync 1", "sync 2"], tags="Grün", keys=["k"]))
    results += producer.send_ok(*binary.messages(topic, ["async 1", "async 2"]), mode="async")
    producer.send(binary.message(topic, "oneway"), mode="oneway")
    producer.send_ok(*binary.messages(topic, ["batch 1", "batch 2"]), mode="batch")
    sent = ["async 1", "async 2", "batch 1", "batch 2", "oneway", "sync 1", "sync 2"]
    found = consumer.deliveries(len(sent))
    assert sorted(texts(found)) == sent
    assert {each["msgId"] for each in results} <= {each["msgId"] for each in found}
    assert [each["tags"] for each in found if each["keys"] == "k"] == ["Grün", "Grün"]
    assert sum(queue["maxOffset"] for queue in binary.topic_stats(topic).values()) == len(sent)
    assert binary.members(group) == {consumer.client_id}
    route = binary.find_route(topic)
    assert route is not None
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": binary.broker}
