"""Transactions of RocketMQ's Java client: commit, rollback, and the broker's questions about what it was not told."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from embermq.format.host import encode_host
from embermq.format.message_id import encode_message_id
from embermq.model.message import Host
from tests.builders import wait_until
from tests.compat.client_tool import Facts, Refused, TransactionProducer, text, texts
from tests.compat.scene import Scene

FATES = {
    "commit": "c",
    "rollback": "r",
    "asked": "uc",
    "asked and rolled back": "ur",
    "asked twice": "uuc",
    "failed": "xc",
}
SEEN = {"commit", "asked", "asked twice", "failed"}
TIMEOUT_MS = 4_000  # longer than a busy disk takes between a half message and its end
SECONDS = 75  # RocketMQ's broker looks every 30 seconds before it knows of the new interval
SOON = {"transactionTimeOut": TIMEOUT_MS, "transactionCheckInterval": 2_000}
USUAL = {"transactionTimeOut": 6_000, "transactionCheckInterval": 30_000}


@dataclass
class Story:
    """What happened to one message for each fate."""

    topic: str
    sent: dict[str, Facts]
    questions: list[Facts]
    deliveries: list[Facts]

    def asked(self, fate: str) -> list[Facts]:
        return [question for question in self.questions if text(question) == fate]


def configure(scene: Scene, settings: dict[str, int]) -> None:
    scene.ask_admin("updateBrokerConfig", scene.broker, {name: str(value) for name, value in settings.items()})


def transact(
    scene: Scene, producer: TransactionProducer, topic: str, bodies: dict[str, str], **fields: object
) -> list[Facts]:
    """Send a message for each body, with its fate."""
    messages = [
        scene.message(topic, body, properties={"fate": fate, "color": "red"}, **fields) for body, fate in bodies.items()
    ]
    return producer.transact(*messages)


@pytest.fixture(scope="module")
def eager(open_scene: Callable[[], Scene]) -> Iterator[Scene]:
    """A broker that asks soon."""
    with open_scene() as scene:
        configure(scene, SOON)
        yield scene
        configure(scene, USUAL)


@pytest.fixture(scope="module")
def story(eager: Scene) -> Story:
    scene = eager
    topic, producer = scene.topic(4), scene.transaction_producer(scene.group())
    consumer = scene.push(scene.group(), {topic: "T"})
    sent = transact(scene, producer, topic, FATES, tags="T", keys=["k1", "k2"], flag=9)
    assert all(result.get("status") == "SEND_OK" for result in sent), sent
    consumer.deliveries(len(SEEN), seconds=SECONDS)
    producer.questions(5, seconds=SECONDS)
    time.sleep(3 * TIMEOUT_MS / 1000)  # whatever is asked or comes once too often
    return Story(topic, dict(zip(FATES, sent, strict=True)), producer.questions(), consumer.deliveries())


def test_committed_messages_are_delivered_once_and_no_others(story: Story) -> None:
    """tx.commit, tx.rollback, tx.check-commit, tx.check-unknown-again, tx.exception"""
    assert sorted(texts(story.deliveries)) == sorted(SEEN)


def test_only_those_that_are_unknown_are_asked_about(story: Story) -> None:
    assert {fate: len(story.asked(fate)) for fate in FATES} == {
        **dict.fromkeys(("commit", "rollback"), 0),
        **dict.fromkeys(("asked", "asked and rolled back", "failed"), 1),
        "asked twice": 2,
    }


def test_nothing_is_asked_before_its_time(story: Story) -> None:
    for question in story.questions:
        assert question["at"] - question["bornTimestamp"] >= TIMEOUT_MS


def test_nothing_unknown_is_seen_before_its_producer_was_asked(story: Story) -> None:
    """tx.unknown-not-visible"""
    for fate in ("asked", "asked twice", "failed"):
        (found,) = [each for each in story.deliveries if text(each) == fate]
        assert found["at"] >= max(question["at"] for question in story.asked(fate))


def test_a_question_shows_the_message(story: Story) -> None:
    """tx.check-content"""
    (question,) = story.asked("asked")
    assert (question["topic"], question["tags"], question["keys"], question["flag"]) == (story.topic, "T", "k1 k2", 9)
    assert question["properties"]["color"] == "red"
    assert question["transactionId"] == story.sent["asked"]["transactionId"] == story.sent["asked"]["msgId"]


def test_a_committed_message_is_the_one_that_was_sent(story: Story) -> None:
    for fate in SEEN:
        (found,) = [each for each in story.deliveries if text(each) == fate]
        assert found["msgId"] == story.sent[fate]["msgId"]
        assert (found["tags"], found["keys"]) == ("T", "k1 k2")
        assert found["queueId"] == story.sent[fate]["queueId"]
        if fate == "commit":  # RocketMQ's broker loses the flag of those that it asks about
            assert found["flag"] == 9


def test_a_message_is_not_visible_while_its_local_transaction_runs(eager: Scene) -> None:
    """tx.half-invisible"""
    topic, producer = eager.topic(1), eager.transaction_producer(eager.group())
    consumer = eager.push(eager.group(), {topic: "*"})
    began = time.time() * 1000
    producer.transact(eager.message(topic, "slow", properties={"fate": "c", "localMs": "1500"}))
    (found,) = consumer.deliveries(1)
    assert found["at"] - began >= 1_500


def test_many_transactions(eager: Scene) -> None:
    """tx.many"""
    topic, producer = eager.topic(4), eager.transaction_producer(eager.group())
    consumer = eager.push(eager.group(), {topic: "*"})
    transact(eager, producer, topic, {f"message {n}": "cr"[n % 2] for n in range(40)})
    expected = sorted(f"message {n}" for n in range(0, 40, 2))
    assert sorted(consumer.bodies(20)) == expected
    assert producer.questions() == []


def test_an_ended_transaction_of_an_unknown_place_is_refused(eager: Scene) -> None:
    fields = {"producerGroup": "nobody", "tranStateTableOffset": 0, "commitLogOffset": 1 << 40, "commitOrRollback": 8}
    answer = eager.raw(37, **fields)
    assert answer["code"] == 1
    assert answer["remark"]


def test_what_was_given_up_is_taken_up_by_an_administrator(eager: Scene) -> None:
    scene = eager
    topic, producer = scene.topic(1), scene.transaction_producer(scene.group())
    consumer = scene.push(scene.group(), {topic: "*"})
    configure(scene, {"transactionCheckMax": 1})
    try:
        transact(scene, producer, topic, {"forgotten": "uuc"})
        wait_until(lambda: "forgotten" in given_up(scene), seconds=SECONDS)
        assert consumer.bodies() == []
    finally:
        configure(scene, {"transactionCheckMax": 15})
    (message,) = [each for each in scene.read("TRANS_CHECK_MAX_TIME_TOPIC", 0) if text(each) == "forgotten"]
    assert message["properties"]["REAL_TOPIC"] == topic
    address, _, port = message["storeHost"].rpartition(":")
    offset_id = encode_message_id(encode_host(Host(address, int(port))), message["commitLogOffset"])
    assert scene.ask_admin("resumeCheckHalfMessage", "TRANS_CHECK_MAX_TIME_TOPIC", offset_id)
    assert consumer.bodies(1, seconds=SECONDS) == ["forgotten"]


def given_up(scene: Scene) -> list[str]:
    try:
        return texts(scene.read("TRANS_CHECK_MAX_TIME_TOPIC", 0))
    except Refused:  # nothing was ever given up
        return []
