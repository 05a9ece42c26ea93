"""Messages found by key and by place, and replies brought to whoever asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.format.command import Command
from embermq.model.codes import RequestCode, ResponseCode
from tests.builders import ManualClock
from tests.unit.broker.brokers import Client, bodies, send_fields, until, with_broker

FOREVER = str(2**63 - 1)


async def query(client: Client, key: str, **fields: str) -> Command:
    values = {"topic": "orders", "key": key, "maxNum": "32", "beginTimestamp": "0", "endTimestamp": FOREVER}
    return await client.ask(12, {**values, **fields})


def test_messages_are_found_by_each_key_and_by_their_unique_id(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send(body=b"1", KEYS="a b", UNIQ_KEY="ID1")
        await client.send(body=b"2", KEYS="b", UNIQ_KEY="ID2")
        await client.send("other", body=b"3", KEYS="a", UNIQ_KEY="ID3")
        assert bodies(await query(client, "a")) == [b"1"]
        assert bodies(await query(client, "b")) == [b"1", b"2"]
        assert bodies(await query(client, "b", maxNum="1")) == [b"2"]
        found = await query(client, "ID2", _UNIQUE_KEY_QUERY="true")
        assert bodies(found) == [b"2"] and int(found.fields["indexLastUpdatePhyoffset"]) > 0
        missing = await query(client, "c")
        assert (missing.code, missing.data) == (ResponseCode.QUERY_NOT_FOUND, b"")

    with_broker(tmp_path / "store", work)


def test_the_time_bounds_what_is_found_to_the_millisecond(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        client = Client(broker)
        times = []
        for number in range(3):
            await client.send(body=b"%d" % number, KEYS="k")
            times.append(clock.now_ms())
            clock.advance(ms=300)
        for begin, end in [(0, 2), (1, 1), (1, 2), (2, 2)]:
            found = await query(client, "k", beginTimestamp=str(times[begin]), endTimestamp=str(times[end]))
            assert bodies(found) == [b"%d" % number for number in range(begin, end + 1)]

    with_broker(tmp_path / "store", work, clock=clock)


def test_a_message_is_viewed_by_its_place_and_only_where_one_begins(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        sent = await client.send(body=b"1")
        message = broker.store.find(sent.fields["msgId"])
        assert message is not None
        view = {"offset": str(message.position), "topic": "orders"}
        assert bodies(await client.ask(33, view)) == [b"1"]
        assert bodies(await client.ask(33, {"offset": view["offset"]})) == [b"1"]
        assert (await client.ask(33, {**view, "topic": "other"})).code == ResponseCode.QUERY_NOT_FOUND
        for place in (message.position + 1, 10**9, -1):
            assert (await client.ask(33, {**view, "offset": str(place)})).code == ResponseCode.SYSTEM_ERROR
        assert (await client.ask(33, {"topic": "orders"})).code == ResponseCode.INVALID_PARAMETER

    with_broker(tmp_path / "store", work)


@pytest.mark.parametrize("code", [324, 325])
def test_a_reply_is_pushed_to_whoever_asked_and_kept(tmp_path: Path, code: int) -> None:
    async def work(broker: Broker) -> None:
        requester, replier = Client(broker), Client(broker)
        await requester.send("questions", REPLY_TO_CLIENT="me@1", CORRELATION_ID="C1", TTL="3000", UNIQ_KEY="Q")
        requester.peer.will_answer(0)
        fields = send_fields(
            "DefaultCluster_REPLY_TOPIC", REPLY_TO_CLIENT="me@1", CORRELATION_ID="C1", MSG_TYPE="reply"
        )
        if code == 324:
            names = {"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
                     "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties"}  # fmt: skip
            fields = {names[name]: value for name, value in fields.items() if name in names}
        answer = await replier.ask(code, fields, b"the answer")
        assert answer.code == 0 and answer.fields["msgId"] != "0"
        ((pushed, _),) = requester.peer.calls
        assert (pushed.code, pushed.data) == (RequestCode.PUSH_REPLY_TO_CLIENT, b"the answer")
        assert "CORRELATION_ID\x01C1\x02" in pushed.fields["properties"]
        for name in ("PUSH_REPLY_TIME", "MSG_REGION", "TRACE_ON"):
            assert f"{name}\x01" in pushed.fields["properties"]
        assert pushed.fields["bornHost"] == str(replier.peer.peer)
        assert pushed.fields["storeHost"] == "127.0.0.1:10911"
        await until(lambda: len(broker.store.get("DefaultCluster_REPLY_TOPIC", queue=0, offset=0)) == 1)

    with_broker(tmp_path / "store", work)


@pytest.mark.parametrize("to", [{"REPLY_TO_CLIENT": "nobody@1"}, {}])
def test_a_reply_to_nobody_is_an_error_for_the_replier(tmp_path: Path, to: dict[str, str]) -> None:
    async def work(broker: Broker) -> None:
        answer = await Client(broker).ask(325, send_fields("DefaultCluster_REPLY_TOPIC", **to), b"x")
        assert answer.code == ResponseCode.SYSTEM_ERROR and "push reply message fail" in (answer.remark or "")

    with_broker(tmp_path / "store", work)
