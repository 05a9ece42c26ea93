"""Name server and routes, as RocketMQ's Java client sees them."""

from __future__ import annotations

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Refused
from tests.compat.scene import Scene

GET_ROUTE = 105
NO_ENTRY, NO_TOPIC = 22, 17
DEAD = "127.0.0.1:1"  # nothing listens there


def code_of(refused: pytest.ExceptionInfo[Refused]) -> int | None:
    return refused.value.code


def test_route_unknown_topic(scene: Scene) -> None:
    """route.unknown-topic"""
    with pytest.raises(Refused) as refused:
        scene.ask_admin("examineTopicRouteInfo", scene.name("unknown"))
    assert code_of(refused) == NO_TOPIC


def test_route_master_address(scene: Scene) -> None:
    """route.master-address"""
    route = scene.find_route(scene.topic())
    assert route is not None
    (broker,) = route["brokerDatas"]
    assert broker["brokerName"] == scene.broker_name
    assert broker["cluster"] == scene.cluster_name
    assert broker["brokerAddrs"] == {"0": scene.broker}


def test_route_cluster_info(scene: Scene) -> None:
    """route.cluster-info"""
    info = scene.ask_admin("examineBrokerClusterInfo")
    assert info["clusterAddrTable"] == {scene.cluster_name: [scene.broker_name]}
    assert info["brokerAddrTable"][scene.broker_name]["brokerAddrs"] == {"0": scene.broker}
    assert info["brokerAddrTable"][scene.broker_name]["cluster"] == scene.cluster_name


def test_route_topic_list(scene: Scene) -> None:
    """route.topic-list, route.topics-by-cluster"""
    topic, unknown = scene.topic(), scene.name("unknown")
    everywhere = scene.ask_admin("fetchAllTopicList")["topicList"]
    in_cluster = scene.ask_admin("fetchTopicsByCLuster", scene.cluster_name)["topicList"]
    assert topic in everywhere and topic in in_cluster
    assert unknown not in everywhere and unknown not in in_cluster


def test_route_created_queue_nums(scene: Scene) -> None:
    """route.created-queue-nums"""
    route = scene.find_route(scene.topic(3, write=5))
    assert route is not None
    (queues,) = route["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 5, 6)
    assert queues["brokerName"] == scene.broker_name


def test_route_publish_queues(scene: Scene) -> None:
    """route.publish-queues"""
    topic = scene.topic(3, write=5)
    publish = scene.producer().call("fetchPublishMessageQueues", topic)
    subscribe = scene.pull(scene.group()).call("fetchSubscribeMessageQueues", topic)
    assert sorted(queue["queueId"] for queue in publish) == [0, 1, 2, 3, 4]
    assert sorted(queue["queueId"] for queue in subscribe) == [0, 1, 2]


def test_route_two_name_servers_one_down(scene: Scene) -> None:
    """route.two-namesrv-one-down.producer, route.two-namesrv-one-down.consumer"""
    topic, group, both = scene.topic(), scene.group(), f"{DEAD};{scene.namesrv}"
    producer = scene.producer(namesrvAddr=both, pollNameServerInterval=1_000)
    # The client tries one address a call: the first call may meet the dead one.
    wait_until(lambda: "status" in producer.send(scene.message(topic, "first"))[0])
    consumer = None

    def starts() -> bool:
        nonlocal consumer
        try:
            consumer = scene.push(group, {topic: "*"}, namesrvAddr=both)
        except Refused:
            return False
        return True

    wait_until(starts, seconds=30)
    assert consumer is not None
    producer.send_ok(scene.message(topic, "second"))
    assert sorted(consumer.bodies(2, seconds=40)) == ["first", "second"]


def test_route_kv_config(scene: Scene) -> None:
    """route.kv-config"""
    space, key = scene.name("space"), scene.name("key")

    def find() -> object:
        return scene.ask_admin("getKVConfig", space, key)

    with pytest.raises(Refused) as missing:
        find()
    assert code_of(missing) == NO_ENTRY
    scene.ask_admin("createAndUpdateKvConfig", space, key, "größe 大;=:")
    scene.ask_admin("createAndUpdateKvConfig", space, "other", "2")
    assert find() == "größe 大;=:"
    assert scene.ask_admin("getKVListByNamespace", space)["table"] == {key: "größe 大;=:", "other": "2"}
    scene.ask_admin("deleteKvConfig", space, key)
    with pytest.raises(Refused) as missing:
        find()
    assert code_of(missing) == NO_ENTRY
    assert scene.ask_admin("getKVListByNamespace", space)["table"] == {"other": "2"}


def test_route_order_conf(scene: Scene) -> None:
    """route.order-conf"""
    topic, conf = scene.topic(order=True), f"{scene.broker_name}:4"
    scene.ask_admin("createOrUpdateOrderConf", topic, conf, True)
    route = scene.find_route(topic)
    assert route is not None
    assert route["orderTopicConf"] in {None, conf}  # a name server may leave it to the entry
    assert scene.ask_admin("getKVConfig", "ORDER_TOPIC_CONFIG", topic) == conf


def test_route_delete_topic(scene: Scene) -> None:
    """route.delete-topic"""
    topic = scene.topic()
    scene.ask_admin("deleteTopicInBroker", [scene.broker], topic)
    scene.ask_admin("deleteTopicInNameServer", [scene.namesrv], topic)
    wait_until(lambda: scene.find_route(topic) is None)
    assert topic not in scene.ask_admin("fetchAllTopicList")["topicList"]
    answer = scene.raw(GET_ROUTE, to=scene.namesrv, topic=topic)
    assert answer["code"] == NO_TOPIC


@pytest.mark.parametrize("to", ["namesrv", "broker"])
def test_route_oneway_unanswered(scene: Scene, to: str) -> None:
    """route.oneway-unanswered"""
    topic = scene.topic()
    address, code = (scene.namesrv, GET_ROUTE) if to == "namesrv" else (scene.broker, 30)
    for _ in range(20):
        scene.raw(code, to=address, oneway=True, topic=topic, queueId=0)
    answer = scene.raw(code, to=address, topic=topic, queueId=0)
    assert answer["code"] == 0
    assert answer["fields"].get("offset") == (None if to == "namesrv" else "0")
