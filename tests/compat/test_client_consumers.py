"""RocketMQ's Java push consumer: who gets which messages, and from where."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Client, ClientTool, texts, together
from tests.compat.cluster import Cluster
from tests.compat.scene import Scene


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


def test_clustering(scene: Scene) -> None:
    """consumer.clustering-split, consumer.leave-rebalance, consumer.leave-rest-delivered"""
    topic, group = scene.topic(8), scene.group()
    first, second = scene.push(group, {topic: "*"}), scene.push(group, {topic: "*"})
    wait_until(lambda: len(first.queues(topic)) == len(second.queues(topic)) == 4, seconds=15)
    assert sorted(first.queues(topic) + second.queues(topic)) == list(range(8))
    third = scene.push(group, {topic: "*"})
    wait_until(lambda: sorted(len(each.queues(topic)) for each in (first, second, third)) == [2, 3, 3], seconds=15)
    together([first.close, third.close])
    wait_until(lambda: second.queues(topic) == list(range(8)), seconds=8)
    scene.producer().send_ok(*(scene.message(topic, str(queue), queue=queue) for queue in range(8)))
    assert sorted(second.bodies(8)) == numbers(8)


def test_broadcast(scene: Scene) -> None:
    """consumer.broadcast"""
    topic, group = scene.topic(), scene.group()
    both = [scene.push(group, {topic: "*"}, messageModel="BROADCASTING") for _ in range(2)]
    scene.producer().send_ok(*scene.messages(topic, range(20)))
    scene.producer().send_ok(scene.message(topic, "last"))
    for consumer in both:
        assert sorted(consumer.bodies(21)) == sorted([*numbers(20), "last"])


def test_two_groups_and_two_topics(scene: Scene) -> None:
    """consumer.two-groups, consumer.two-topics"""
    first, second = scene.topic(), scene.topic()
    one = scene.push(scene.group(), {first: "*"})
    two = scene.push(scene.group(), {first: "*", second: "*"})
    scene.producer().send_ok(*scene.messages(first, range(20)), *scene.messages(second, range(20, 30)))
    assert sorted(one.bodies(20)) == sorted(numbers(20))
    assert sorted(two.bodies(30)) == sorted(numbers(30))
    assert Counter(each["topic"] for each in two.deliveries()) == {first: 20, second: 10}


def test_same_queue_order(scene: Scene) -> None:
    """consumer.same-queue-order"""
    topic = scene.topic(1)
    scene.producer().send_ok(*scene.messages(topic, range(200)))
    consumer = scene.push(scene.group(), {topic: "*"}, consumeThreadMin=1, consumeThreadMax=1)
    found = consumer.deliveries(200)
    assert texts(found) == numbers(200)
    assert [each["queueOffset"] for each in found] == list(range(200))


def test_tags(scene: Scene) -> None:
    """consumer.tag-single, consumer.tag-star, consumer.tag-live, consumer.tag-offset-advances"""
    topic, producer = scene.topic(2), scene.producer()
    tags = ["A", "B", "C", None]

    def some(first: int) -> list[dict[str, object]]:
        pairs = [(number, tags[number % 4]) for number in range(first, first + 24)]
        # Every tag reaches both queues.
        return [
            scene.message(topic, str(number), queue=number // 4 % 2, **({"tags": tag} if tag else {}))
            for number, tag in pairs
        ]

    producer.send_ok(*some(0))
    group = scene.group()
    only_c = scene.push(group, {topic: "C"}, persistConsumerOffsetInterval=500)
    several = scene.push(scene.group(), {topic: "A || C"})
    everything = scene.push(scene.group(), {topic: "*"})
    assert len(everything.deliveries(24)) == 24
    only_c.deliveries(6)
    producer.send_ok(*some(24))  # the pulls wait now
    wanted = {tag: [str(number) for number in range(48) if tags[number % 4] == tag] for tag in tags}
    assert sorted(everything.bodies(48)) == sorted(numbers(48))
    assert sorted(only_c.bodies(12)) == sorted(wanted["C"])
    assert sorted(several.bodies(24)) == sorted(wanted["A"] + wanted["C"])
    producer.send_ok(*(scene.message(topic, tags="A", queue=queue) for queue in (0, 1)))  # behind the last C
    assert len(several.deliveries(26)) == 26

    def offsets(name: str) -> list[int]:
        return [each[name] for each in scene.consume_stats(group, topic).values()]

    # Nobody wakes a pull for messages that it does not want; it moves on when it has waited, at most 5 s.
    wait_until(lambda: min(offsets("pullOffset")) >= max(offsets("brokerOffset")), seconds=12)
    # The client notes that only while it has no message under way, and otherwise after its next pull, 15 s later.
    wait_until(
        lambda: offsets("consumerOffset") == offsets("brokerOffset") == [25, 25],
        seconds=30,
        show=lambda: scene.consume_stats(group, topic),
    )
    only_c.close()
    assert offsets("consumerOffset") == [25, 25]
    assert len(only_c.deliveries()) == 12


def test_from_first(scene: Scene) -> None:
    """consumer.from-first"""
    topic = scene.topic()
    scene.producer().send_ok(*scene.messages(topic, range(20)))
    consumer = scene.push(scene.group(), {topic: "*"}, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET")
    assert sorted(consumer.bodies(20)) == sorted(numbers(20))


def test_from_last(scene: Scene) -> None:
    """consumer.from-last"""
    topic = scene.topic()
    producer = scene.producer()
    producer.send_ok(*scene.messages(topic, ["before"] * 8))
    consumer = scene.push(scene.group(), {topic: "*"}, consumeFromWhere="CONSUME_FROM_LAST_OFFSET")
    wait_until(lambda: consumer.queues(topic) == [0, 1, 2, 3], seconds=15)
    producer.send_ok(*scene.messages(topic, range(20)))
    wait_until(lambda: set(numbers(20)) <= set(consumer.bodies()), seconds=15)
    assert sorted(body for body in consumer.bodies() if body != "before") == sorted(numbers(20))


def test_from_timestamp(scene: Scene) -> None:
    """consumer.from-timestamp"""
    topic = scene.topic()
    producer = scene.producer()
    producer.send_ok(*scene.messages(topic, ["before"] * 8))
    now = time.time()
    time.sleep(1 - now % 1)  # the client names the time in whole seconds
    since = datetime.fromtimestamp(int(now) + 1).strftime("%Y%m%d%H%M%S")
    producer.send_ok(*scene.messages(topic, range(20)))
    settings = {"consumeFromWhere": "CONSUME_FROM_TIMESTAMP", "consumeTimestamp": since}
    consumer = scene.push(scene.group(), {topic: "*"}, **settings)
    wait_until(lambda: set(numbers(20)) <= set(consumer.bodies()), seconds=15)
    assert sorted(body for body in consumer.bodies() if body != "before") == sorted(numbers(20))


def test_offset_committed(scene: Scene) -> None:
    """consumer.offset-committed"""
    topic, group = scene.topic(), scene.group()
    sent = [scene.message(topic, str(number), queue=number % 3) for number in range(20)]
    scene.producer().send_ok(*sent)
    consumer = scene.push(group, {topic: "*"})
    assert len(consumer.deliveries(20)) == 20
    consumer.close()
    found = scene.consume_stats(group, topic)
    assert {queue: each["consumerOffset"] for queue, each in found.items()} == {0: 7, 1: 7, 2: 6, 3: 0}
    assert all(each["consumerOffset"] == each["brokerOffset"] for each in found.values())


def test_offset_resume_middle(scene: Scene) -> None:
    """consumer.offset-resume-middle"""
    topic, group = scene.topic(2), scene.group()
    sent = [scene.message(topic, str(number), queue=number % 2) for number in range(20)]
    scene.producer().send_ok(*sent)
    scene.save_group(group)
    pull = scene.pull(group)
    for queue, offset in ((0, 4), (1, 10)):
        pull.call("updateConsumeOffsetToBroker", scene.queue(topic, queue), offset, False, part="offsetStore")
        assert pull.call("fetchConsumeOffset", scene.queue(topic, queue), True) == offset
    pull.close()
    consumer = scene.push(group, {topic: "*"})
    rest = [str(number) for number in range(8, 20, 2)]
    assert sorted(consumer.bodies(6)) == sorted(rest)
    scene.producer().send_ok(scene.message(topic, "last", queue=1))
    assert sorted(consumer.bodies(7)) == sorted([*rest, "last"])


def test_suspend_resume(scene: Scene) -> None:
    """consumer.suspend-resume"""
    topic, producer = scene.topic(2), scene.producer()
    consumer = scene.push(scene.group(), {topic: "*"})
    producer.send_ok(*scene.messages(topic, range(10)))
    assert len(consumer.deliveries(10)) == 10
    consumer.call("suspend")
    # A pull that waits at the broker already brings its messages yet; the next one is not made.
    producer.send_ok(*(scene.message(topic, "waiting", queue=queue) for queue in (0, 1)))
    time.sleep(1.5)
    before = len(consumer.deliveries())
    producer.send_ok(*scene.messages(topic, range(10, 40)))
    time.sleep(2)
    assert len(consumer.deliveries()) == before
    consumer.call("resume")
    assert sorted(consumer.bodies(42)) == sorted([*numbers(40), "waiting", "waiting"])


def test_backlog(scene: Scene) -> None:
    """consumer.backlog-5000"""
    topic, producer = scene.topic(4), scene.producer(sendMsgTimeout=30_000)
    results = scene.tool.ask("flood", target=producer.name, topic=topic, threads=10, count=500, wait_s=120)
    assert all(len(each) == 3 for each in results), "every send is accepted"
    consumer = scene.push(scene.group(), {topic: "*"})
    assert sorted(consumer.bodies(5_000, seconds=60)) == sorted(each[0] for each in results)


@pytest.fixture
def doomed(java_classes: str, tmp_path_factory: pytest.TempPathFactory) -> ClientTool:
    """A second process with clients, which a test kills."""
    return ClientTool(java_classes, tmp_path_factory.mktemp("doomed-home"))


def test_crash(scene: Scene, doomed: ClientTool, cluster: Cluster, admin: Client) -> None:
    """consumer.crash-detected, consumer.crash-resume"""
    topic, group = scene.topic(8), scene.group()
    survivor = scene.push(group, {topic: "*"}, persistConsumerOffsetInterval=500)
    victim = Scene(doomed, cluster, admin).push(group, {topic: "*"}, persistConsumerOffsetInterval=500)
    wait_until(lambda: len(survivor.queues(topic)) == len(victim.queues(topic)) == 4, seconds=15)
    producer = scene.producer()
    producer.send_ok(*(scene.message(topic, str(number), queue=number % 8) for number in range(80)))
    wait_until(lambda: len(survivor.deliveries()) + len(victim.deliveries()) == 80)
    # Offsets are stored from 10 s after a client's start on.
    wait_until(
        lambda: sum(queue["consumerOffset"] for queue in scene.consume_stats(group, topic).values()) == 80, seconds=20
    )
    done = victim.bodies()
    doomed.kill()
    producer.send_ok(*(scene.message(topic, str(number), queue=number % 8) for number in range(80, 160)))
    wait_until(lambda: survivor.queues(topic) == list(range(8)), seconds=10)
    assert sorted(survivor.bodies(160 - len(done)) + done) == sorted(numbers(160))
    doomed.close()


NOTICED_S = 4.0  # a second, on a machine four times slower; a client looks by itself every 20 s


def test_members_hear_of_each_other_at_once(scene: Scene, doomed: ClientTool, cluster: Cluster, admin: Client) -> None:
    """One joins, one leaves, and one is killed."""
    topic, group = scene.topic(4), scene.group()
    first = scene.push(group, {topic: "*"})
    wait_until(lambda: len(first.queues(topic)) == 4, seconds=15)
    elsewhere = Scene(doomed, cluster, admin)
    second = elsewhere.push(group, {topic: "*"})
    wait_until(lambda: len(first.queues(topic)) == 2, seconds=NOTICED_S)
    second.close()
    wait_until(lambda: len(first.queues(topic)) == 4, seconds=NOTICED_S)
    elsewhere.push(group, {topic: "*"})
    wait_until(lambda: len(first.queues(topic)) == 2, seconds=NOTICED_S)
    doomed.kill()
    wait_until(lambda: len(first.queues(topic)) == 4, seconds=NOTICED_S)
    doomed.close()


def test_three_members_share_the_queues_whoever_leaves(scene: Scene) -> None:
    topic, group = scene.topic(8), scene.group()
    members = [scene.push(group, {topic: "*"}) for _ in range(3)]

    def shares() -> list[list[int]]:
        return [member.queues(topic) for member in members]

    wait_until(lambda: sorted(map(len, shares())) == [2, 3, 3], seconds=20)
    assert sorted(queue for share in shares() for queue in share) == list(range(8))
    members.pop(0).close()
    wait_until(lambda: sorted(map(len, shares())) == [4, 4], seconds=NOTICED_S)
    assert sorted(queue for share in shares() for queue in share) == list(range(8))
