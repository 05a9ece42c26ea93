"""mqadmin's commands about topics and their routes, and about the name server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Facts
from tests.compat.live_group import LiveGroup, rows
from tests.compat.scene import Scene

NO_PERMISSION = 16


def queue_numbers(scene: Scene, topic: str) -> tuple[int, int, int]:
    """Read queues, write queues and permission in the route."""
    route = scene.find_route(topic)
    assert route is not None
    (data,) = route["queueDatas"]
    return data["readQueueNums"], data["writeQueueNums"], data["perm"]


def test_update_topic(scene: Scene) -> None:
    """mqadmin.updateTopic-change, and a topic's creation by cluster"""
    topic = scene.name("topic")
    printed = scene.mqadmin("updateTopic", "-c", scene.cluster_name, "-t", topic, "-r", 3, "-w", 3)
    assert f"create topic to {scene.broker} success." in printed
    scene.wait_for_route(topic)
    assert queue_numbers(scene, topic) == (3, 3, 6)
    printed = scene.mqadmin("updateTopic", "-b", scene.broker, "-t", topic, "-r", 6, "-w", 5)
    assert "success" in printed
    wait_until(lambda: queue_numbers(scene, topic) == (6, 5, 6), seconds=15)


@pytest.mark.parametrize("topic", ["TBW102", "SCHEDULE_TOPIC_XXXX", "../escaped", "a b"])
def test_update_topic_illegal(scene: Scene, topic: str) -> None:
    """mqadmin.updateTopic-illegal"""
    before = scene.find_route(topic) if topic.isidentifier() else None
    printed = scene.run_mqadmin("updateTopic", "-b", scene.broker, "-t", topic, "-r", 3, "-w", 3)
    assert "success" not in printed["out"]
    assert "CODE" in printed["err"] or "Exception" in printed["err"]
    if before is None:
        assert topic not in scene.ask_admin("fetchAllTopicList")["topicList"]
    else:
        assert scene.find_route(topic) == before


@pytest.mark.parametrize(("attribute", "value"), [("message.type", "FIFO"), ("reserve.time", "3600")])
def test_attributes_of_a_topic(scene: Scene, attribute: str, value: str) -> None:
    topic = scene.name("topic")
    assert "success" in scene.mqadmin("updateTopic", "-b", scene.broker, "-t", topic, "-a", f"+{attribute}={value}")
    assert scene.ask_admin("examineTopicConfig", scene.broker, topic)["attributes"] == {attribute: value}
    printed = scene.run_mqadmin("updateTopic", "-b", scene.broker, "-t", topic, "-a", "+no.such=1")
    assert "CODE: 1 " in printed["err"]


def test_update_topic_list(scene: Scene, tmp_path: Path) -> None:
    """mqadmin.updateTopicList"""
    topics = {scene.name("listed"): (2, 3), scene.name("listed"): (5, 5)}
    configs = [
        {"topicName": name, "readQueueNums": read, "writeQueueNums": write, "perm": 6}
        for name, (read, write) in topics.items()
    ]
    (tmp_path / "topics.json").write_text(json.dumps(configs))
    printed = scene.mqadmin("updateTopicList", "-b", scene.broker, "-f", tmp_path / "topics.json")
    assert "success" in printed
    for topic, (read, write) in topics.items():
        scene.wait_for_route(topic)
        assert queue_numbers(scene, topic) == (read, write, 6)


def test_topic_route(scene: Scene) -> None:
    """mqadmin.topicRoute, mqadmin.topicRoute-list"""
    topic = scene.topic(3, write=5)
    route: Facts = json.loads(scene.mqadmin("topicRoute", "-t", topic).replace("{0:", '{"0":'))
    (broker,), (queues,) = route["brokerDatas"], route["queueDatas"]
    assert (broker["brokerName"], broker["cluster"]) == (scene.broker_name, scene.cluster_name)
    assert broker["brokerAddrs"] == {"0": scene.broker}
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 5, 6)
    table = rows(scene.mqadmin("topicRoute", "-t", topic, "-l"))
    assert table[0] == [scene.cluster_name, scene.broker_name, f"{{0={scene.broker}}}", "3", "5", "6"]
    assert table[-1] == ["Total:", "1", "3", "5"]


def test_topic_route_missing(scene: Scene) -> None:
    topic = scene.topic(1)
    printed = scene.run_mqadmin("topicRoute", "-t", f"{topic}x")
    assert printed["out"] == ""
    assert "CODE: 17" in printed["err"]
    if scene.cluster.is_ember:
        assert f"the nearest name is '{topic}'" in printed["err"]


def test_topic_list(live: LiveGroup) -> None:
    """mqadmin.topicList, mqadmin.topicList-cluster, mqadmin.topicClusterList"""
    scene = live.scene
    topics = scene.mqadmin("topicList").splitlines()
    assert live.topic in topics and f"%RETRY%{live.group}" in topics
    assert [scene.cluster_name, live.topic, live.group] in rows(scene.mqadmin("topicList", "-c"))
    assert scene.mqadmin("topicClusterList", "-t", live.topic).split() == [scene.cluster_name]


def test_topic_status(live: LiveGroup) -> None:
    table = rows(live.scene.mqadmin("topicStatus", "-t", live.topic))
    assert [row[:4] for row in table[:2]] == [[live.scene.broker_name, str(queue), "0", "6"] for queue in (0, 1)]


def test_update_topic_perm(scene: Scene) -> None:
    topic = scene.topic(2)
    printed = scene.mqadmin("updateTopicPerm", "-b", scene.broker, "-t", topic, "-p", 4)
    assert f"update topic perm from 6 to 4 in {scene.broker} success." in printed
    wait_until(lambda: queue_numbers(scene, topic) == (2, 2, 4))


def test_update_order_conf(scene: Scene) -> None:
    """mqadmin.updateOrderConf"""
    topic, conf = scene.topic(4), f"{scene.broker_name}:4"
    assert f"orderConf=[{conf}]" in scene.mqadmin("updateOrderConf", "-t", topic, "-m", "put", "-v", conf)
    assert f"orderConf=[{conf}]" in scene.mqadmin("updateOrderConf", "-t", topic, "-m", "get")
    assert "success" in scene.mqadmin("updateOrderConf", "-t", topic, "-m", "delete")
    assert conf not in scene.run_mqadmin("updateOrderConf", "-t", topic, "-m", "get")["out"]


def test_delete_topic(scene: Scene) -> None:
    """mqadmin.deleteTopic"""
    topic = scene.topic(2)
    printed = scene.mqadmin("deleteTopic", "-c", scene.cluster_name, "-t", topic)
    assert f"delete topic [{topic}] from cluster [{scene.cluster_name}] success." in printed
    assert f"delete topic [{topic}] from NameServer success." in printed
    wait_until(lambda: scene.find_route(topic) is None)
    assert topic not in scene.ask_admin("getAllTopicConfig", scene.broker, 5_000)["topicConfigTable"]


def test_allocate_queues(scene: Scene) -> None:
    topic = scene.topic(4)
    printed = json.loads(scene.mqadmin("allocateMQ", "-t", topic, "-i", "10.0.0.1,10.0.0.2"))
    assert {name: len(queues) for name, queues in printed["result"].items()} == {"10.0.0.1": 2, "10.0.0.2": 2}


def test_namesrv_config(scene: Scene) -> None:
    """mqadmin.getNamesrvConfig, mqadmin.updateNamesrvConfig"""

    def settings() -> dict[str, str]:
        lines = scene.mqadmin("getNamesrvConfig").splitlines()
        assert f"============{scene.namesrv}============" in lines
        return {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines[1:])}

    before = settings()
    assert before["listenPort"] == scene.namesrv.rsplit(":", 1)[1]
    name = "scanNotActiveBrokerInterval"
    assert "success" in scene.mqadmin("updateNamesrvConfig", "-k", name, "-v", 6_001)
    assert settings()[name] == "6001"
    scene.mqadmin("updateNamesrvConfig", "-k", name, "-v", before[name])
    assert settings() == before


@pytest.mark.parametrize("key", ["kvConfigPath", "configStorePath", "configBlackList"])
def test_namesrv_config_refused(scene: Scene, key: str) -> None:
    """mqadmin.updateNamesrvConfig-refused"""
    printed = scene.run_mqadmin("updateNamesrvConfig", "-k", key, "-v", "/tmp/escaped")
    assert "success" not in printed["out"]
    assert f"CODE: {NO_PERMISSION}" in printed["err"]
    assert "escaped" not in scene.mqadmin("getNamesrvConfig")


def test_kv_config(scene: Scene) -> None:
    """mqadmin.updateKvConfig, mqadmin.deleteKvConfig"""
    space = scene.name("space")
    assert "success" in scene.mqadmin("updateKvConfig", "-s", space, "-k", "color", "-v", "red")
    assert scene.ask_admin("getKVConfig", space, "color") == "red"
    assert "success" in scene.mqadmin("deleteKvConfig", "-s", space, "-k", "color")
    assert scene.raw(101, to=scene.namesrv, namespace=space, key="color")["code"] == 22


def test_write_permission_of_a_broker(scene: Scene) -> None:
    """mqadmin.addWritePerm"""
    topic, producer = scene.topic(2), scene.producer(pollNameServerInterval=500)
    producer.send_ok(scene.message(topic))
    try:
        assert "OK" in scene.mqadmin("wipeWritePerm", "-b", scene.broker_name)
        assert queue_numbers(scene, topic) == (2, 2, 4)
        wait_until(lambda: "error" in producer.send(scene.message(topic))[0], seconds=15)
    finally:
        printed = scene.mqadmin("addWritePerm", "-b", scene.broker_name)
    assert f"add write perm of broker[{scene.broker_name}] in name server[{scene.namesrv}] OK" in printed
    wait_until(lambda: "error" not in producer.send(scene.message(topic))[0], seconds=15)
    assert queue_numbers(scene, topic) == (2, 2, 6)
