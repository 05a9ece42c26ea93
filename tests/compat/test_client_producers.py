"""RocketMQ's Java producer: what a send answers, and what is stored."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest

from tests.compat.client_tool import Facts, texts
from tests.compat.scene import Scene

SEND_V2 = 310
ILLEGAL_MESSAGE, NO_PERMISSION, NO_TOPIC = 13, 16, 17


def raw_send(scene: Scene, topic: str) -> int:
    """The answer's code to a send that no client checked."""
    fields: Facts = {"a": "producers", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 0, "h": 0, "j": 0}
    code: int = scene.raw(SEND_V2, body="raw", **fields)["code"]
    return code


def test_offset_msg_id(scene: Scene) -> None:
    """producer.offset-msg-id"""
    topic = scene.topic(1)
    (result,) = scene.producer().send_ok(scene.message(topic))
    (stored,) = scene.read(topic, 0)
    found = bytes.fromhex(result["offsetMsgId"])
    host, port = ".".join(map(str, found[:4])), int.from_bytes(found[4:8], "big")
    assert f"{host}:{port}" == scene.broker == stored["storeHost"]
    assert int.from_bytes(found[8:], "big") == stored["commitLogOffset"]


def test_queue_offset_increasing(scene: Scene) -> None:
    """producer.queue-offset-increasing, producer.chosen-queue"""
    topic = scene.topic(3)
    queues = [0, 2, 0, 0, 1, 2, 0, 1]
    sent = [scene.message(topic, str(number), queue=queue) for number, queue in enumerate(queues)]
    results = scene.producer().send_ok(*sent)
    assert [result["queueId"] for result in results] == queues
    offsets = [queues[:at].count(queue) for at, queue in enumerate(queues)]
    assert [result["queueOffset"] for result in results] == offsets
    for queue in range(3):
        assert texts(scene.read(topic, queue)) == [str(number) for number, each in enumerate(queues) if each == queue]


def test_msg_id_seen_by_consumer(scene: Scene) -> None:
    """producer.msgid-seen-by-consumer"""
    topic = scene.topic()
    results = scene.producer().send_ok(*scene.messages(topic, range(10)))
    consumer = scene.push(scene.group(), {topic: "*"})
    found = consumer.deliveries(10)
    assert sorted(each["msgId"] for each in found) == sorted(each["msgId"] for each in results)


def test_async(scene: Scene) -> None:
    """producer.async"""
    topic = scene.topic()
    results = scene.producer().send_ok(*scene.messages(topic, range(100)), mode="async")
    assert len({result["msgId"] for result in results}) == len({each["offsetMsgId"] for each in results}) == 100
    assert sorted(texts(scene.read_all(topic, 4))) == sorted(str(number) for number in range(100))


def test_queue_out_of_range(scene: Scene) -> None:
    """producer.queue-out-of-range"""
    topic = scene.topic(4)
    producer = scene.producer()
    for queue in (4, 99):
        assert producer.refusal(scene.message(topic, queue=queue))["type"] == "MQBrokerException"
    assert scene.read_all(topic, 4) == []


def test_selector_hash(scene: Scene) -> None:
    """producer.selector-hash"""
    topic = scene.topic(4)
    shards = [f"order-{number % 7}" for number in range(28)]
    results = scene.producer().send_ok(*(scene.message(topic, shard=shard) for shard in shards))
    queues = {(shard, result["queueId"]) for shard, result in zip(shards, results, strict=True)}
    assert len(queues) == 7
    assert len({queue for _, queue in queues}) > 1


def test_auto_create_queue_nums(scene: Scene) -> None:
    """producer.auto-create-queue-nums"""
    topic = scene.name("auto")
    scene.producer(defaultTopicQueueNums=6).send_ok(scene.message(topic))
    scene.wait_for_route(topic)
    route = scene.find_route(topic)
    assert route is not None
    (queues,) = route["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (6, 6, 6)


def test_vip_channel(scene: Scene) -> None:
    """producer.vip-channel"""
    topic = scene.topic(1)
    scene.producer(vipChannelEnabled=True).send_ok(*scene.messages(topic, range(3)))
    assert texts(scene.read(topic, 0)) == ["0", "1", "2"]


def test_batch(scene: Scene) -> None:
    """producer.batch-properties, producer.batch-to-queue"""
    topic = scene.topic(3)
    batch = [
        scene.message(topic, "one", queue=2, tags="A", keys=["k1", "k2"], properties={"color": "red", "größe": "大"}),
        scene.message(topic, "zwei", queue=2, tags="B", flag=7),
        scene.message(topic, "三", queue=2),
    ]
    (result,) = scene.producer().send_ok(*batch, mode="batch")
    found = scene.read(topic, 2)
    assert result["queueId"] == 2 and result["queueOffset"] == 0
    assert texts(found) == ["one", "zwei", "三"]
    assert [message["tags"] for message in found] == ["A", "B", None]
    assert [message["keys"] for message in found] == ["k1 k2", None, None]
    assert [message["flag"] for message in found] == [0, 7, 0]
    assert [message["properties"].get("color") for message in found] == ["red", None, None]
    assert found[0]["properties"]["größe"] == "大"
    assert len(set(result["msgId"].split(","))) == 3
    positions = [int(each[16:], 16) for each in result["offsetMsgId"].split(",")]
    assert positions == [message["commitLogOffset"] for message in found]


def test_round_trip(scene: Scene) -> None:
    """producer.roundtrip-keys-tags, producer.roundtrip-user-properties, producer.roundtrip-flag,
    producer.roundtrip-utf8, producer.roundtrip-binary, producer.cluster-property"""
    topic = scene.topic(1)
    odd = {"a": "=", "b": "a=b;c:d,e", "space": " in  between ", "quote": "\"\\'\t", "digits": "0123", "größe": "大 😀"}
    binary: Facts = {"bodyHex": bytes(range(256)).hex(), "flag": -2_147_483_648, "properties": odd}
    utf8: Facts = {"tags": "Täg😀", "keys": ["schlüssel", "键"], "flag": 42}
    scene.producer().send_ok(scene.message(topic, **binary), scene.message(topic, "Grüße 世界 😀\n", **utf8))
    first, second = scene.read(topic, 0)
    assert first["bodyHex"] == binary["bodyHex"]
    assert first["flag"] == binary["flag"]
    assert {name: first["properties"].get(name) for name in odd} == odd
    assert (first["tags"], first["keys"]) == (None, None)
    assert texts([second]) == ["Grüße 世界 😀\n"]
    assert (second["tags"], second["keys"], second["flag"]) == ("Täg😀", "schlüssel 键", 42)
    assert first["properties"]["CLUSTER"] == second["properties"]["CLUSTER"] == scene.cluster_name


@pytest.mark.parametrize("stem", ["L" * 112, "%a|b_c-d%|"], ids=["long", "characters"])
def test_topic_names(scene: Scene, stem: str) -> None:
    """producer.long-topic, producer.retry-topic-name-characters"""
    topic = scene.name(stem)
    if stem.startswith("L"):
        topic = topic.ljust(127, "l")
        assert len(topic) == 127
    scene.producer().send_ok(*scene.messages(topic, range(4), tags="T"))
    scene.wait_for_route(topic)
    consumer = scene.push(scene.group(), {topic: "T"})
    assert sorted(consumer.bodies(4)) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("kind", ["LZ4", "ZLIB", "ZSTD"])
def test_compress(scene: Scene, kind: str) -> None:
    """producer.compress-lz4, and the other two"""
    topic, size = scene.topic(1), 200 << 10
    scene.producer(compressType=kind).send_ok(scene.message(topic, size=size))
    (found,) = scene.read(topic, 0)
    assert found["size"] == size
    assert found["storeSize"] < size / 10


def test_limits(scene: Scene) -> None:
    """producer.limit-properties, producer.empty-body"""
    topic, producer = scene.topic(1), scene.producer()
    refusal = producer.refusal(scene.message(topic, properties={"long": "v" * 32_800}))
    assert refusal["code"] == ILLEGAL_MESSAGE
    assert producer.refusal(scene.message(topic, ""))["code"] == ILLEGAL_MESSAGE
    producer.send_ok(scene.message(topic, "behind"))
    assert texts(scene.read(topic, 0)) == ["behind"]


def test_largest_body(scene: Scene) -> None:
    """Four MiB pass, as they are; one byte more does not."""
    topic, most = scene.topic(1), 4 << 20
    producer = scene.producer(compressMsgBodyOverHowmuch=most * 2, maxMessageSize=most * 2, sendMsgTimeout=30_000)
    producer.send_ok(scene.message(topic, size=most))
    refused = producer.refusal(scene.message(topic, size=most + 1))
    assert (refused["type"], refused["code"]) == ("MQBrokerException", ILLEGAL_MESSAGE)
    (found,) = scene.read(topic, 0)
    assert found["bodySha256"] == hashlib.sha256(b"x" * most).hexdigest()


@pytest.mark.parametrize("topic", ["a b", "a/b", "größe", "x" * 128])
def test_illegal_topic_in_the_client(scene: Scene, topic: str) -> None:
    """producer.illegal-topic-client"""
    assert scene.producer().refusal(scene.message(topic))["type"] == "MQClientException"


@pytest.mark.parametrize("topic", ["../../escaped", "/tmp/escaped", " ", "", "a b", "."])
def test_illegal_topic_at_the_broker(scene: Scene, topic: str) -> None:
    """producer.illegal-topic-broker"""
    assert raw_send(scene, topic) != 0
    assert topic not in scene.ask_admin("fetchAllTopicList")["topicList"]


def test_no_auto_create(scene: Scene) -> None:
    """producer.no-auto-create"""
    topic = scene.name("nowhere")
    refusal = scene.producer(createTopicKey="no-such-template").refusal(scene.message(topic))
    assert refusal["code"] == NO_TOPIC
    assert scene.find_route(topic) is None


def test_no_write_permission(scene: Scene) -> None:
    """producer.no-write-permission"""
    topic = scene.topic(2, perm=4)
    assert scene.producer().refusal(scene.message(topic))["type"] == "MQClientException"
    scene.save_topic(topic, read=2, write=2, perm=6)
    scene.producer().send_ok(scene.message(topic))
    assert len(scene.read_all(topic, 2)) == 1


def test_concurrent(scene: Scene) -> None:
    """producer.concurrent-16x500, producer.concurrent-offsets"""
    topic, producer = scene.topic(4), scene.producer(sendMsgTimeout=30_000)
    results = scene.tool.ask("flood", target=producer.name, topic=topic, threads=16, count=500, wait_s=120)
    bodies = [f"{thread}-{number}" for thread in range(16) for number in range(500)]
    assert [each[0] for each in results] == bodies
    offsets = sorted((queue, offset) for _, queue, offset in results)
    counts = Counter(queue for queue, _ in offsets)
    assert offsets == [(queue, offset) for queue in range(4) for offset in range(counts[queue])]
    consumer = scene.push(scene.group(), {topic: "*"})
    assert sorted(consumer.bodies(8_000, seconds=60)) == sorted(bodies)
