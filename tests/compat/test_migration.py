"""A store directory changes hands: RocketMQ's broker, EmberMQ, and back, with everything that was under way.

At each change some messages are consumed and some are not, one waits for its delay, one for its next attempt,
and one is a dead letter. Whoever comes next goes on with all of it.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import ClientTool, Facts, PushConsumer, Refused, text, texts
from tests.compat.one_directory import EMBER, ROCKETMQ, OneDirectory
from tests.compat.scene import Scene, scene_of

THERE_AND_BACK, BACK_AND_THERE = (ROCKETMQ, EMBER, ROCKETMQ), (EMBER, ROCKETMQ, EMBER)
TOPIC, ORDERED = "orders", "ordered"
ALL, HALF, RETRYING, DYING = "reads-all", "reads-half", "retries", "gives-up"
QUEUES, FIRST, MORE = 4, 24, 8  # a query finds 64 at most
LATER = 3  # the delay level of what has to outlast a change: 20 s
DELAYED_TO = 1  # the queue
FOREVER = 1 << 62
PADDING = {"padding": "." * 4_000}  # so that the messages fill several files
BURST = 2_000
IMPATIENT = {"heartbeatBrokerInterval": 1_000}  # a new server does not know the group before its next heartbeat


class Story:
    """What was sent and who received it, over all changes."""

    def __init__(self) -> None:
        self.sent: list[str] = []  # to TOPIC, delayed ones included
        self.received: dict[str, Counter[str]] = {ALL: Counter(), HALF: Counter()}
        self.failed: list[str] = []  # first deliveries to RETRYING
        self.retried: Counter[str] = Counter()
        self.dead: list[str] = []
        self.kept: Facts = {}

    # -- what is under way when the server stops

    def begin(self, scene: Scene) -> None:
        scene.topic(QUEUES, name=TOPIC)
        scene.topic(3, name=ORDERED, write=2, order=True)
        for topic in (RETRYING, DYING):
            scene.topic(1, name=f"for-{topic}")
        scene.save_group(HALF, retryMaxTimes=7, retryQueueNums=2, consumeBroadcastEnable=False)
        scene.save_group("never-used", consumeEnable=False, consumeTimeoutMinute=3)
        for group in (RETRYING, DYING):
            scene.retry_ready(group, f"for-{group}")
        scene.retry_ready(HALF, TOPIC)
        self.send(scene, FIRST)
        self._consume_half(scene)

    def send(self, scene: Scene, count: int) -> None:
        bodies = [f"message {number}" for number in range(len(self.sent), len(self.sent) + count)]
        messages = [
            scene.message(TOPIC, body, queue=n % QUEUES, keys=[body.replace(" ", "-"), "every"], properties=PADDING)
            for n, body in enumerate(bodies)
        ]
        scene.producer().send_ok(*messages)
        self.sent += bodies

    def _consume_half(self, scene: Scene) -> None:
        """Commit offsets in the middle of each queue."""
        pull = scene.pull(HALF)
        for number in range(QUEUES):
            place = scene.queue(TOPIC, number)
            found = pull.call("pull", place, "*", 0, 3)
            self.received[HALF].update(texts(found["messages"]))
            pull.call("updateConsumeOffsetToBroker", place, found["nextOffset"], False, part="offsetStore")
        pull.close()

    def leave(self, scene: Scene) -> None:
        """Consume, fail, delay; then close all clients, and note what the next server has to know."""
        stage = len(self.dead)
        with self.consuming(scene, ALL):
            pass
        retrying = scene.push(RETRYING, {f"for-{RETRYING}": "*"}, listener={"fail": 1, "delayLevel": LATER})
        dying = scene.push(DYING, {f"for-{DYING}": "*"}, listener={"fail": 99, "delayLevel": -1})
        producer = scene.producer()
        producer.send_ok(scene.message(f"for-{RETRYING}", f"retry {stage}"))
        producer.send_ok(scene.message(f"for-{DYING}", f"dead {stage}"))
        producer.send_ok(scene.message(TOPIC, f"delayed {stage}", delayLevel=LATER, keys=["every"], queue=DELAYED_TO))
        self.sent.append(f"delayed {stage}")
        self.failed.append(f"retry {stage}")
        self.dead.append(f"dead {stage}")
        wait_until(lambda: f"retry {stage}" in retrying.bodies(1), seconds=20)
        wait_until(lambda: sorted(texts(scene.dead_letters(DYING))) == self.dead, seconds=20)
        self._hear_retries(retrying)
        for each in (retrying, dying, producer):
            each.close()
        self.kept = self.look(scene)
        assert f"delayed {stage}" not in texts(scene.read(TOPIC, DELAYED_TO)), "it was to outlast the change"
        assert f"retry {stage}" not in texts(scene.read(f"%RETRY%{RETRYING}", 0)), "it was to outlast the change"

    # -- what the next one goes on with

    def go_on(self, scene: Scene) -> None:
        assert self.look(scene) == self.kept
        assert sorted(texts(scene.dead_letters(DYING))) == self.dead
        retrying = scene.push(RETRYING, {f"for-{RETRYING}": "*"}, listener={"fail": 1, "delayLevel": LATER})
        with self.consuming(scene, ALL), self.consuming(scene, HALF):
            self.send(scene, MORE)
        wait_until(lambda: len(retrying.bodies()) >= 1, seconds=30)
        self._hear_retries(retrying)
        retrying.close()
        wait_until(lambda: query(scene, "every") == sorted(self.sent), seconds=20)
        for body in (self.sent[0], self.sent[-1]):
            assert query(scene, body.replace(" ", "-")) == [body]

    @contextlib.contextmanager
    def consuming(self, scene: Scene, group: str) -> Iterator[None]:
        """A member of the group, until it has received everything that was sent and committed it."""
        consumer = scene.push(group, {TOPIC: "*"})
        before = self.received[group].total()
        yield
        consumer.deliveries(len(self.sent) - before, seconds=40)
        time.sleep(1)  # whatever comes once too often
        self.received[group].update(consumer.bodies())
        consumer.close()
        wait_until(lambda: is_done(scene, group), seconds=20)

    def _hear_retries(self, consumer: PushConsumer) -> None:
        for delivery in consumer.deliveries():
            if delivery["reconsumeTimes"] == 1:
                self.retried[text(delivery)] += 1

    def look(self, scene: Scene) -> Facts:
        """Topics, groups and offsets as administrators see them."""
        topics = scene.ask_admin("getUserTopicConfig", scene.broker, True, 5_000)["topicConfigTable"]
        groups = scene.ask_admin("getUserSubscriptionGroup", scene.broker, 5_000)["subscriptionGroupTable"]
        return {
            "topics": topics,
            "groups": groups,
            "offsets": {group: offsets_of(scene, group) for group in (ALL, HALF)},
            "ends": {
                queue: facts["maxOffset"] for queue, facts in scene.topic_stats(TOPIC).items() if queue != DELAYED_TO
            },
        }


def offsets_of(scene: Scene, group: str) -> dict[int, int]:
    return {queue: facts["consumerOffset"] for queue, facts in scene.consume_stats(group, TOPIC).items()}


def is_done(scene: Scene, group: str) -> bool:
    stats = scene.consume_stats(group, TOPIC).values()
    return all(facts["consumerOffset"] == facts["brokerOffset"] for facts in stats)


def query(scene: Scene, key: str) -> list[str]:
    """The bodies of all messages with a key, sorted; none if the index has not followed yet."""
    try:
        return sorted(texts(scene.ask_admin("queryMessage", TOPIC, key, 256, 0, FOREVER)["messageList"]))
    except Refused:
        return []


@pytest.mark.parametrize("order", [THERE_AND_BACK, pytest.param(BACK_AND_THERE, marks=pytest.mark.slow)], ids="-".join)
def test_everything_goes_on_after_a_clean_stop(
    client_tool: ClientTool, java_classes: str, tmp_path: Path, order: tuple[str, ...]
) -> None:
    directory, story = OneDirectory(tmp_path / "home", java_classes), Story()
    for stage, who in enumerate(order):
        with directory.served_by(who) as cluster, scene_of(client_tool, cluster) as scene:
            if stage == 0:
                story.begin(scene)
            else:
                story.go_on(scene)
            if stage < len(order) - 1:
                story.leave(scene)
        directory.check()
    for group in (ALL, HALF):
        assert story.received[group] == Counter(story.sent), f"{group} received each message once"
    assert story.retried == Counter(story.failed)


class Crashes:
    """Clients that stay while servers are killed under them."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.acknowledged: list[str] = []
        self.tried: list[str] = []
        self.failing: list[str] = []
        scene.topic(QUEUES, name=TOPIC)
        scene.topic(1, name=f"for-{RETRYING}")
        scene.retry_ready(RETRYING, f"for-{RETRYING}")
        self._consumer = scene.push(ALL, {TOPIC: "*"}, **IMPATIENT)
        listener = {"fail": 1, "delayLevel": LATER}
        self._retrying = scene.push(RETRYING, {f"for-{RETRYING}": "*"}, listener=listener, **IMPATIENT)
        self._producer = scene.producer(retryTimesWhenSendFailed=0, sendMsgTimeout=1_000)

    def put_under_way(self) -> None:
        """Something to wait for its time, and something to fail once."""
        stage = len(self.failing)
        self._producer.send_ok(self.scene.message(TOPIC, f"delayed {stage}", delayLevel=LATER, keys=["every"]))
        self._producer.send_ok(self.scene.message(f"for-{RETRYING}", f"retry {stage}"))
        self.acknowledged.append(f"delayed {stage}")
        self.tried.append(f"delayed {stage}")
        self.failing.append(f"retry {stage}")
        wait_until(lambda: f"retry {stage}" in self._retrying.bodies(), seconds=20)
        wait_until(lambda: self._is_in_schedule(2), seconds=20)

    def send_until_killed(self, directory: OneDirectory) -> None:
        bodies = [f"message {number}" for number in range(len(self.tried), len(self.tried) + BURST)]
        messages = [
            self.scene.message(TOPIC, body, queue=n % QUEUES, properties=PADDING) for n, body in enumerate(bodies)
        ]
        with ThreadPoolExecutor(1) as pool:
            results = pool.submit(self._producer.send, *messages)
            before = len(self._consumer.bodies())
            wait_until(lambda: len(self._consumer.bodies()) > before + BURST // 40, seconds=20)
            directory.kill()
        taken = [body for body, result in zip(bodies, results.result(), strict=True) if "error" not in result]
        assert 0 < len(taken) < BURST, "it was to be killed in the middle"
        self.acknowledged += taken
        self.tried += bodies

    def check(self) -> None:
        """Whatever was acknowledged arrives, and nothing that was not sent."""
        wait_until(lambda: set(self.acknowledged) <= set(self._consumer.bodies()), seconds=60)
        assert set(self._consumer.bodies()) <= set(self.tried)
        wait_until(lambda: set(self.failing) <= self._retried(), seconds=60)
        stored = texts(self.scene.read_all(TOPIC, QUEUES))
        # The progress of delays is saved from time to time, so a delayed message may be delivered again.
        plain = [body for body in stored if not body.startswith("delayed")]
        assert len(plain) == len(set(plain)), "a message is stored once"
        assert set(self.acknowledged) <= set(stored) <= set(self.tried)

    def _retried(self) -> set[str]:
        return {text(each) for each in self._retrying.deliveries() if each["reconsumeTimes"] == 1}

    def _is_in_schedule(self, count: int) -> bool:
        """Whether so many messages wait for their time; the second is the one that failed."""
        end = self.scene.topic_stats("SCHEDULE_TOPIC_XXXX")[LATER - 1]["maxOffset"]
        return bool(end >= count * len(self.failing))


@pytest.mark.parametrize("order", [BACK_AND_THERE, pytest.param(THERE_AND_BACK, marks=pytest.mark.slow)], ids="-".join)
def test_nothing_is_lost_when_servers_are_killed(
    client_tool: ClientTool, java_classes: str, tmp_path: Path, order: tuple[str, ...]
) -> None:
    directory = OneDirectory(tmp_path / "home", java_classes)
    with contextlib.ExitStack() as open_scenes:
        crashes: Crashes | None = None
        for stage, who in enumerate(order):
            with directory.served_by(who) as cluster:
                if crashes is None:
                    crashes = Crashes(open_scenes.enter_context(scene_of(client_tool, cluster)))
                else:
                    crashes.check()
                if stage < len(order) - 1:
                    crashes.put_under_way()
                    crashes.send_until_killed(directory)
                else:
                    open_scenes.close()
        directory.check(rocketmq_was_killed=ROCKETMQ in order[:-1])
