"""RocketMQ's pull consumers, the plain and the lite one, and the offsets that they ask for."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Refused, texts
from tests.compat.scene import Scene

NO_TOPIC = 17


def filled(scene: Scene, counts: list[int], **fields: object) -> str:
    """A topic with so many messages in each queue; their bodies are `queue number`."""
    topic = scene.topic(len(counts))
    scene.producer().send_ok(
        *(
            scene.message(topic, f"{queue} {number}", queue=queue, **fields)
            for queue, count in enumerate(counts)
            for number in range(count)
        )
    )
    return topic


def bodies(queue: int, *numbers: int) -> list[str]:
    return [f"{queue} {number}" for number in numbers]


def test_lite_subscribe(scene: Scene) -> None:
    """lite.subscribe, lite.fetch-queues"""
    topic = filled(scene, [5, 3, 0])
    consumer = scene.lite(scene.group(), {topic: "*"})
    assert sorted(texts(consumer.poll(8))) == bodies(0, *range(5)) + bodies(1, *range(3))
    queues = consumer.call("fetchMessageQueues", topic)
    assert sorted(queue["queueId"] for queue in queues) == [0, 1, 2]
    assert {queue["brokerName"] for queue in queues} == {scene.broker_name}


def test_lite_tag_filter(scene: Scene) -> None:
    """lite.tag-filter"""
    topic = scene.topic(2)
    scene.producer().send_ok(*scene.messages(topic, range(6), tags="A"), *scene.messages(topic, range(6, 10), tags="B"))
    consumer = scene.lite(scene.group(), {topic: "B"})
    assert sorted(texts(consumer.poll(4))) == ["6", "7", "8", "9"]
    assert consumer.poll(1, seconds=1) == []


def test_lite_auto_commit(scene: Scene) -> None:
    """lite.auto-commit-resume"""
    topic, group = filled(scene, [6, 6]), scene.group()
    first = scene.lite(group, {topic: "*"}, autoCommitIntervalMillis=1_000)
    assert len(first.poll(12)) == 12
    first.poll(1, seconds=1.5)  # commits what the poll before it gave
    first.close()
    stats = scene.consume_stats(group, topic)
    assert {queue: each["consumerOffset"] for queue, each in stats.items()} == {0: 6, 1: 6}
    scene.producer().send_ok(*scene.messages(topic, ["later", "later"]))
    second = scene.lite(group, {topic: "*"})
    assert texts(second.poll(2)) == ["later", "later"]
    assert second.poll(1, seconds=1) == []


def test_lite_assign_and_seek(scene: Scene) -> None:
    """lite.assign, lite.seek, lite.seek-end, lite.committed"""
    topic = filled(scene, [8, 8])
    consumer = scene.lite(scene.group(), autoCommit=False)
    place = scene.queue(topic, 1)
    consumer.call("assign", [place])
    # Sought before its first pull is answered, this client may still hand out what that pull brings.
    assert texts(consumer.poll(8)) == bodies(1, *range(8))
    consumer.call("seek", place, 5)
    assert texts(consumer.poll(3)) == bodies(1, 5, 6, 7)
    assert consumer.poll(1, seconds=1) == []
    consumer.call("seek", place, 2)
    assert texts(consumer.poll(6)) == bodies(1, *range(2, 8))
    consumer.call("commitSync")
    wait_until(lambda: consumer.call("committed", place) == 8)
    consumer.call("seekToBegin", place)
    assert texts(consumer.poll(8)) == bodies(1, *range(8))
    consumer.call("seekToEnd", place)
    assert consumer.poll(1, seconds=1) == []
    scene.producer().send_ok(scene.message(topic, "later", queue=1), scene.message(topic, "elsewhere", queue=0))
    assert texts(consumer.poll(1)) == ["later"]


def test_search_by_time(scene: Scene) -> None:
    """lite.offset-for-timestamp, pull.search-offset, pull.search-offset-boundary, pull.earliest-store-time"""
    topic, producer = scene.topic(2), scene.producer()
    for number in range(4):
        producer.send_ok(scene.message(topic, str(number), queue=0))
        time.sleep(0.03)
    times = [message["storeTimestamp"] for message in scene.read(topic, 0)]
    place, pull = scene.queue(topic, 0), scene.pull(scene.group())
    lite = scene.lite(scene.group(), {topic: "*"})
    for asked, first in [(times[0] - 9_999, 0), (times[1], 1), (times[1] + 1, 2), (times[3], 3), (times[3] + 9_999, 4)]:
        assert pull.call("searchOffset", place, asked) == first
        assert lite.call("offsetForTimestamp", place, asked) == first
        assert scene.ask_admin("searchLowerBoundaryOffset", place, asked) == first
    for asked, last in [(times[0], 0), (times[2] - 1, 1), (times[2], 2), (times[2] + 1, 2), (times[3] + 9_999, 3)]:
        assert scene.ask_admin("searchUpperBoundaryOffset", place, asked) == last
    assert pull.call("earliestMsgStoreTime", place) == times[0]
    assert pull.call("earliestMsgStoreTime", scene.queue(topic, 1)) == -1


def test_min_max_offset(scene: Scene) -> None:
    """pull.min-max-offset"""
    topic, pull = filled(scene, [5, 2, 0]), scene.pull(scene.group())
    for queue, count in enumerate([5, 2, 0]):
        place = scene.queue(topic, queue)
        assert (pull.call("minOffset", place), pull.call("maxOffset", place)) == (0, count)


def test_pull_statuses(scene: Scene) -> None:
    """pull.status-found, pull.status-no-new, pull.status-illegal, pull.status-no-match, pull.result-min-max"""
    topic, pull = filled(scene, [10], tags="A"), scene.pull(scene.group())
    place = scene.queue(topic, 0)
    found = pull.call("pull", place, "*", 3, 4)
    assert (found["status"], found["nextOffset"]) == ("FOUND", 7)
    assert texts(found["messages"]) == bodies(0, 3, 4, 5, 6)
    nothing = pull.call("pull", place, "*", 10, 4)
    assert (nothing["status"], nothing["nextOffset"], nothing["messages"]) == ("NO_NEW_MSG", 10, [])
    illegal = pull.call("pull", place, "*", 1_000, 4)
    assert (illegal["status"], illegal["nextOffset"], illegal["messages"]) == ("OFFSET_ILLEGAL", 10, [])
    no_match = pull.call("pull", place, "nobody-has-it", 2, 4)
    assert (no_match["status"], no_match["messages"]) == ("NO_MATCHED_MSG", [])
    assert no_match["nextOffset"] > 2
    for each in (found, nothing, illegal, no_match):
        assert (each["minOffset"], each["maxOffset"]) == (0, 10)


def test_pull_blocks(scene: Scene) -> None:
    """pull.block-if-not-found"""
    topic, pull, producer = filled(scene, [3]), scene.pull(scene.group()), scene.producer()
    producer.send_ok(scene.message(scene.topic(1), "so that it has a connection"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pull.call, "pullBlockIfNotFound", scene.queue(topic, 0), "*", 3, 32)
        time.sleep(1)
        assert not waiting.done()
        producer.send_ok(scene.message(topic, "at last"))
        sent = time.monotonic()
        found = waiting.result(10)
    assert texts(found["messages"]) == ["at last"]
    assert time.monotonic() - sent < 2


def test_pull_refused(scene: Scene) -> None:
    """pull.unknown-topic, pull.bad-queue"""
    topic, pull = filled(scene, [1]), scene.pull(scene.group())
    assert pull.call("pull", scene.queue(topic, 0), "*", 0, 1)["status"] == "FOUND"
    for place in (scene.queue(topic, 1), scene.queue(topic, 99)):
        with pytest.raises(Refused) as refused:
            pull.call("pull", place, "*", 0, 1)
        assert refused.value.type == "MQBrokerException"
    with pytest.raises(Refused) as refused:
        pull.call("pull", scene.queue(scene.name("unknown"), 0), "*", 0, 1)
    assert refused.value.code == NO_TOPIC
