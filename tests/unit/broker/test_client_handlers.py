"""What clients say of themselves, their locks, and what administrators are told of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.format.connection_body import decode_consumer_connections, decode_consumer_ids
from embermq.format.heartbeat_body import Heartbeat
from embermq.format.lock_body import LockRequest, decode_locked, encode_lock_request
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from tests.unit.broker.consuming import Consuming, a_consuming, beat
from tests.unit.broker.peers import RecordingPeer


@pytest.fixture
def consuming(tmp_path: Path) -> Iterator[Consuming]:
    with a_consuming(tmp_path / "s") as consuming:
        consuming.make_topic("orders")
        yield consuming


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"consumerDataSet":[]}', b'{"clientID":7}', b"\xff"])
def test_a_heartbeat_that_cannot_be_read_is_refused(consuming: Consuming, body: bytes) -> None:
    assert consuming.ask(RequestCode.HEART_BEAT, body=body).code == ResponseCode.INVALID_PARAMETER


def test_a_heartbeat_of_the_first_kind_always_wants_all(consuming: Consuming) -> None:
    answer = beat(consuming, RecordingPeer(), Heartbeat("one", ("p",)))
    assert answer.fields == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert answer.version >= 232  # else Java clients refuse SQL92 subscriptions


def test_a_go_clients_hashes_in_quotes_are_numbers(consuming: Consuming) -> None:
    subscription = {
        "topic": "orders",
        "subString": "TagA",
        "codeSet": ["2598919"],
        "tagsSet": ["TagA"],
        "subVersion": 3,
    }
    consumer = {"groupName": "g", "consumeType": "CONSUME_PASSIVELY", "subscriptionDataSet": [subscription]}
    body = json.dumps({"clientID": "one", "consumerDataSet": [consumer]}).encode()
    assert consuming.ask(RequestCode.HEART_BEAT, body=body).code == 0
    found = consuming.membership.find_subscription("g", "orders")
    assert found is not None
    assert found.codes == (2598919,)
    assert found.filter.accepts_code(2598919)
    assert not found.filter.accepts_code(0)


def test_the_members_of_a_group(consuming: Consuming) -> None:
    fields = {"consumerGroup": "g"}
    nobody = consuming.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
    assert (nobody.code, nobody.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, g")
    consuming.join("g", "one")
    consuming.join("g", "two")
    answer = consuming.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, fields)
    assert decode_consumer_ids(answer.data) == ["one", "two"]


def test_who_signs_off_is_gone(consuming: Consuming) -> None:
    peer = consuming.join("g", "one")
    beat(consuming, peer, Heartbeat("one", ("p",)))
    fields = {"clientID": "one", "consumerGroup": "g"}
    assert consuming.ask(RequestCode.UNREGISTER_CLIENT, fields, by=peer).code == 0
    assert consuming.membership.consumer_ids("g") == []
    assert len(consuming.membership.producers("p")) == 1
    consuming.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "one", "producerGroup": "p"}, by=peer)
    assert consuming.membership.producers("p") == []


def test_only_filters_that_can_be_read_are_accepted(consuming: Consuming) -> None:
    def check(kind: str, text: str = "a > 5") -> int:
        subscription = {"topic": "orders", "subString": text, "expressionType": kind}
        body = json.dumps({"clientId": "one", "group": "g", "subscriptionData": subscription}).encode()
        return consuming.ask(RequestCode.CHECK_CLIENT_CONFIG, body=body).code

    assert check("TAG") == 0
    assert check("SQL92") == 0
    assert check("SQL92", "a >") == check("XPATH") == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_locks_by_request(consuming: Consuming) -> None:
    queues = (BrokerQueue("broker-a", "orders", 0), BrokerQueue("broker-a", "orders", 1))

    def lock(client: str) -> tuple[BrokerQueue, ...]:
        body = encode_lock_request(LockRequest(client, "g", queues))
        return decode_locked(consuming.ask(RequestCode.LOCK_BATCH_MQ, body=body).data)

    assert lock("one") == queues
    assert lock("two") == ()
    assert consuming.ask(RequestCode.LOCK_BATCH_MQ, body=b'{"clientId":"one"}').code == ResponseCode.INVALID_PARAMETER
    body = encode_lock_request(LockRequest("one", "g", queues[:1]))
    assert consuming.ask(RequestCode.UNLOCK_BATCH_MQ, body=body).code == 0
    assert lock("two") == queues[:1]


def test_the_connections_of_a_group(consuming: Consuming) -> None:
    fields = {"consumerGroup": "g"}
    assert consuming.ask(RequestCode.GET_CONSUMER_CONNECTIONS, fields).code == ResponseCode.CONSUMER_NOT_ONLINE
    peer = consuming.join("g", "one", {"orders": "eu"}, consume_from="CONSUME_FROM_FIRST_OFFSET")
    found = decode_consumer_connections(consuming.ask(RequestCode.GET_CONSUMER_CONNECTIONS, fields).data)
    (client,) = found.clients
    assert (client.address, client.client_id, client.language) == (str(peer.peer), "one", "PYTHON")
    assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")
    assert found.consume_from == "CONSUME_FROM_FIRST_OFFSET"
    assert found.subscriptions["orders"].expression == "eu"


def test_the_producers_of_a_group_and_of_all(consuming: Consuming) -> None:
    assert consuming.ask(RequestCode.GET_PRODUCER_CONNECTIONS, {"producerGroup": "p"}).code == ResponseCode.SYSTEM_ERROR
    seen = consuming.clock.now_ms()
    peer = RecordingPeer()
    beat(consuming, peer, Heartbeat("one", ("p",)))
    consuming.clock.advance(ms=5000)
    one = json.loads(consuming.ask(RequestCode.GET_PRODUCER_CONNECTIONS, {"producerGroup": "p"}).data)
    assert [client["clientId"] for client in one["connectionSet"]] == ["one"]
    (entry,) = json.loads(consuming.ask(RequestCode.GET_ALL_PRODUCERS).data)["data"]["p"]
    assert (entry["clientId"], entry["remoteIP"]) == ("one", f"/{peer.peer}")
    assert entry["lastUpdateTimestamp"] == seen
