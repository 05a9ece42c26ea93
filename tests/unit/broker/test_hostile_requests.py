"""Requests that once did harm: each found by the fuzz tests, and kept here by itself."""

from __future__ import annotations

from pathlib import Path

from embermq.broker.broker import Broker
from embermq.format.command import Command, decode_command, encode_command, make_request
from embermq.format.frame import BINARY_FORM, split_frames
from embermq.model.codes import RequestCode, ResponseCode
from embermq.rpc.outcome import MAX_REMARK_SIZE
from embermq.rpc.router import MAX_BODY_SIZE
from tests.unit.broker.brokers import Client, pull_fields, with_broker

WAITING = {"sysFlag": "6", "suspendTimeoutMillis": "15000"}


def test_a_pull_that_waited_but_wants_no_answer_gets_none(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send()
        client.tell(make_request(RequestCode.PULL_MESSAGE, pull_fields(offset=1) | WAITING, oneway=True))
        asked = make_request(RequestCode.PULL_MESSAGE, pull_fields(offset=1) | WAITING)
        client.tell(asked)
        assert len(broker.polls) == 2
        client.peer.take_sent()
        await client.send()
        await client.answer_to(asked)  # in the order in which they came, so the other had its turn
        assert len(broker.polls) == 0
        assert len([each for each in client.peer.sent if each.code == 0 and each.data]) == 1

    with_broker(tmp_path / "store", work)


def test_a_remark_with_half_a_character_fits_a_binary_header(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        body = b'{"topicConfigList":[{"topicName":"\\ud800"}]}'
        request = Command(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, {}, body, 7, form=BINARY_FORM)
        client.tell(request)
        answer = await client.answer_to(request)
        quoting = Command(answer.code, {"half": "a\ud800"}, b"", 7, answer.flag, "\ud800", form=BINARY_FORM)
        (frame,), _ = split_frames(encode_command(quoting))
        assert decode_command(frame).fields == {"half": "a?"}
        assert decode_command(frame).remark == "?"

    with_broker(tmp_path / "store", work)


def test_a_body_that_would_take_seconds_to_read_is_refused_unread(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        for code in (RequestCode.HEART_BEAT, RequestCode.UPDATE_BROKER_CONFIG, RequestCode.LOCK_BATCH_MQ):
            answer = await client.ask(code, {}, b"x" * (MAX_BODY_SIZE + 1))
            assert answer.code == ResponseCode.INVALID_PARAMETER
            assert f"limit {MAX_BODY_SIZE}" in (answer.remark or "")
            assert "limit" not in ((await client.ask(code, {}, b"x" * MAX_BODY_SIZE)).remark or "")

    with_broker(tmp_path / "store", work)


def test_a_remark_does_not_repeat_all_of_a_long_name(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        fields = pull_fields("x" * 60_000)
        for code in (RequestCode.PULL_MESSAGE, RequestCode.GET_TOPIC_STATS, RequestCode.GET_CONSUME_STATS):
            answer = await client.ask(code, fields)
            assert len(answer.remark or "") <= MAX_REMARK_SIZE

    with_broker(tmp_path / "store", work)
