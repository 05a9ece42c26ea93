"""POP by RocketMQ's own client: its low-level calls, and its push consumer told by the broker to pop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import NamedTuple

import pytest

from tests.compat.client_tool import Facts, PushConsumer, text, together
from tests.compat.popping import Popper, bodies, handle
from tests.compat.scene import Scene

REVIVED_S = 40.0  # RocketMQ revives some seconds after the time is up
SHORT_MS = 8_000  # long enough for all that is done with them before it is over
LONGER_MS = 8_000
LATE_MS = 6_000  # by when what is revived has come


class Basics(NamedTuple):
    """The life of twelve messages that one group popped."""

    sent: list[Facts]
    first: Facts
    second: Facts
    of_others: list[Facts]
    acks: list[Facts]
    acked: set[str]
    again: list[Facts]
    again_popped: float  # seconds after the first pop
    third: list[Facts]


class Changes(NamedTuple):
    """Two messages whose times were changed: one to later, one to earlier."""

    answers: list[Facts]
    found: list[Facts]
    seconds: float


class Ordered(NamedTuple):
    """What pops of one ordered queue gave, in turn."""

    first: list[int]
    while_blocked: list[int]
    same_attempt: list[int]
    after_one_ack: list[int]
    after_all_acks: list[int]
    after_timeout: list[int]


class Pushed(NamedTuple):
    """What two push consumers in POP mode got."""

    sent: list[str]
    shares: list[list[str]]
    retried: list[Facts]


class Story(NamedTuple):
    basics: Basics
    changes: Changes
    ordered: Ordered
    pushed: Pushed


@pytest.fixture(scope="module")
def story(open_scene: Callable[[], Scene]) -> Iterator[Story]:
    """All that takes time, at the same time."""
    with open_scene() as scene:
        yield Story(*together([lambda: live(scene), lambda: change(scene), lambda: order(scene), lambda: push(scene)]))


def live(scene: Scene) -> Basics:
    topic = scene.topic(4)
    popper, other = Popper(scene, topic, scene.group()), Popper(scene, topic, scene.group())
    sent = scene.producer().send_ok(*scene.messages(topic, range(12)))
    began = time.monotonic()
    first = popper.pop(32, invisible_ms=SHORT_MS, poll_ms=5_000)
    while len(first["messages"]) < 12:  # a pop of RocketMQ may leave a queue that another is busy with
        first["messages"] += popper.pop(32, invisible_ms=SHORT_MS)["messages"]
    second, of_others = popper.pop(32), other.pop_until(12)
    messages = first["messages"]
    acks = [*map(popper.ack, messages[:2]), popper.ack_batch(messages[2:6])]
    again = popper.pop_until(6, invisible_ms=LONGER_MS)
    seconds = time.monotonic() - began
    popper.ack_batch(again)
    third = popper.pop_until(1, tries=(LONGER_MS + LATE_MS) // 1_000)  # past the time when they would come once more
    return Basics(sent, first, second, of_others, acks, set(bodies(messages[:6])), again, seconds, third)


def change(scene: Scene) -> Changes:
    topic = scene.topic(1)
    popper = Popper(scene, topic, scene.group())
    scene.producer().send_ok(*scene.messages(topic, ["later", "earlier"]))
    later, earlier = popper.pop_until(2, most=1, invisible_ms=LONGER_MS)
    began = time.monotonic()
    answers = [popper.change(later, 120_000), popper.change(earlier, 1_000)]
    found = popper.pop_until(1)
    seconds = time.monotonic() - began
    found += popper.pop_until(1, tries=(LONGER_MS + LATE_MS) // 1_000)
    return Changes(answers, found, seconds)


def order(scene: Scene) -> Ordered:
    topic = scene.topic(1)
    popper = Popper(scene, topic, scene.group())
    scene.producer().send_ok(*scene.messages(topic, range(6)))

    def pop(most: int, attempt: str, invisible_ms: int = 30_000) -> list[Facts]:
        found: list[Facts] = popper.pop(most, order=True, attempt=attempt, invisible_ms=invisible_ms)["messages"]
        return found

    def offsets(messages: list[Facts]) -> list[int]:
        return [message["queueOffset"] for message in messages]

    first = popper.pop_until(2, most=2, order=True, attempt="a", invisible_ms=30_000)
    blocked, same = offsets(pop(2, "b")), pop(2, "a")
    popper.ack(same[0])
    after_one = offsets(pop(2, "c"))
    popper.ack(same[1])
    after_all = pop(2, "d", invisible_ms=2_000)
    timed_out = popper.pop_until(2, most=2, order=True, attempt="e", poll_ms=5_000)
    return Ordered(offsets(first), blocked, offsets(same), after_one, offsets(after_all), offsets(timed_out))


def push(scene: Scene) -> Pushed:
    topic, group = scene.topic(4), scene.group()
    scene.save_group(group)
    scene.mqadmin("setConsumeMode", "-b", scene.broker, "-t", topic, "-g", group, "-m", "POP", "-q", 0)
    consumers: list[PushConsumer] = [
        scene.push(group, {topic: "*"}, clientRebalance=False, listener={"fail": 1, "failTag": "fails"}, popBatchNums=4)
        for _ in range(2)
    ]
    sent: list[str] = []
    producer = scene.producer()
    # A client begins to pop about a second after its start; who is first gets all until then.
    late = time.monotonic() + 30

    def all_have_some() -> bool:
        return all(consumer.deliveries(1, seconds=0.2) for consumer in consumers)

    while len(sent) < 40 or (time.monotonic() < late and not all_have_some()):
        some = [f"message {number}" for number in range(len(sent), len(sent) + 10)]
        producer.send_ok(*scene.messages(topic, some))
        sent += some
    producer.send_ok(scene.message(topic, "fails once", tags="fails"))
    deadline = time.monotonic() + 90
    found: list[list[Facts]] = [[], []]
    while time.monotonic() < deadline and sum(map(len, found)) < len(sent) + 2:
        found = [consumer.deliveries(0, seconds=0.2) for consumer in consumers]
        time.sleep(0.2)
    plain = [[text(each) for each in some if each["tags"] != "fails"] for some in found]
    return Pushed(sent, plain, [each for some in found for each in some if each["tags"] == "fails"])


def test_receive(story: Story) -> None:
    """pop.receive"""
    first = story.basics.first
    assert first["status"] == "FOUND"
    assert sorted(bodies(first["messages"])) == sorted(map(str, range(12)))
    for message in first["messages"]:
        words = handle(message).split(" ")
        assert len(words) == 8
        assert int(words[2]) == SHORT_MS
        assert (int(words[6]), int(words[7])) == (message["queueId"], message["queueOffset"])


def test_invisible(story: Story) -> None:
    """pop.invisible"""
    assert story.basics.second["messages"] == []


def test_other_group(story: Story) -> None:
    """pop.other-group"""
    assert sorted(bodies(story.basics.of_others)) == sorted(map(str, range(12)))
    assert {message["reconsumeTimes"] for message in story.basics.of_others} == {0}


def test_ack(story: Story) -> None:
    """pop.ack"""
    assert [ack["status"] for ack in story.basics.acks] == ["OK", "OK", "OK"]


def test_acked_messages_are_not_redelivered(story: Story) -> None:
    """pop.ack-not-redelivered"""
    assert not story.basics.acked & set(bodies(story.basics.again))


def test_others_are_redelivered(story: Story) -> None:
    """pop.noack-redelivered, pop.noack-reconsume-times"""
    basics = story.basics
    assert len(basics.again) == 6
    assert SHORT_MS / 1000 <= basics.again_popped <= REVIVED_S
    ids = {text(message): message["msgId"] for message in basics.first["messages"]}
    topic = basics.first["messages"][0]["topic"]
    for message in basics.again:
        assert (message["reconsumeTimes"], message["topic"]) == (1, topic)
        assert message["msgId"] == ids[text(message)]


def test_a_redelivered_message_can_be_acknowledged(story: Story) -> None:
    """pop.redelivered-ack"""
    assert story.basics.third == []


def test_change_of_the_invisible_time(story: Story) -> None:
    """pop.change-invisible-longer, pop.change-invisible-shorter"""
    changes = story.changes
    assert [answer["status"] for answer in changes.answers] == ["OK", "OK"]
    assert bodies(changes.found) == ["earlier"]
    assert changes.seconds < REVIVED_S


def test_an_ordered_queue(story: Story) -> None:
    ordered = story.ordered
    assert ordered.first == [0, 1]
    assert ordered.while_blocked == []
    assert ordered.same_attempt == [0, 1]
    assert ordered.after_one_ack == []
    assert ordered.after_all_acks == ordered.after_timeout == [2, 3]


def test_push_consumers_share(story: Story) -> None:
    """pop.push-share"""
    pushed = story.pushed
    assert sorted(pushed.shares[0] + pushed.shares[1]) == sorted(pushed.sent)
    assert all(pushed.shares)


def test_a_failed_message_of_a_push_consumer_comes_again(story: Story) -> None:
    """pop.push-retry"""
    times = [message["reconsumeTimes"] for message in story.pushed.retried]  # of one consumer, then of the other
    assert sorted(times) == [0, 1]


def test_tag_filter(scene: Scene) -> None:
    """pop.tag-filter"""
    topic = scene.topic(1)
    producer = scene.producer()
    for number in range(6):
        producer.send_ok(scene.message(topic, str(number), tags="eu" if number % 2 else "us"))
    popper = Popper(scene, topic, scene.group())
    assert bodies(popper.pop_until(3, tags="eu")) == ["1", "3", "5"]


def test_most_messages_and_order_of_a_queue(scene: Scene) -> None:
    """pop.max-nums, pop.order-per-queue"""
    topic = scene.topic(1)
    scene.producer().send_ok(*scene.messages(topic, range(7)))
    popper = Popper(scene, topic, scene.group())
    found = [popper.pop(3, queue=0, poll_ms=2_000)["messages"] for _ in range(3)]
    assert [len(some) for some in found] == [3, 3, 1]
    assert [message["queueOffset"] for some in found for message in some] == list(range(7))


def test_a_large_property_is_in_nobodys_way(scene: Scene) -> None:
    """One that leaves no room for a handle: RocketMQ's client makes it then."""
    if not scene.cluster.is_ember:
        pytest.skip("RocketMQ's broker does not bring the largest one again")
    topic, producer = scene.topic(1), scene.producer()
    popper = Popper(scene, topic, scene.group())
    sizes = range(32_700, 32_000, -10)
    sent = next(size for size in sizes if "error" not in producer.send(large(scene, topic, size))[0])
    producer.send_ok(large(scene, topic, sent - 100), scene.message(topic, "small"))
    assert len(popper.pop_until(3, invisible_ms=1_000)) == 3
    again = popper.pop_until(3, invisible_ms=60_000)
    assert sorted(bodies(again)) == ["large", "large", "small"]
    assert {each["topic"] for each in again} == {topic}
    assert [popper.ack(each)["status"] for each in again] == ["OK"] * 3


def large(scene: Scene, topic: str, size: int) -> Facts:
    return scene.message(topic, "large", properties={"large": "x" * size})


def test_poll_timeout(scene: Scene) -> None:
    """pop.poll-timeout"""
    popper = Popper(scene, scene.topic(1), scene.group())
    began = time.monotonic()
    assert popper.pop(poll_ms=2_000)["status"] == "POLLING_NOT_FOUND"
    assert 1.7 <= time.monotonic() - began <= 12


def test_a_notification_comes_with_the_message(scene: Scene) -> None:
    topic = scene.topic(2)
    popper, producer = Popper(scene, topic, scene.group()), scene.producer()
    scene.save_group(popper.group)
    assert not popper.notify(poll_ms=0)

    def send() -> bool:
        producer.send_ok(scene.message(topic))
        return True

    assert together([lambda: popper.notify(poll_ms=8_000), send]) == [True, True]


def test_concurrent_poppers(scene: Scene) -> None:
    """pop.concurrent"""
    topic, group = scene.topic(4), scene.group()
    scene.save_group(group)
    scene.producer().send_ok(*scene.messages(topic, range(200)), mode="async")
    poppers = [Popper(scene, topic, group) for _ in range(4)]

    def work(popper: Popper) -> list[str]:
        found: list[str] = []
        for _ in range(60):
            messages = popper.pop(8, poll_ms=500)["messages"]
            if messages:
                popper.ack_batch(messages)
            elif found:
                break
            found += bodies(messages)
        return found

    found = together([partial(work, popper) for popper in poppers])
    assert sorted(chain.from_iterable(found)) == sorted(map(str, range(200)))


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"maxMsgNums": 33}, 29), ({"topic": "no-such-topic"}, 17), ({"queueId": 9}, 29), ({"queueId": 0}, 210)],
)
def test_what_cannot_be_popped(scene: Scene, changes: dict[str, object], code: int) -> None:
    group = scene.group()
    scene.save_group(group)
    fields: dict[str, object] = {
        "consumerGroup": group, "topic": scene.topic(2), "queueId": -1, "maxMsgNums": 8, "invisibleTime": 5_000,
        "pollTime": 0, "bornTime": time.time_ns() // 1_000_000, "initMode": 0, "expType": "TAG", "exp": "*",
        "order": "false",
    }  # fmt: skip
    answer = scene.raw(200_050, **(fields | changes))
    assert answer["code"] == code
    assert answer["remark"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [({}, 0), ({"topic": "no-such-topic"}, 17), ({"queueId": 9}, 13), ({"offset": 77}, 208), ({"offset": -1}, 208)],
)
def test_forged_and_expired_acks(scene: Scene, changes: dict[str, object], code: int) -> None:
    group, topic = scene.group(), scene.topic(1)
    scene.save_group(group)
    scene.producer().send_ok(scene.message(topic))
    fields: dict[str, object] = {
        "consumerGroup": group, "topic": topic, "queueId": 0, "offset": 0,
        "extraInfo": f"0 1700000000000 1000 3 0 {scene.broker_name} 0 0",
    }  # fmt: skip
    assert scene.raw(200_051, **(fields | changes))["code"] == code
