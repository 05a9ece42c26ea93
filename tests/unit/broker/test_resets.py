"""Groups that are moved to another place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq import Message
from embermq.broker.handlers.resets import ResetHandlers
from embermq.broker.tables import Tables
from embermq.format.command import make_request
from embermq.format.consume_status_body import encode_client_status
from embermq.format.offset_table_body import decode_offset_table
from embermq.format.wire_json import BrokerQueue
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.group import GroupConfig
from tests.unit.broker.consuming import BROKER, Consuming, a_consuming

BEGIN_MS = 1_700_000_000_000
ALL = {"topic": "orders", "group": "g", "isForce": "true", "queueId": -1, "offset": -1}


@pytest.fixture
def consuming(tmp_path: Path) -> Iterator[Consuming]:
    """Five messages in queue 0 and two in queue 1, one a second in each."""
    with a_consuming(tmp_path / "s") as consuming:
        consuming.make_topic("orders")
        consuming.groups.save(GroupConfig("g"))
        for number in range(5):
            consuming.store.put(Message("orders", b"x", queue=0))
            if number < 2:
                consuming.store.put(Message("orders", b"x", queue=1))
            consuming.clock.advance(ms=1000)
        yield consuming


def reset(consuming: Consuming, **fields: object) -> dict[int, int]:
    answer = consuming.ask(RequestCode.RESET_OFFSET, {**ALL, **fields})
    assert answer.code == 0, answer.remark
    table = decode_offset_table(answer.data)
    assert all(queue.broker == BROKER and queue.topic == "orders" for queue in table)
    return {queue.queue: offset for queue, offset in table.items()}


def test_a_group_without_members_is_moved_by_time(consuming: Consuming) -> None:
    consuming.offsets.commit("orders", "g", 0, 5)
    assert reset(consuming, timestamp=BEGIN_MS + 1000) == {0: 1, 1: 1}
    assert consuming.offsets.find("orders", "g", 0) == 1
    assert consuming.offsets.take_reset("orders", "g", 0) == 1
    assert consuming.woken == []


def test_a_group_is_moved_to_the_start_and_to_the_end(consuming: Consuming) -> None:
    assert reset(consuming, timestamp=0) == {0: 0, 1: 0}
    assert reset(consuming, timestamp=-1) == {0: 5, 1: 2}


def test_one_queue_is_moved_to_an_offset(consuming: Consuming) -> None:
    assert reset(consuming, timestamp=-1, queueId=0, offset=3) == {0: 3}
    assert consuming.offsets.find("orders", "g", 1) is None
    assert reset(consuming, timestamp=BEGIN_MS + 2000, queueId=0) == {0: 2}
    assert reset(consuming, timestamp=-1, queueId=0, offset=0) == {0: 0}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "unknown"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"group": "unknown"}, ResponseCode.GROUP_NOT_EXIST),
        ({"queueId": 0, "offset": 7}, ResponseCode.SYSTEM_ERROR),
        ({"queueId": 0, "offset": -2}, ResponseCode.SYSTEM_ERROR),
        ({"queueId": 2}, ResponseCode.INVALID_PARAMETER),
    ],
)
def test_a_reset_that_makes_no_sense_changes_nothing(
    consuming: Consuming, change: dict[str, object], code: ResponseCode
) -> None:
    assert consuming.ask(RequestCode.RESET_OFFSET, {**ALL, "timestamp": 0, **change}).code == code
    assert consuming.offsets.table().offsets == {}


def test_the_pulls_of_a_group_on_line_are_woken(consuming: Consuming) -> None:
    peer = consuming.join("g", "one")
    peer.take_sent()
    reset(consuming, timestamp=0)
    assert consuming.woken == [("orders", 0), ("orders", 1)]
    assert peer.sent == []  # nothing else is needed, as long as it pulls


def test_a_member_that_does_not_pull_is_told_of_the_queues_that_it_holds(consuming: Consuming) -> None:
    holder, other = consuming.join("g", "holder"), consuming.join("g", "other")
    silent, odd = consuming.join("g", "silent"), consuming.join("g", "odd")
    for peer in (holder, other, silent, odd):
        peer.take_sent()
    held = {BrokerQueue(BROKER, "orders", queue): 4 for queue in (0, 1)}
    holder.will_answer(0, encode_client_status(held))
    other.will_answer(0, encode_client_status({}))
    odd.will_answer(0, b"{nonsense")
    handlers = ResetHandlers(
        Tables(consuming.store, consuming.topics, consuming.groups, consuming.offsets, consuming.membership),
        broker_name=BROKER,
        wake=lambda topic, queue: None,
        push_after_s=0.0,
    )
    fields = {name: str(value) for name, value in {**ALL, "timestamp": 0}.items()}

    async def run() -> None:
        handlers.reset(holder, make_request(RequestCode.RESET_OFFSET, fields))
        assert consuming.offsets.take_reset("orders", "g", 0) == 0  # a pull came for this one
        for _ in range(1000):
            if holder.sent and silent.calls and odd.calls:
                return
            await asyncio.sleep(0.001)

    asyncio.run(run())
    (request,) = holder.sent
    assert (request.code, request.is_oneway) == (RequestCode.RESET_CLIENT_OFFSET, True)
    assert (request.fields["topic"], request.fields["group"]) == ("orders", "g")
    # Go clients understand the raw form only.
    assert request.data == b'{"offsetTable":{{"brokerName":"broker-a","queueId":1,"topic":"orders"}:0}}'
    assert decode_offset_table(request.data) == {BrokerQueue(BROKER, "orders", 1): 0}
    assert other.sent == silent.sent == odd.sent == []


def test_nobody_is_asked_when_the_pulls_have_fetched_everything(consuming: Consuming) -> None:
    peer = consuming.join("g", "one")
    peer.take_sent()

    async def run() -> None:
        fields = {name: str(value) for name, value in {**ALL, "timestamp": 0}.items()}
        consuming.routes()[RequestCode.RESET_OFFSET](peer, make_request(RequestCode.RESET_OFFSET, fields))
        for queue in (0, 1):
            consuming.offsets.take_reset("orders", "g", queue)
        (push,) = asyncio.all_tasks() - {asyncio.current_task()}
        await push

    asyncio.run(run())
    assert peer.calls == []
    assert peer.sent == []
