"""What RocketMQ and its clients say about consumers is read as they meant it, and written as they write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embermq.format import (
    connection_body,
    consume_stats_body,
    heartbeat_body,
    lock_body,
    offset_table_body,
    queue_dump_body,
    tables,
)
from embermq.format.command import Command, decode_command, make_request
from embermq.format.frame import split_frames
from embermq.format.wire_json import encode_body
from embermq.model.codes import RequestCode
from tests.conftest import GOLDEN
from tests.unit.broker.consuming import Consuming, a_consuming
from tests.unit.broker.peers import RecordingPeer

Change = Callable[[bytes], bytes]


def recorded(code: int, kind: str, scenario: str = "*") -> list[Command]:
    """The requests with this code, or the answers to them, between clients and broker."""
    found = []
    for path in sorted((GOLDEN / "wire").glob(f"{scenario}.jsonl")):
        if path.name == "ha.jsonl":
            continue
        for text in path.read_text().splitlines():
            line: dict[str, Any] = json.loads(text)
            if line.get("peer") != "broker" or line.get("kind") not in kind.split():
                continue
            if line.get("request_code", line["code"]) == code:
                (frame,), _ = split_frames(bytes.fromhex(line["frame_hex"]))
                found.append(decode_command(frame))
    assert found, f"no {kind} {code} in {scenario}"
    return found


BODIES: dict[str, tuple[int, str, Change]] = {
    "heartbeat": (
        RequestCode.HEART_BEAT,
        "request",
        lambda body: heartbeat_body.encode_heartbeat(heartbeat_body.decode_heartbeat(body)),
    ),
    "lock": (
        RequestCode.LOCK_BATCH_MQ,
        "request",
        lambda body: lock_body.encode_lock_request(lock_body.decode_lock_request(body)),
    ),
    "unlock": (
        RequestCode.UNLOCK_BATCH_MQ,
        "request",
        lambda body: lock_body.encode_lock_request(lock_body.decode_lock_request(body)),
    ),
    "locked": (
        RequestCode.LOCK_BATCH_MQ,
        "response",
        lambda body: lock_body.encode_locked(lock_body.decode_locked(body)),
    ),
    "consumer ids": (
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        "response",
        lambda body: connection_body.encode_consumer_ids(connection_body.decode_consumer_ids(body)),
    ),
    "consumer connections": (
        RequestCode.GET_CONSUMER_CONNECTIONS,
        "response",
        lambda body: connection_body.encode_consumer_connections(connection_body.decode_consumer_connections(body)),
    ),
    "producer connections": (
        RequestCode.GET_PRODUCER_CONNECTIONS,
        "response",
        lambda body: connection_body.encode_producer_connections(connection_body.decode_producer_connections(body)),
    ),
    "consume stats": (
        RequestCode.GET_CONSUME_STATS,
        "response",
        lambda body: consume_stats_body.encode_consume_stats(consume_stats_body.decode_consume_stats(body)),
    ),
    "reset offsets": (
        RequestCode.RESET_OFFSET,
        "response",
        lambda body: offset_table_body.encode_offset_table(offset_table_body.decode_offset_table(body)),
    ),
    "all offsets": (
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        "response",
        lambda body: encode_body(tables.offset_members(tables.decode_offsets(body))),
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_are_written_as_rocketmq_writes_them(name: str) -> None:
    code, kind, change = BODIES[name]
    bodies = {command.data for command in recorded(code, kind)} - {b""}
    assert bodies
    for body in bodies:
        assert change(body) == body


def test_entries_of_a_queue_are_written_as_rocketmq_writes_them() -> None:
    for answer in recorded(RequestCode.QUERY_CONSUME_QUEUE, "response"):
        facts = json.loads(answer.data)
        entries = [
            queue_dump_body.ShownEntry(entry["physicOffset"], entry["physicSize"], entry["tagsCode"], entry["eval"])
            for entry in facts["queueData"]
        ]
        body = queue_dump_body.encode_queue_dump(entries, begin=facts["minQueueIndex"], end=facts["maxQueueIndex"])
        assert body == answer.data


@pytest.fixture
def consuming(tmp_path: Path) -> Iterator[Consuming]:
    with a_consuming(tmp_path / "s") as consuming:
        for topic in ("WireTopic", "WireOrder"):
            consuming.make_topic(topic)
        yield consuming


@pytest.mark.parametrize("scenario", ["push-consumer", "lite-pull-consumer", "pull-consumer", "broadcast-consumer"])
def test_a_consumer_that_starts_is_told_what_rocketmq_tells_it(consuming: Consuming, scenario: str) -> None:
    peer = RecordingPeer()
    beats = recorded(RequestCode.HEART_BEAT, "request", scenario)
    client = heartbeat_body.decode_heartbeat(next(beat.data for beat in beats if b'"consumerDataSet":[{' in beat.data))
    answers = recorded(RequestCode.HEART_BEAT, "response", scenario)
    for beat in (beat for beat in beats if heartbeat_body.decode_heartbeat(beat.data).client_id == client.client_id):
        answer = consuming.answer(beat, by=peer)
        assert (answer.code, answer.fields) == (answers[0].code, answers[0].fields)
    assert consuming.membership.consumer_ids(client.consumers[0].group) == [client.client_id]
    if scenario == "broadcast-consumer":
        assert peer.sent == []
    else:
        notice = recorded(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, "oneway", scenario)[0]
        assert [(command.fields, command.flag) for command in peer.sent] == [(notice.fields, notice.flag)]


def test_two_members_are_listed_and_leave_as_with_rocketmq(consuming: Consuming) -> None:
    scenario = "rebalance-two-consumers"
    peers: dict[str, RecordingPeer] = {}
    for beat in recorded(RequestCode.HEART_BEAT, "request", scenario):
        client_id = heartbeat_body.decode_heartbeat(beat.data).client_id
        consuming.answer(beat, by=peers.setdefault(client_id, RecordingPeer()))
    both = max((answer.data for answer in recorded(38, "response", scenario)), key=len)
    answer = consuming.answer(recorded(38, "request", scenario)[0])
    assert sorted(connection_body.decode_consumer_ids(answer.data)) == sorted(connection_body.decode_consumer_ids(both))
    for request in recorded(RequestCode.UNREGISTER_CLIENT, "request", scenario):
        peer = peers.get(request.fields["clientID"], RecordingPeer())
        assert consuming.answer(request, by=peer).code == 0
    assert consuming.membership.consumer_ids("GID_WireTwo") == []


def test_locks_of_an_orderly_consumer(consuming: Consuming) -> None:
    requests = recorded(RequestCode.LOCK_BATCH_MQ, "request", "ordered-consumer")
    answers = {answer.opaque: answer for answer in recorded(RequestCode.LOCK_BATCH_MQ, "response", "ordered-consumer")}
    for request in requests:
        assert consuming.answer(request).data == answers[request.opaque].data
    for request in recorded(RequestCode.UNLOCK_BATCH_MQ, "request", "ordered-consumer"):
        assert consuming.answer(request).code == 0
    assert not consuming.locks.is_any_locked("GID_WireOrder")


def test_who_is_connected_is_shown_as_rocketmq_shows_it(consuming: Consuming) -> None:
    expected = recorded(RequestCode.GET_CONSUMER_CONNECTIONS, "response", "mqadmin-consumerConnection")[0].data
    facts = connection_body.decode_consumer_connections(expected)
    (client,) = facts.clients
    peer = RecordingPeer()
    peer.peer = peer.peer._replace(address=client.address.split(":")[0], port=int(client.address.split(":")[1]))
    consumes = heartbeat_body.Consumes(
        "GID_WireLive", tuple(facts.subscriptions.values()), consume_from=facts.consume_from
    )
    body = heartbeat_body.encode_heartbeat(heartbeat_body.Heartbeat(client.client_id, consumers=(consumes,)))
    number = make_request(RequestCode.HEART_BEAT).opaque
    beat = Command(RequestCode.HEART_BEAT, {}, body, opaque=number, language=client.language, version=client.version)
    consuming.answer(beat, by=peer)
    request = recorded(RequestCode.GET_CONSUMER_CONNECTIONS, "request", "mqadmin-consumerConnection")[0]
    assert consuming.answer(request).data == expected


def test_what_nobody_knows_is_answered_with_rocketmqs_codes(consuming: Consuming) -> None:
    cases = [
        (RequestCode.GET_CONSUMER_CONNECTIONS, "mqadmin-consumerProgress-all"),
        (RequestCode.QUERY_CONSUMER_OFFSET, "request-reply"),
        (RequestCode.UPDATE_CONSUMER_OFFSET, "mqadmin-cloneGroupOffset"),
    ]
    for code, scenario in cases:
        answer = consuming.answer(recorded(code, "request", scenario)[0])
        assert answer.code == recorded(code, "response", scenario)[0].code != 0


def test_the_groups_of_a_topic_are_rocketmqs_without_the_topic_itself(consuming: Consuming) -> None:
    expected = set(json.loads(recorded(300, "response", "mqadmin-statsAll")[0].data)["groupList"])
    for group in expected - {"WireTopic", "GID_WireLive"}:
        consuming.offsets.commit("WireTopic", group, 0, 1)
    consuming.join("GID_WireLive", "one", {"WireTopic": "*"})
    found = json.loads(consuming.answer(recorded(300, "request", "mqadmin-statsAll")[0]).data)
    assert set(found["groupList"]) == expected - {"WireTopic"}
