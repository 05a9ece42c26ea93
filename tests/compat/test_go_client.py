"""RocketMQ's own Go client against the broker: what it sends, what reaches it, and when."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.builders import wait_until
from tests.compat.client_tool import Refused
from tests.compat.cluster import Cluster
from tests.compat.go_tool import Delivery, GoConsumer, GoProducer, GoTool, missing, program
from tests.compat.scene import Scene

QUEUES = 4
COMPRESSED = 1  # in a message's system flag
LATE_MS = 5_000


@pytest.fixture(scope="module")
def go(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoTool]:
    """The Go client on the cluster; the first test waits until it is fetched and built."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    tool = GoTool(program(), tmp_path_factory.mktemp("go-home"), namesrv=cluster.namesrv, broker=cluster.broker)
    yield tool
    tool.close()


@pytest.fixture
def fresh() -> Callable[[str], str]:
    """Names that no other test and no earlier run uses."""
    mark = uuid.uuid4().hex[:8]
    return lambda word: f"go-{word}-{mark}"


@pytest.fixture
def topic(go: GoTool, fresh: Callable[[str], str]) -> str:
    name = fresh("topic")
    go.make_topic(name, queues=QUEUES)
    return name


@pytest.fixture
def producer(go: GoTool, fresh: Callable[[str], str]) -> Iterator[GoProducer]:
    started = go.producer(fresh("producer"))
    yield started
    started.stop()


def some(topic: str, count: int, *, word: str = "message", **fields: Any) -> list[dict[str, Any]]:
    return [{"topic": topic, "body": f"{word} {number}", **fields} for number in range(count)]


def bodies(deliveries: list[Delivery]) -> list[str]:
    return [bytes.fromhex(delivery["bodyHex"]).decode() for delivery in deliveries]


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["body"] for message in messages]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_sync_sends_give_ids_queues_and_increasing_offsets(producer: GoProducer, topic: str) -> None:
    """go.send-sync"""
    results = producer.send(some(topic, 5 * QUEUES))

    assert all(result["ok"] for result in results), results
    assert len({result["id"] for result in results}) == len({result["offsetId"] for result in results}) == len(results)
    offsets = defaultdict(list)
    for result in results:
        offsets[result["queue"]].append(result["queueOffset"])
    assert offsets == {queue: [0, 1, 2, 3, 4] for queue in range(QUEUES)}


def test_async_sends_call_back_ok(producer: GoProducer, topic: str) -> None:
    """go.send-async"""
    results = producer.send(some(topic, 100), how="async")

    assert all(result["ok"] for result in results), results
    assert len({(result["queue"], result["queueOffset"]) for result in results}) == 100


def test_a_batch_is_consumed_message_by_message(
    go: GoTool, producer: GoProducer, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.send-batch"""
    messages = [{**message, "tags": "t", "keys": [f"k-{n}"]} for n, message in enumerate(some(topic, 10))]
    [result] = producer.send(messages, how="batch")
    consumer = go.push_consumer(fresh("consumer"), topic, group=fresh("group"))
    came = consumer.received(10)
    consumer.stop()

    assert result["ok"], result
    assert sorted(bodies(came)) == sorted(texts(messages))
    assert {delivery["queue"] for delivery in came} == {result["queue"]}
    assert sorted(delivery["queueOffset"] for delivery in came) == list(range(10))
    assert sorted(delivery["properties"]["KEYS"] for delivery in came) == sorted(f"k-{n}" for n in range(10))


def test_a_oneway_send_arrives(go: GoTool, producer: GoProducer, topic: str, fresh: Callable[[str], str]) -> None:
    consumer = go.push_consumer(fresh("consumer"), topic, group=fresh("group"))
    producer.send(some(topic, 1), how="oneway")
    came = consumer.received(1)
    consumer.stop()

    assert bodies(came) == ["message 0"]


def test_properties_keys_and_tag_come_back(
    go: GoTool, producer: GoProducer, topic: str, fresh: Callable[[str], str]
) -> None:
    properties = {"amount": "12", "größe": "大 and small", "empty-like": " "}
    body = bytes(range(256)).hex()
    [result] = producer.send(
        [{"topic": topic, "bodyHex": body, "tags": "eu", "keys": ["a", "b"], "properties": properties}]
    )
    consumer = go.push_consumer(fresh("consumer"), topic, group=fresh("group"))
    [delivery] = consumer.received(1)
    consumer.stop()

    assert delivery["bodyHex"] == body
    assert delivery["id"] == result["id"]
    assert delivery["properties"].items() >= {**properties, "TAGS": "eu", "KEYS": "a b"}.items()


def test_two_push_consumers_share_a_topic(
    go: GoTool, producer: GoProducer, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.push-clustering"""
    group = fresh("group")
    consumers = [go.push_consumer(fresh(word), topic, group=group) for word in ("one", "two")]
    share_the_queues(consumers, producer, topic)
    messages = some(topic, 80, word="shared")
    producer.send(messages)
    wait_until(lambda: len(shared(consumers)) >= len(messages), seconds=20)
    each = [consumer.received() for consumer in consumers]
    for consumer in consumers:
        consumer.stop()

    assert Counter(shared_of(each[0]) + shared_of(each[1])) == Counter(texts(messages))
    assert shared_of(each[0]) and shared_of(each[1])


def share_the_queues(consumers: list[GoConsumer], producer: GoProducer, topic: str) -> None:
    """Send until the queues of both consumers are known to be different ones."""

    def settled() -> bool:
        probe = uuid.uuid4().hex
        sent = producer.send(some(topic, QUEUES, word=probe))
        wait_until(lambda: sum(len(of(consumer, probe)) for consumer in consumers) >= len(sent), seconds=30)
        got = [{delivery["queue"] for delivery in of(consumer, probe)} for consumer in consumers]
        return all(len(queues) == QUEUES // 2 for queues in got)

    wait_until(settled, seconds=60)


def of(consumer: GoConsumer, word: str) -> list[Delivery]:
    return [
        delivery for delivery in consumer.received() if bytes.fromhex(delivery["bodyHex"]).startswith(word.encode())
    ]


def shared(consumers: list[GoConsumer]) -> list[str]:
    return [body for consumer in consumers for body in shared_of(consumer.received())]


def shared_of(deliveries: list[Delivery]) -> list[str]:
    return [body for body in bodies(deliveries) if body.startswith("shared")]


def test_a_tag_expression_chooses_messages(
    go: GoTool, producer: GoProducer, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.push-tags"""
    tags = ["A", "B", "C", "AB", ""]
    messages = [message for tag in tags for message in some(topic, 2 * QUEUES, word=tag or "none", tags=tag)]
    producer.send(messages)
    consumer = go.push_consumer(fresh("consumer"), topic, group=fresh("group"), expression="A || B")
    consumer.received(4 * QUEUES)
    # A last message in every queue: whatever was going to come before it has come.
    producer.send(some(topic, QUEUES, word="last", tags="B"))
    came = consumer.received(5 * QUEUES)
    consumer.stop()

    expected = [message["body"] for message in messages if message["tags"] in ("A", "B")]
    assert Counter(bodies(came)) == Counter(expected + [f"last {number}" for number in range(QUEUES)])


def test_broadcasting_gives_everything_to_everyone(
    go: GoTool, producer: GoProducer, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.push-broadcast"""
    group = fresh("group")
    producer.send(some(topic, 10, word="early"))
    consumers = [go.push_consumer(fresh(word), topic, group=group, model="broadcasting") for word in ("one", "two")]
    producer.send(some(topic, 10, word="late"))
    each = [consumer.received(20) for consumer in consumers]
    for consumer in consumers:
        consumer.stop()

    expected = Counter(f"{word} {number}" for word in ("early", "late") for number in range(10))
    assert [Counter(bodies(came)) for came in each] == [expected, expected]


def test_a_restarted_consumer_goes_on_behind_the_committed_offsets(
    go: GoTool, producer: GoProducer, scene: Scene, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.push-offset-resume"""
    group = fresh("group")
    producer.send(some(topic, 20, word="before"))
    first = go.push_consumer(fresh("first"), topic, group=group)
    came = first.received(20)
    wait_until(lambda: committed(scene, group, topic) == 20, seconds=30)  # the client does so every few seconds
    first.stop()
    producer.send(some(topic, 12, word="after"))
    second = go.push_consumer(fresh("second"), topic, group=group)
    came_then = second.received(12)
    second.stop()

    assert Counter(bodies(came)) == Counter(f"before {number}" for number in range(20))
    assert Counter(bodies(came_then)) == Counter(f"after {number}" for number in range(12))


def committed(scene: Scene, group: str, topic: str) -> int:
    """How many messages the broker knows to be consumed, in all queues together."""
    return sum(queue["consumerOffset"] for queue in scene.consume_stats(group, topic).values())


def test_a_message_reaches_a_waiting_pull_within_a_second(
    go: GoTool, producer: GoProducer, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.push-latency"""
    consumer = go.push_consumer(fresh("consumer"), topic, group=fresh("group"))
    producer.send(some(topic, QUEUES, word="warm"))
    consumer.received(QUEUES)
    time.sleep(2)  # nothing outside shows that the pulls wait at the broker; after this they do
    delays = []
    for number in range(2 * QUEUES):
        began = now_ms()
        producer.send(some(topic, 1, word=f"timed {number}"))
        delays.append(consumer.received(QUEUES + number + 1)[-1]["receivedMs"] - began)
    consumer.stop()

    assert len(delays) == 2 * QUEUES
    assert sorted(delays)[-2] < 1000, delays  # the machine may have halted once


def test_a_message_that_failed_comes_again(
    go: GoTool, producer: GoProducer, scene: Scene, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.push-retry"""
    group = fresh("group")
    go.push_consumer(fresh("early"), topic, group=group).stop()
    scene.wait_for_route(f"%RETRY%{group}")  # a client that starts before this looks for it again only after 30 s
    consumer = go.push_consumer(fresh("consumer"), topic, group=group, retries=1)
    [result] = producer.send([{"topic": topic, "body": "again", "tags": "t", "properties": {"p": "v"}}])
    came = consumer.received(2)
    consumer.stop()

    assert bodies(came) == ["again", "again"]
    assert [delivery["reconsumeTimes"] for delivery in came] == [0, 1]
    assert [delivery["id"] for delivery in came] == [result["id"]] * 2
    assert [delivery["topic"] for delivery in came] == [topic] * 2
    assert all(delivery["properties"].items() >= {"p": "v", "TAGS": "t"}.items() for delivery in came)
    assert came[1]["receivedMs"] - came[0]["receivedMs"] >= 900  # level 1 is a second


def test_an_orderly_consumer_gets_every_shard_in_order(go: GoTool, topic: str, fresh: Callable[[str], str]) -> None:
    """go.orderly"""
    producer = go.producer(fresh("hashing"), select="hash")
    shards, each = 8, 25
    messages = [
        {"topic": topic, "body": f"{shard}/{number}", "shardingKey": f"shard-{shard}"}
        for number in range(each)
        for shard in range(shards)
    ]
    producer.send(messages)
    producer.stop()
    consumer = go.push_consumer(fresh("consumer"), topic, group=fresh("group"), orderly=True)
    came = consumer.received(shards * each, wait_ms=40_000)
    consumer.stop()

    in_order = defaultdict(list)
    for body in bodies(came):
        shard, number = body.split("/")
        in_order[int(shard)].append(int(number))
    assert in_order == {shard: list(range(each)) for shard in range(shards)}
    assert len({delivery["queue"] for delivery in came}) > 1


@pytest.mark.parametrize(("level", "delay_ms"), [(1, 1_000), (2, 5_000)])
def test_a_delayed_message_arrives_after_its_delay(
    go: GoTool, producer: GoProducer, topic: str, fresh: Callable[[str], str], level: int, delay_ms: int
) -> None:
    consumer = go.push_consumer(fresh("consumer"), topic, group=fresh("group"))
    began = now_ms()
    producer.send([{"topic": topic, "body": "later", "delayLevel": level}, {"topic": topic, "body": "now"}])
    came = {bytes.fromhex(delivery["bodyHex"]): delivery for delivery in consumer.received(2)}
    consumer.stop()

    assert came.keys() == {b"now", b"later"}
    assert delay_ms <= came[b"later"]["receivedMs"] - began < delay_ms + LATE_MS


@pytest.mark.parametrize(
    ("name", "value"), [("TIMER_DELAY_MS", 2_500), ("TIMER_DELAY_SEC", 3), ("TIMER_DELIVER_MS", 3_300)]
)
def test_a_message_for_a_time_of_its_own_arrives_then(
    go: GoTool, producer: GoProducer, topic: str, fresh: Callable[[str], str], name: str, value: int
) -> None:
    consumer = go.push_consumer(fresh("consumer"), topic, group=fresh("group"))
    began = now_ms()
    delay_ms = value * 1000 if name == "TIMER_DELAY_SEC" else value
    asked = began + value if name == "TIMER_DELIVER_MS" else value
    timed = {"topic": topic, "body": "later", "properties": {name: str(asked), "p": "v"}}
    producer.send([timed, {"topic": topic, "body": "now"}])
    came = {bytes.fromhex(delivery["bodyHex"]): delivery for delivery in consumer.received(2)}
    consumer.stop()

    assert came.keys() == {b"now", b"later"}
    assert delay_ms <= came[b"later"]["receivedMs"] - began < delay_ms + LATE_MS
    assert came[b"later"]["properties"].items() >= {"p": "v"}.items()


def test_a_pull_consumer_reads_a_topic_from_its_start(
    go: GoTool, producer: GoProducer, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.pull-consumer"""
    messages = some(topic, 100)
    producer.send(messages)
    consumer = go.pull_consumer(fresh("consumer"), topic, group=fresh("group"))
    came = consumer.received(len(messages))
    consumer.stop()

    assert Counter(bodies(came)) == Counter(texts(messages))
    offsets = defaultdict(list)
    for delivery in came:
        offsets[delivery["queue"]].append(delivery["queueOffset"])
    assert offsets == {queue: list(range(25)) for queue in range(QUEUES)}


def test_messages_of_the_java_producer_reach_the_go_consumer(
    go: GoTool, scene: Scene, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.java-to-go"""
    properties = {"amount": "12", "größe": "大 and small"}
    plain = scene.message(topic, "small", tags="eu", keys=["a", "b"], properties=properties, flag=7)
    large = {"topic": topic, "size": 200_000, "tags": "us"}  # compressed by the client
    results = scene.producer(fresh("java")).send_ok(plain, large)
    consumer = go.push_consumer(fresh("consumer"), topic, group=fresh("group"))
    came = {delivery["id"]: delivery for delivery in consumer.received(2)}
    consumer.stop()

    small, big = (came[result["msgId"]] for result in results)
    assert bytes.fromhex(small["bodyHex"]) == b"small"
    assert small["properties"].items() >= {**properties, "TAGS": "eu", "KEYS": "a b"}.items()
    assert (small["flag"], small["sysFlag"] & COMPRESSED) == (7, 0)
    assert bytes.fromhex(big["bodyHex"]) == b"x" * 200_000
    assert big["sysFlag"] & COMPRESSED


def test_messages_of_the_go_producer_reach_the_java_consumer(
    producer: GoProducer, scene: Scene, topic: str, fresh: Callable[[str], str]
) -> None:
    large = "large " * 20_000  # compressed by the client
    results = producer.send([{"topic": topic, "body": body, "tags": "eu", "keys": ["a"]} for body in ("small", large)])
    deliveries = scene.push(fresh("group"), {topic: "eu"}).deliveries(2)
    came = {delivery["msgId"]: delivery for delivery in deliveries}

    small, big = (came[result["id"]] for result in results)
    assert bytes.fromhex(small["bodyHex"]) == b"small"
    assert big["bodySha256"] == hashlib.sha256(large.encode()).hexdigest()
    assert big["storeSize"] < len(large) // 10
    assert [delivery["keys"] for delivery in (small, big)] == ["a", "a"]


def test_a_request_gets_the_reply_of_the_java_consumer(
    producer: GoProducer, scene: Scene, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.request-reply"""
    answering = scene.producer(fresh("java"))
    scene.push(fresh("group"), {topic: "*"}, listener={"replyWith": answering.name})
    producer.send(some(topic, 1))  # so that it knows the broker, to which it then sends heartbeats
    wait_until(lambda: is_known(scene, producer, topic), seconds=40)
    reply = producer.request({"topic": topic, "body": "how are you?"})

    assert bytes.fromhex(reply["bodyHex"]).decode() == "re: how are you?"


def test_transactions_end_as_the_producer_says_also_when_it_is_asked(
    go: GoTool, topic: str, fresh: Callable[[str], str]
) -> None:
    """go.transaction-check"""
    producer, fates = go.transaction_producer(fresh("transactions")), {"now": "c", "never": "r", "asked": "uc"}
    consumer = go.push_consumer(fresh("reader"), topic, group=fresh("group"))
    results = producer.transact(
        [{"topic": topic, "body": body, "properties": {"fate": fate}} for body, fate in fates.items()]
    )
    assert all(result["ok"] for result in results), results
    # RocketMQ's broker looks every 30 s, and knows the producer from its heartbeat, which comes as often.
    wait_until(lambda: producer.questions(1, wait_ms=5_000), seconds=100)
    (question,) = producer.questions()
    assert (question["topic"], bodies([question])) == (topic, ["asked"])
    assert sorted(bodies(consumer.received(2))) == ["asked", "now"]
    producer.stop()


def is_known(scene: Scene, producer: GoProducer, topic: str) -> bool:
    """Whether the broker can reach the producer, as it must to bring a reply."""
    try:
        found = scene.ask_admin("examineProducerConnectionInfo", producer.name, topic)
    except Refused:
        return False
    return bool(found["connectionSet"])


def test_a_running_consumer_is_moved_back_by_an_administrator(
    go: GoTool, producer: GoProducer, scene: Scene, topic: str, fresh: Callable[[str], str]
) -> None:
    group, messages = fresh("group"), some(topic, 12)
    consumer = go.push_consumer(fresh("consumer"), topic, group=group)
    producer.send(messages)
    assert sorted(bodies(consumer.received(12))) == sorted(texts(messages))
    printed = scene.mqadmin("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    assert len([line for line in printed.splitlines() if line.startswith(scene.broker_name)]) == QUEUES
    again = consumer.received(24, wait_ms=60_000)  # the client waits for 10 s before it obeys
    assert Counter(bodies(again)) == Counter(texts(messages) * 2)
    consumer.stop()


def test_a_running_consumer_tells_an_administrator_of_itself(
    go: GoTool, producer: GoProducer, scene: Scene, topic: str, fresh: Callable[[str], str]
) -> None:
    group = fresh("group")
    consumer = go.push_consumer(fresh("consumer"), topic, group=group, expression="eu || us")
    (sent,) = producer.send([{"topic": topic, "body": "hello", "tags": "eu"}])
    assert bodies(consumer.received(1)) == ["hello"]
    found = scene.ask_admin("examineConsumerConnectionInfo", group)
    (connection,) = found["connectionSet"]
    assert connection["language"] == "GO"
    assert found["subscriptionTable"][topic]["subString"] == "eu || us"
    told = scene.ask_admin("getConsumerRunningInfo", group, connection["clientId"], False)
    assert {key.rsplit("/", 1)[1] for key in told["mqTable"] if key.startswith(f"{topic}/")} == set("0123")
    asked = ("consumeMessageDirectly", group, connection["clientId"], topic, sent["offsetId"])
    assert scene.ask_admin(*asked)["consumeResult"] == "CR_SUCCESS"
    assert bodies(consumer.received(2)) == ["hello", "hello"]
    consumer.stop()
