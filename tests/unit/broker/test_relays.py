"""Requests that reach a consumer through the broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq import Message
from embermq.format.command import Command, make_request
from embermq.format.consume_status_body import decode_consume_status, encode_client_status
from embermq.format.heartbeat_body import Consumes, Heartbeat, encode_heartbeat
from embermq.format.record import decode_record
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from tests.unit.broker.consuming import BROKER, Consuming, a_consuming
from tests.unit.broker.peers import RecordingPeer

CLIENT = {"consumerGroup": "g", "clientId": "one"}


@pytest.fixture
def consuming(tmp_path: Path) -> Iterator[Consuming]:
    with a_consuming(tmp_path / "s") as consuming:
        consuming.make_topic("orders", sys_flag=1)
        yield consuming


def test_a_client_is_asked_and_its_answer_handed_on(consuming: Consuming) -> None:
    peer = consuming.join("g", "one")
    peer.will_answer(0, b'{"mqTable":{{"topic":"orders"}:{}}}')
    answer = consuming.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {**CLIENT, "jstackEnable": "true"})
    assert (answer.code, answer.data) == (0, b'{"mqTable":{{"topic":"orders"}:{}}}')
    ((request, timeout_s),) = peer.calls
    assert request.code == RequestCode.GET_CONSUMER_RUNNING_INFO
    assert request.fields == {**CLIENT, "jstackEnable": "true"}
    assert timeout_s == 10


def test_what_a_client_refuses_is_handed_on_too(consuming: Consuming) -> None:
    consuming.join("g", "one").will_answer(1, remark="not now")
    answer = consuming.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, CLIENT)
    assert (answer.code, answer.remark) == (1, "not now")


def test_a_client_that_is_not_there_or_silent_or_too_old(consuming: Consuming) -> None:
    assert consuming.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, CLIENT).code == ResponseCode.SYSTEM_ERROR
    consuming.join("g", "one")  # never answers
    assert consuming.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, CLIENT).code == ResponseCode.CONSUME_MSG_TIMEOUT
    other = {**CLIENT, "clientId": "two"}
    assert consuming.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, other).code == ResponseCode.SYSTEM_ERROR
    body = encode_heartbeat(Heartbeat("old", consumers=(Consumes("g"),)))
    beat = make_request(RequestCode.HEART_BEAT, body=body)
    old = RecordingPeer()
    old.will_answer()
    consuming.answer(Command(beat.code, {}, body, opaque=beat.opaque, version=61), by=old)
    answer = consuming.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {**CLIENT, "clientId": "old"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert old.calls == []


def test_a_client_whose_connection_breaks_meanwhile(consuming: Consuming) -> None:
    consuming.join("g", "one").close()
    assert consuming.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, CLIENT).code == ResponseCode.SYSTEM_ERROR


def test_a_client_consumes_a_message_now(consuming: Consuming) -> None:
    consuming.store.put(Message("orders", b"before"))
    receipt = consuming.store.put(Message("orders", b"this one"))
    peer = consuming.join("g", "one")
    peer.will_answer(0, b'{"consumeResult":"CR_SUCCESS"}')
    answer = consuming.ask(RequestCode.CONSUME_DIRECTLY, {**CLIENT, "msgId": receipt.message_id})
    assert (answer.code, answer.data) == (0, b'{"consumeResult":"CR_SUCCESS"}')
    ((request, timeout_s),) = peer.calls
    assert timeout_s == 10
    assert decode_record(memoryview(request.data), receipt.position).body == b"this one"
    assert (request.fields["brokerName"], request.fields["topicSysFlag"]) == (BROKER, "1")
    assert request.fields["groupSysFlag"] == "0"


@pytest.mark.parametrize("position", [1, 2**40])
def test_a_message_that_is_not_there_is_not_consumed(consuming: Consuming, position: int) -> None:
    receipt = consuming.store.put(Message("orders", b"x"))
    peer = consuming.join("g", "one")
    fields = {**CLIENT, "msgId": f"{receipt.store_host_hex}{position:016X}"}
    assert consuming.ask(RequestCode.CONSUME_DIRECTLY, fields).code == ResponseCode.SYSTEM_ERROR
    assert peer.calls == []


@pytest.mark.parametrize("message_id", ["", "nonsense", "00" * 16, "zz" * 16])
def test_an_id_that_is_none_is_refused(consuming: Consuming, message_id: str) -> None:
    peer = consuming.join("g", "one")
    answer = consuming.ask(RequestCode.CONSUME_DIRECTLY, {**CLIENT, "msgId": message_id})
    assert answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER)
    assert peer.calls == []


def test_where_members_say_they_are(consuming: Consuming) -> None:
    queue = BrokerQueue(BROKER, "orders", 0)
    consuming.join("g", "one").will_answer(0, encode_client_status({queue: 5}))
    consuming.join("g", "silent")
    consuming.join("g", "odd").will_answer(0, b"{nonsense")
    answer = consuming.ask(RequestCode.GET_CONSUMER_STATUS, {"group": "g", "topic": "orders"})
    assert decode_consume_status(answer.data) == {"one": {queue: 5}}
    assert answer.data.startswith(
        b'{"consumerTable":{"one":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:5}}'
    )


def test_where_one_member_says_it_is(consuming: Consuming) -> None:
    one, two = consuming.join("g", "one"), consuming.join("g", "two")
    two.will_answer(0, encode_client_status({}))
    fields = {"group": "g", "topic": "orders", "clientAddr": "two"}
    assert decode_consume_status(consuming.ask(RequestCode.GET_CONSUMER_STATUS, fields).data) == {"two": {}}
    assert one.calls == []
    ((_, timeout_s),) = two.calls
    assert timeout_s == 5


def test_a_group_without_members_is_nowhere(consuming: Consuming) -> None:
    answer = consuming.ask(RequestCode.GET_CONSUMER_STATUS, {"group": "g", "topic": "orders"})
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
