"""Requests that a consumer replies to."""

from __future__ import annotations

from tests.compat.client_tool import Facts, Producer, text
from tests.compat.scene import Scene


def request(scene: Scene, producer: Producer, topic: str, *, timeout_ms: int = 10_000) -> Facts:
    message = scene.message(topic, "how are you?")
    answer: Facts = scene.tool.ask("request", target=producer.name, message=message, timeoutMs=timeout_ms)
    return answer


def test_request_reply(scene: Scene) -> None:
    """rpc.request-reply, rpc.replier-result"""
    topic, replier = scene.topic(2), scene.producer("repliers")
    consumer = scene.push(scene.group(), {topic: "*"}, listener={"replyWith": replier.name})
    answer = request(scene, scene.producer("requesters"), topic)
    assert text(answer) == "re: how are you?"
    (delivery,) = consumer.deliveries(1)
    assert delivery["reply"] == {"status": "SEND_OK"}
    assert answer["properties"]["CORRELATION_ID"] == delivery["properties"]["CORRELATION_ID"]


def test_reply_to_unknown(scene: Scene) -> None:
    """rpc.reply-to-unknown"""
    topic, replier, requester = scene.topic(2), scene.producer("repliers"), scene.producer("requesters")
    gone = {"REPLY_TO_CLIENT": requester.client_id, "CORRELATION_ID": "1", "TTL": "5000"}
    requester.send_ok(scene.message(topic, reserved=gone))
    requester.close()
    consumer = scene.push(scene.group(), {topic: "*"}, listener={"replyWith": replier.name})
    (delivery,) = consumer.deliveries(1)
    assert "error" in delivery["reply"]


def test_no_reply(scene: Scene) -> None:
    """rpc.no-reply"""
    answer = request(scene, scene.producer("requesters"), scene.topic(2), timeout_ms=1_500)
    assert answer["error"]["type"] == "RequestTimeoutException"
