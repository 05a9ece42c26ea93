"""What administrators switch: reading and writing of a broker, and how often messages of a group are tried again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.builders import wait_until
from tests.compat.client_tool import text
from tests.compat.scene import Scene

NO_PERMISSION = 16
READ, WRITE = 4, 2
SEND_BACK = 36


@contextlib.contextmanager
def permission(scene: Scene, bits: int) -> Iterator[None]:
    """The broker allows this much, for a while."""
    options = ("-b", scene.broker, "-k", "brokerPermission", "-v")
    scene.mqadmin("updateBrokerConfig", *options, bits)
    try:
        yield
    finally:
        scene.mqadmin("updateBrokerConfig", *options, READ | WRITE)


def test_a_broker_that_is_only_read_gets_nothing_and_gives_all(scene: Scene) -> None:
    topic, producer = scene.topic(1), scene.producer(pollNameServerInterval=500)
    producer.send_ok(scene.message(topic, "before"))
    with permission(scene, READ):
        wait_until(lambda: "error" in producer.send(scene.message(topic, "meanwhile"))[0], seconds=15)
        assert next(text(each) for each in scene.read(topic, 0)) == "before"
    wait_until(lambda: "error" not in producer.send(scene.message(topic, "after"))[0], seconds=15)
    assert [text(each) for each in scene.read(topic, 0)][-1] == "after"


def test_a_broker_that_is_only_written_gives_nothing_and_takes_all(scene: Scene) -> None:
    topic, producer = scene.topic(1), scene.producer()
    producer.send_ok(scene.message(topic, "before", queue=0))
    group = scene.group()
    scene.save_group(group)
    pull = {
        "consumerGroup": group, "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 32, "sysFlag": 4,
        "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0, "expressionType": "TAG",
    }  # fmt: skip
    with permission(scene, WRITE):
        assert scene.raw(11, **pull)["code"] == NO_PERMISSION
        producer.send_ok(scene.message(topic, "meanwhile", queue=0))
    assert scene.raw(11, **pull)["code"] == 0
    assert [text(each) for each in scene.read(topic, 0)] == ["before", "meanwhile"]


def test_a_group_says_how_often_its_messages_are_tried_again(scene: Scene) -> None:
    """Of a client that does not say so itself."""
    topic, group = scene.topic(1), scene.group()
    scene.save_group(group, retryMaxTimes=0)
    (sent,) = scene.producer().send_ok(scene.message(topic, "fails", queue=0))
    position = int(sent["offsetMsgId"][16:], 16)
    back = {"group": group, "offset": position, "delayLevel": 0, "originMsgId": "", "originTopic": topic}
    assert scene.raw(SEND_BACK, **back, unitMode="false")["code"] == 0
    assert [text(each) for each in scene.dead_letters(group)] == ["fails"]
