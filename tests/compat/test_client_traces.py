"""Clients that keep a trace of their messages in a topic of its own."""

from __future__ import annotations

from tests.builders import wait_until
from tests.compat.client_tool import Refused, texts
from tests.compat.scene import Scene

TRACES = "RMQ_SYS_TRACE_TOPIC"
FOREVER = 1 << 62


def traces(scene: Scene, message_id: str, *, topic: str = TRACES) -> list[str]:
    """The kinds of the trace records about a message; each record is a line of fields."""
    try:
        found = scene.ask_admin("queryMessage", topic, message_id, 64, 0, FOREVER)["messageList"]
    except Refused as refused:
        assert refused.code in {208, 17}, refused
        return []
    records = [record for body in texts(found) for record in body.split("\x02") if message_id in record]
    return [record.split("\x01")[0] for record in records]


def test_traces(scene: Scene) -> None:
    """trace.producer, trace.consumer, trace.mqadmin"""
    topic, group = scene.topic(2), scene.group()
    consumer = scene.push(group, {topic: "*"}, enableTrace=True)
    (sent,) = scene.producer(enableTrace=True).send_ok(scene.message(topic, keys=["traced"]))
    assert len(consumer.deliveries(1)) == 1
    wait_until(lambda: sorted(traces(scene, sent["msgId"])) == ["Pub", "SubAfter", "SubBefore"], seconds=30)
    shown = scene.mqadmin("queryMsgTraceById", "-i", sent["msgId"])
    kinds = [line.split()[0] for line in shown.splitlines() if line and not line.startswith("#")]
    assert {"Pub", "Sub"} <= set(kinds), shown
    assert group in shown


def test_traces_in_a_topic_of_their_own(scene: Scene) -> None:
    topic, own = scene.topic(1), scene.topic(1)
    settings = {"enableTrace": True, "traceTopic": own}
    consumer = scene.push(scene.group(), {topic: "*"}, **settings)
    (sent,) = scene.producer(scene.name("traced"), **settings).send_ok(scene.message(topic))
    assert len(consumer.deliveries(1)) == 1
    kinds = ["Pub", "SubAfter", "SubBefore"]
    wait_until(lambda: sorted(traces(scene, sent["msgId"], topic=own)) == kinds, seconds=30)
    shown = scene.mqadmin("queryMsgTraceById", "-i", sent["msgId"], "-t", own)
    assert {line.split()[0] for line in shown.splitlines() if line and not line.startswith("#")} >= {"Pub", "Sub"}
    assert traces(scene, sent["msgId"]) == []
