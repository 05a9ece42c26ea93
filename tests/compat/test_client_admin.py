"""What RocketMQ's admin client finds out about topics, groups, clients and the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Facts, Refused, text
from tests.compat.scene import Scene

NO_TOPIC, NO_GROUP = 17, 26


class Consumed:
    """A topic whose messages a group consumes, with a subscription by tags."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.topic, self.group = scene.topic(2), scene.group()
        sent = [scene.message(self.topic, str(number), tags="A", queue=number % 2) for number in range(10)]
        self.sent = scene.producer().send_ok(*sent)
        self.consumer = scene.push(self.group, {self.topic: "A || B"}, persistConsumerOffsetInterval=500)
        assert len(self.consumer.deliveries(10)) == 10
        self.stored = [scene.read(self.topic, queue) for queue in (0, 1)]


@pytest.fixture(scope="module")
def consumed(open_scene: Callable[[], Scene]) -> Iterator[Consumed]:
    with open_scene() as scene:
        yield Consumed(scene)


def test_topic_stats(scene: Scene) -> None:
    """admin.topic-stats, admin.topic-stats-unknown"""
    topic = scene.topic(3)
    scene.producer().send_ok(*(scene.message(topic, queue=queue) for queue in (0, 0, 1)))
    last = [max((each["storeTimestamp"] for each in scene.read(topic, queue)), default=0) for queue in range(3)]
    stats = scene.topic_stats(topic)
    assert [stats[queue]["minOffset"] for queue in range(3)] == [0, 0, 0]
    assert [stats[queue]["maxOffset"] for queue in range(3)] == [2, 1, 0]
    assert [stats[queue]["lastUpdateTimestamp"] for queue in range(3)] == last
    with pytest.raises(Refused) as refused:
        scene.ask_admin("examineTopicStats", scene.broker, scene.name("unknown"))
    assert refused.value.code == NO_TOPIC


def test_consume_stats(scene: Scene) -> None:
    """admin.consume-stats-pull-offset, admin.consume-stats-last-time"""
    topic, group = scene.topic(2), scene.group()
    scene.producer().send_ok(*(scene.message(topic, queue=queue) for queue in (0, 0, 0, 1, 1)))
    scene.save_group(group)
    stored, pull = scene.read(topic, 0), scene.pull(group)
    for queue, offset in ((0, 2), (1, 0)):
        pull.call("updateConsumeOffsetToBroker", scene.queue(topic, queue), offset, False, part="offsetStore")
    stats = scene.consume_stats(group, topic)
    assert {queue: each["consumerOffset"] for queue, each in stats.items()} == {0: 2, 1: 0}
    assert {queue: each["brokerOffset"] for queue, each in stats.items()} == {0: 3, 1: 2}
    assert all(each["pullOffset"] >= each["consumerOffset"] for each in stats.values())
    assert stats[0]["lastTimestamp"] == stored[1]["storeTimestamp"]


def test_running_info(consumed: Consumed) -> None:
    """admin.running-info-jstack"""
    client = consumed.consumer.client_id
    info = consumed.scene.ask_admin("getConsumerRunningInfo", consumed.group, client, True)
    assert "embermq" in info["jstack"] or "java.lang.Thread" in info["jstack"]
    assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert {f"{consumed.topic}/0", f"{consumed.topic}/1"} <= set(info["mqTable"])
    assert consumed.topic in {each["topic"] for each in info["subscriptionSet"]}
    assert consumed.scene.ask_admin("getConsumerRunningInfo", consumed.group, client, False)["jstack"] is None


def test_consume_status(consumed: Consumed) -> None:
    """admin.consume-status"""
    status = consumed.scene.ask_admin("getConsumeStatus", consumed.topic, consumed.group, "")
    assert status == {consumed.consumer.client_id: {f"{consumed.topic}/0": 5, f"{consumed.topic}/1": 5}}


def test_consume_directly(consumed: Consumed) -> None:
    """admin.consume-directly"""
    before = len(consumed.consumer.deliveries())
    arguments = (consumed.group, consumed.consumer.client_id, consumed.topic, consumed.sent[3]["msgId"])
    result = consumed.scene.ask_admin("consumeMessageDirectly", *arguments)
    assert result["consumeResult"] == "CR_SUCCESS"
    deliveries = consumed.consumer.deliveries(before + 1)
    assert len(deliveries) == before + 1
    assert (text(deliveries[-1]), deliveries[-1]["msgId"]) == ("3", consumed.sent[3]["msgId"])


def test_connection_info(consumed: Consumed) -> None:
    """admin.connection-info"""
    info = consumed.scene.ask_admin("examineConsumerConnectionInfo", consumed.group)
    (connection,) = info["connectionSet"]
    assert connection["clientId"] == consumed.consumer.client_id
    assert connection["clientAddr"].startswith("127.0.0.1:")
    assert (connection["language"], connection["version"]) == ("JAVA", 479)
    assert (info["consumeType"], info["messageModel"]) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert info["consumeFromWhere"] == "CONSUME_FROM_FIRST_OFFSET"
    assert set(info["subscriptionTable"]) == {consumed.topic, f"%RETRY%{consumed.group}"}
    assert info["subscriptionTable"][consumed.topic]["subString"] == "A || B"


def test_query_topic_consume_by_who(consumed: Consumed) -> None:
    """admin.query-topic-consume-by-who"""
    scene = consumed.scene

    def groups() -> set[str]:
        return set(scene.ask_admin("queryTopicConsumeByWho", consumed.topic)["groupList"])

    # RocketMQ lists a group when it has offsets, and the topic's own name (B-16); we list it at once, and only groups.
    wait_until(lambda: consumed.group in groups(), seconds=15)
    if scene.cluster.is_ember:
        assert consumed.topic not in groups()


def test_query_subscription(consumed: Consumed) -> None:
    """admin.query-subscription"""
    found = consumed.scene.ask_admin("querySubscription", consumed.group, consumed.topic)
    assert (found["topic"], found["subString"]) == (consumed.topic, "A || B")
    assert sorted(found["tagsSet"]) == ["A", "B"]


def test_consume_time_span(consumed: Consumed) -> None:
    """admin.consume-time-span"""
    spans = consumed.scene.ask_admin("queryConsumeTimeSpan", consumed.topic, consumed.group)
    by_queue = {span["messageQueue"]["queueId"]: span for span in spans}
    assert sorted(by_queue) == [0, 1]
    for queue, stored in enumerate(consumed.stored):
        assert by_queue[queue]["minTimeStamp"] == stored[0]["storeTimestamp"]
        assert by_queue[queue]["maxTimeStamp"] == stored[-1]["storeTimestamp"]


def test_broker_stats(scene: Scene) -> None:
    """admin.broker-stats"""
    topic = scene.topic(2)
    scene.producer().send_ok(*scene.messages(topic, range(10)))

    def counted() -> int:
        try:
            stats = scene.ask_admin("viewBrokerStatsData", scene.broker, "TOPIC_PUT_NUMS", topic)
        except Refused:
            return 0
        found: int = stats["statsMinute"]["sum"]
        return found

    wait_until(lambda: counted() == 10, seconds=75)


def test_topic_config(scene: Scene) -> None:
    """admin.create-topic-order"""
    ordered, plain = scene.topic(3, order=True), scene.topic(2, write=1)
    config = scene.ask_admin("examineTopicConfig", scene.broker, ordered)
    assert (config["order"], config["readQueueNums"], config["writeQueueNums"]) == (True, 3, 3)
    config = scene.ask_admin("examineTopicConfig", scene.broker, plain)
    assert (config["order"], config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (False, 2, 1, 6)


def test_write_only(scene: Scene) -> None:
    """admin.perm-write-only"""
    topic = scene.topic(2, perm=2)
    scene.producer().send_ok(scene.message(topic))
    with pytest.raises(Refused) as refused:
        scene.pull(scene.group()).call("fetchSubscribeMessageQueues", topic)
    assert refused.value.type == "MQClientException"


def test_subscription_groups(scene: Scene) -> None:
    """admin.subscription-group, admin.subscription-group-unknown, admin.all-subscription-groups"""
    group = scene.group()
    wanted = {"retryMaxTimes": 3, "consumeEnable": False, "consumeBroadcastEnable": False, "consumeTimeoutMinute": 7}
    scene.save_group(group, **wanted)
    found = scene.ask_admin("examineSubscriptionGroupConfig", scene.broker, group)
    assert found["groupName"] == group
    assert {name: found[name] for name in wanted} == wanted
    every = scene.ask_admin("getAllSubscriptionGroup", scene.broker, 5_000)["subscriptionGroupTable"]
    assert every[group]["retryMaxTimes"] == 3
    try:
        unknown = scene.ask_admin("examineSubscriptionGroupConfig", scene.broker, scene.group())
    except Refused as refused:
        assert refused.code == NO_GROUP
    else:
        assert unknown is None or unknown["retryMaxTimes"] == 16


@pytest.mark.parametrize(
    ("kind", "name", "policy"),
    [
        ("EXPONENTIAL", "exponentialRetryPolicy", {"initial": 1_000, "max": 60_000, "multiplier": 3}),
        ("CUSTOMIZED", "customizedRetryPolicy", {"next": [1_000, 2_000, 3_000]}),
    ],
)
def test_the_retry_policy_of_a_group_is_kept(scene: Scene, kind: str, name: str, policy: Facts) -> None:
    group = scene.group()
    scene.save_group(group, groupRetryPolicy={"type": kind, name: policy})
    found = scene.ask_admin("examineSubscriptionGroupConfig", scene.broker, group)["groupRetryPolicy"]
    assert found["type"] == kind
    assert policy.items() <= found[name].items()


def test_group_that_may_not_consume(scene: Scene) -> None:
    """A group that is switched off gets nothing; switched on again, it gets all."""
    topic, group = scene.topic(1), scene.group()
    scene.save_group(group, consumeEnable=False)
    consumer = scene.push(group, {topic: "*"})
    scene.producer().send_ok(*scene.messages(topic, range(3)))
    wait_until(lambda: consumer.queues(topic) == [0], seconds=15)
    assert consumer.deliveries(1, seconds=2) == []
    scene.save_group(group, consumeEnable=True)
    assert sorted(consumer.bodies(3)) == ["0", "1", "2"]


def test_delete_group_with_offsets(scene: Scene) -> None:
    """admin.delete-group-offsets"""
    topic, group = scene.topic(1), scene.group()
    scene.producer().send_ok(*scene.messages(topic, range(5)))
    first = scene.push(group, {topic: "*"})
    assert len(first.deliveries(5)) == 5
    first.close()
    assert scene.consume_stats(group, topic)[0]["consumerOffset"] == 5
    scene.ask_admin("deleteSubscriptionGroup", scene.broker, group, True)
    again = scene.push(group, {topic: "*"})
    assert sorted(again.bodies(5)) == ["0", "1", "2", "3", "4"]


def test_runtime_stats(scene: Scene) -> None:
    """admin.runtime-stats"""
    topic = scene.topic(1)
    scene.producer().send_ok(scene.message(topic))
    table = scene.ask_admin("fetchBrokerRuntimeStats", scene.broker)["table"]
    assert table["brokerVersionDesc"].startswith("V")
    assert int(table["bootTimestamp"]) > 1_600_000_000_000
    assert int(table["msgPutTotalTodayNow"]) >= 1
    assert int(table["commitLogMaxOffset"]) > 0
    # The names that clusterList, brokerStatus and exportMetrics read.
    for name in ("putTps", "getTransferredTps", "sendThreadPoolQueueSize", "pullThreadPoolQueueSize", "brokerActive"):
        assert name in table
    for name in ("msgPutTotalTodayMorning", "msgGetTotalTodayMorning", "msgGetTotalTodayNow", "commitLogDiskRatio"):
        float(table[name])


def test_producer_connection(scene: Scene) -> None:
    """admin.producer-gone"""
    topic, group = scene.topic(1), scene.group()
    producer = scene.producer(group)
    producer.send_ok(scene.message(topic))

    def ids() -> set[str]:
        try:
            found = scene.ask_admin("examineProducerConnectionInfo", group, topic)["connectionSet"]
        except Refused:
            return set()
        return {each["clientId"] for each in found}

    wait_until(lambda: ids() == {producer.client_id})
    every = scene.ask_admin("getAllProducerInfo", scene.broker)["data"]
    assert [each["clientId"] for each in every[group]] == [producer.client_id]
    producer.close()
    wait_until(lambda: ids() == set())
    assert not scene.ask_admin("getAllProducerInfo", scene.broker)["data"].get(group)


def test_broker_config(scene: Scene) -> None:
    """admin.broker-config"""
    config = scene.ask_admin("getBrokerConfig", scene.broker)
    assert config["brokerName"] == scene.broker_name
    assert config["brokerClusterName"] == scene.cluster_name
