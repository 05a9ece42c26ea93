"""PULL: every outcome with RocketMQ's code and offsets, and pulls that wait."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.command import Command, make_request
from embermq.format.stats_body import StatsKind
from embermq.model.codes import ResponseCode
from embermq.model.flags import Permission
from embermq.model.group import GroupConfig
from embermq.model.topic import TopicConfig
from tests.unit.broker.brokers import Client, bodies, pull_fields, until, with_broker

WAITING = {"sysFlag": "6", "suspendTimeoutMillis": "5000"}


def offsets(answer: Command) -> tuple[int, int, int]:
    return tuple(int(answer.fields[name]) for name in ("nextBeginOffset", "minOffset", "maxOffset"))  # type: ignore[return-value]


async def fill(client: Client, count: int = 5) -> None:
    for number in range(count):
        await client.send(body=b"%d" % number, TAGS=f"t{number % 2}", UNIQ_KEY=f"ID{number}")


@pytest.mark.parametrize(
    ("offset", "code", "remark", "next_offset"),
    [
        (0, ResponseCode.SUCCESS, "FOUND", 5),
        (3, ResponseCode.SUCCESS, "FOUND", 5),
        (5, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 5),
        (6, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 5),
        (-1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
    ],
)
def test_every_place_has_its_answer(tmp_path: Path, offset: int, code: int, remark: str, next_offset: int) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        answer = await client.pull(offset=offset)
        assert (answer.code, answer.remark) == (code, remark)
        assert offsets(answer) == (next_offset, 0, 5)
        assert answer.fields["suggestWhichBrokerId"] == "0"
        assert bodies(answer) == ([b"%d" % n for n in range(offset, 5)] if code == 0 else [])

    with_broker(tmp_path / "store", work)


def test_pulls_are_counted_by_what_they_find(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        for offset in (0, 3, 5, 9):
            await client.pull(offset=offset)
        totals = broker.statistics.totals
        assert (totals.found, totals.missed, totals.transferred) == (2, 2, 7)
        (counter,) = broker.statistics.counters(StatsKind.GET_TIME).values()
        assert counter.times == 2

    with_broker(tmp_path / "store", work)


def test_a_queue_without_messages_says_so(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send()
        answer = await client.pull(queue=3)
        assert (answer.code, offsets(answer)) == (ResponseCode.PULL_NOT_FOUND, (0, 0, 0))
        assert (await client.pull(queue=3, offset=7)).code == ResponseCode.PULL_OFFSET_MOVED

    with_broker(tmp_path / "store", work)


def test_answers_are_bounded_by_count_and_bytes_but_hold_one_message(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        assert bodies(await client.pull(maxMsgNums="2")) == [b"0", b"1"]
        assert bodies(await client.pull(maxMsgBytes="1")) == [b"0"]
        assert bodies(await client.pull(maxMsgNums="-5")) == [b"0"]

    with_broker(tmp_path / "store", work)


def test_tags_are_filtered_and_the_offset_moves_on(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        answer = await client.pull(subscription="t1")
        assert (bodies(answer), offsets(answer)) == ([b"1", b"3"], (5, 0, 5))
        answer = await client.pull(subscription="nobody || has")
        assert (answer.code, offsets(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, (5, 0, 5))
        answer = await client.pull(subscription="a = 1", expressionType="XPATH")
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED

    with_broker(tmp_path / "store", work)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"consumerGroup": ""}, ResponseCode.INVALID_PARAMETER),
        ({"consumerGroup": "../x"}, ResponseCode.INVALID_PARAMETER),
        ({"topic": "unknown"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"queueId": "4"}, ResponseCode.INVALID_PARAMETER),
        ({"queueId": "-1"}, ResponseCode.INVALID_PARAMETER),
        ({"queueOffset": "x"}, ResponseCode.INVALID_PARAMETER),
        ({"sysFlag": "0"}, ResponseCode.SUBSCRIPTION_NOT_EXIST),
        ({"topic": "write-only"}, ResponseCode.NO_PERMISSION),
        ({"consumerGroup": "stopped"}, ResponseCode.NO_PERMISSION),
    ],
)
def test_what_may_not_be_pulled_is_refused(tmp_path: Path, change: dict[str, str], code: int) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send()
        broker.topics.save(TopicConfig("write-only", permission=Permission.WRITE))
        broker.groups.save(GroupConfig("stopped", may_consume=False))
        answer = await client.ask(11, {**pull_fields(), **change})
        assert answer.code == code and answer.remark
        assert ("forbiddenType" in answer.fields) == (code == ResponseCode.NO_PERMISSION)

    with_broker(tmp_path / "store", work)


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_a_pull_waits_for_the_next_message(tmp_path: Path, durability: str) -> None:
    async def work(broker: Broker) -> None:
        client, sender = Client(broker), Client(broker)
        await fill(sender, 1)
        await until(lambda: broker.store.offsets("orders", queue=0)[1] == 1)
        request = make_request(11, {**pull_fields(offset=1), **WAITING})
        client.tell(request)
        await asyncio.sleep(0.02)
        assert client.peer.sent == [] and len(broker.polls) == 1 and client.peer.owed == 0
        await sender.send(body=b"new", UNIQ_KEY="N")
        answer = await client.answer_to(request)
        assert (answer.code, bodies(answer), len(broker.polls)) == (0, [b"new"], 0)

    with_broker(tmp_path / "store", work, durability=durability)


def test_a_waiting_pull_sleeps_through_messages_that_it_does_not_want(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client, sender = Client(broker), Client(broker)
        await sender.send(TAGS="a")
        request = make_request(11, {**pull_fields(offset=1), **WAITING, "subscription": "b"})
        client.tell(request)
        await sender.send(TAGS="a")
        await asyncio.sleep(0.05)
        assert client.peer.sent == []
        await sender.send(body=b"wanted", TAGS="b")
        answer = await client.answer_to(request)
        assert bodies(answer) == [b"wanted"] and offsets(answer)[0] == 3

    with_broker(tmp_path / "store", work)


def test_a_pull_that_waited_in_vain_is_answered_in_time(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send()
        answer = await client.pull(offset=1, sysFlag="6", suspendTimeoutMillis="300")
        assert (answer.code, offsets(answer)[0]) == (ResponseCode.PULL_NOT_FOUND, 1)

    with_broker(tmp_path / "store", work)


def test_waiting_pulls_are_limited_and_those_of_closed_connections_forgotten(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client, other = Client(broker), Client(broker)
        await client.send()
        client.tell(make_request(11, {**pull_fields(offset=1), **WAITING}))
        answer = await other.pull(offset=1, **WAITING)
        assert answer.code == ResponseCode.PULL_NOT_FOUND
        client.peer.close()
        await until(lambda: len(broker.polls) == 0)
        assert len(client.peer.sent) == 1  # the answer to the send

    with_broker(tmp_path / "store", work, settings=BrokerSettings(max_parked_pulls=1))


def test_a_pull_commits_the_offset_it_carries(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        await client.pull(offset=3, sysFlag="5", commitOffset="3")
        assert broker.offsets.find("orders", "billing", 0) == 3
        await client.pull(offset=4, sysFlag="4", commitOffset="4")
        assert broker.offsets.find("orders", "billing", 0) == 3

    with_broker(tmp_path / "store", work)


def test_a_reset_is_answered_once_and_the_old_offset_is_not_committed_over_it(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        broker.offsets.reset("orders", "billing", 0, 1)
        answer = await client.pull(offset=5, sysFlag="5", commitOffset="5")
        assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
        assert offsets(answer) == (1, 0, 5)
        assert broker.offsets.find("orders", "billing", 0) == 1
        assert bodies(await client.pull(offset=1))[0] == b"1"

    with_broker(tmp_path / "store", work)


async def beat(client: Client, expression: str, *, version: int, topic: str = "orders") -> None:
    """Tell the broker what the group reads, as a Java consumer does."""
    subscription = {"topic": topic, "subString": expression, "subVersion": version, "expressionType": "TAG"}
    consumer = {
        "groupName": "billing", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET", "subscriptionDataSet": [subscription],
    }  # fmt: skip
    body = {"clientID": "me@1", "consumerDataSet": [consumer], "producerDataSet": []}
    assert (await client.ask(34, body=json.dumps(body).encode())).code == 0


def test_a_client_that_is_ahead_of_its_heartbeat_loses_nothing_to_its_old_filter(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        await beat(client, "t0", version=1000)
        assert bodies(await client.pull(sysFlag="0", subVersion="1000")) == [b"0", b"2", b"4"]
        assert bodies(await client.pull(sysFlag="0", subVersion="0")) == [b"0", b"2", b"4"]
        assert bodies(await client.pull(sysFlag="0", subVersion="2000")) == [b"0", b"1", b"2", b"3", b"4"]
        await beat(client, "t1", version=2000)
        assert bodies(await client.pull(sysFlag="0", subVersion="2000")) == [b"1", b"3"]

    with_broker(tmp_path / "store", work)


def test_a_pull_that_waits_comes_again_when_its_group_wants_something_else(tmp_path: Path) -> None:
    """The client would look for the tags that it wanted when it asked, and drop what the new filter finds."""

    async def work(broker: Broker) -> None:
        client, heart = Client(broker), Client(broker)
        await fill(client)
        await beat(heart, "t0", version=1000)
        waiting = make_request(11, pull_fields(offset=5) | WAITING | {"sysFlag": "2", "subVersion": "1000"})
        client.tell(waiting)
        await until(lambda: len(broker.polls) == 1)
        await beat(heart, "t0 || t0", version=1500)  # the same in other words
        assert len(broker.polls) == 1
        await beat(heart, "t1", version=2000)
        answer = await client.answer_to(waiting)
        assert (answer.code, offsets(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, (5, 0, 5))
        await client.send(body=b"new", TAGS="t1", UNIQ_KEY="new")
        assert bodies(await client.pull(offset=5, sysFlag="0", subVersion="2000")) == [b"new"]

    with_broker(tmp_path / "store", work)


def test_a_pull_that_its_own_clients_heartbeat_has_overtaken_comes_again(tmp_path: Path) -> None:
    """It was asked with the old filter, which the client goes by when the answer comes."""

    async def work(broker: Broker) -> None:
        client, other = Client(broker), Client(broker)
        await fill(client)
        await beat(client, "t0", version=1000)
        await beat(client, "t0 || t0", version=1500)  # the same in other words
        assert bodies(await client.pull(sysFlag="0", subVersion="1000")) == [b"0", b"2", b"4"]
        await beat(client, "t1", version=2000)
        for offset in (1, 5):
            for version in ("1500", "1999"):  # the latter of the same filter, but never told
                answer = await client.pull(offset=offset, sysFlag="0", subVersion=version)
                assert (answer.code, offsets(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, (offset, 0, 5))
        for version in ("2000", "0"):  # some clients tell none
            assert bodies(await client.pull(sysFlag="0", subVersion=version)) == [b"1", b"3"]
        assert bodies(await other.pull(sysFlag="0", subVersion="1500")) == [b"1", b"3"]

    with_broker(tmp_path / "store", work)


def test_a_pull_with_a_filter_of_its_own_comes_again_when_its_client_gave_that_up(tmp_path: Path) -> None:
    """What came in between, and only the new filter wants, would be passed over."""
    own = {"sysFlag": "6", "subscription": "t0", "subVersion": "1000", "suspendTimeoutMillis": "5000"}

    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        await beat(client, "t0", version=1000)
        waiting = make_request(11, pull_fields(offset=5) | own)
        client.tell(waiting)
        await until(lambda: len(broker.polls) == 1)
        await client.send(body=b"b2", TAGS="t1", UNIQ_KEY="b2")
        await beat(client, "t1", version=2000)
        for answer in (await client.answer_to(waiting), await client.pull(offset=5, **own)):
            assert (answer.code, offsets(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, (5, 0, 6))
        assert bodies(await client.pull(offset=5, **own | {"subscription": "t1", "subVersion": "2000"})) == [b"b2"]
        assert bodies(await client.pull(**own | {"subVersion": "0"})) == [b"0", b"2", b"4"]  # of no subscription

    with_broker(tmp_path / "store", work)


def test_a_pull_comes_again_when_its_topic_was_given_up_and_taken_up_otherwise(
    tmp_path: Path,
) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        await beat(client, "t0", version=1000)
        waiting = make_request(11, pull_fields(offset=5) | WAITING | {"sysFlag": "2", "subVersion": "1000"})
        client.tell(waiting)
        await until(lambda: len(broker.polls) == 1)
        await beat(client, "*", version=1500, topic="bills")
        await beat(client, "t1", version=2000)
        for answer in (await client.answer_to(waiting), await client.pull(offset=5, sysFlag="0", subVersion="1000")):
            assert (answer.code, offsets(answer)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, (5, 0, 5))
        assert bodies(await client.pull(sysFlag="0", subVersion="2000")) == [b"1", b"3"]

    with_broker(tmp_path / "store", work)


def test_a_client_whose_clock_went_back_gets_what_it_wants_now(tmp_path: Path) -> None:
    """The versions of its filters are times."""

    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        await beat(client, "t0", version=1000)
        await beat(client, "t1", version=2000)
        await beat(client, "t1", version=500)
        assert bodies(await client.pull(sysFlag="0", subVersion="500")) == [b"1", b"3"]
        for expression, expected in (("t0", [b"0", b"2", b"4"]), ("t1", [b"1", b"3"])):
            await beat(client, expression, version=400)
            assert bodies(await client.pull(sysFlag="0", subVersion="400")) == expected

    with_broker(tmp_path / "store", work)


def test_a_client_that_comes_back_with_another_filter_is_not_answered_by_the_old_one(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client, again = Client(broker), Client(broker)
        await fill(client)
        await beat(client, "t0", version=1000)
        await beat(again, "t1", version=2000)
        answer = await again.pull(sysFlag="0", subVersion="1000")
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert bodies(await again.pull(sysFlag="0", subVersion="2000")) == [b"1", b"3"]

    with_broker(tmp_path / "store", work)
