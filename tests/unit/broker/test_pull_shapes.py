"""Pulls that are like earlier ones: answered as if they were the first, byte for byte, by plain code and by kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from embermq.broker.broker import Broker
from embermq.broker.handlers.pull import PullHandlers
from embermq.broker.pull_answers import found_answer, pull_fields
from embermq.format.command import Command, encode_command, make_answer, make_request
from embermq.format.frame import BINARY_FORM, JSON_FORM
from embermq.kernels import loading
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.flags import Permission
from embermq.model.group import GroupConfig
from embermq.model.topic import TopicConfig
from embermq.store.gathering import FoundBytes
from embermq.store.reading import ReadStatus
from tests.unit.broker.brokers import Client, with_broker
from tests.unit.broker.brokers import pull_fields as asked

QUEUES = 3
TEXTS = ("", "0", "1", "-1", "3", "7", "32", "100000", "+1", " 2", "2_0", "x", "1.0", "9" * 30, "٣", "2147483648")
NAMES = ("queueId", "queueOffset", "maxMsgNums", "maxMsgBytes", "sysFlag", "commitOffset", "suspendTimeoutMillis")
OTHERS = {
    "subscription": ("*", "", "t0", "t1 || t2", "t" * 300, "a||"),
    "expressionType": ("TAG", "", "SQL92"),
    "consumerGroup": ("billing", "other", "", "%illegal"),
    "topic": ("orders", "none", ""),
    "subVersion": ("0", "5", "y"),
}


def handlers_of(broker: Broker) -> PullHandlers:
    handlers: PullHandlers = broker.router._handlers[RequestCode.PULL_MESSAGE][0].__self__  # type: ignore[attr-defined]
    return handlers


async def fill(client: Client) -> None:
    for number in range(60):
        await client.send(
            body=bytes(1 + number * 7), queue=number % QUEUES, TAGS=f"t{number % 2}", UNIQ_KEY=f"ID{number}"
        )


def random_pull(random: Random) -> dict[str, str]:
    """A pull as clients send it, often with something that they would not."""
    fields = asked(offset=random.randrange(21), queue=random.randrange(QUEUES), expressionType="TAG")
    while random.random() < 0.4:
        name = random.choice(NAMES)
        fields[name] = random.choice(TEXTS)
    while random.random() < 0.3:
        name = random.choice(list(OTHERS))
        fields[name] = random.choice(OTHERS[name])
    while random.random() < 0.1:
        del fields[random.choice(list(fields))]
    return fields


def answers_of(handlers: PullHandlers, client: Client, requests: list[Command]) -> list[bytes]:
    """What these pulls are answered with, as bytes."""
    client.peer.take_sent()
    handlers.receive(client.peer, requests)
    return [encode_command(answer) for answer in client.peer.take_sent()]


def test_a_pull_is_answered_as_if_it_were_the_first(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client, random, handlers = Client(broker), Random(5), handlers_of(broker)
        await fill(client)
        was_known = 0
        for _ in range(3_000):
            request = make_request(RequestCode.PULL_MESSAGE, random_pull(random))
            known = len(handlers._known)
            answer = answers_of(handlers, client, [request])
            was_known += known == len(handlers._known)
            handlers._known, kept = {}, handlers._known
            assert answers_of(handlers, client, [request]) == answer, dict(request.fields)
            handlers._known = kept
        assert was_known > 1_000

    with_broker(tmp_path / "store", work)


def test_kernels_answer_the_same(tmp_path: Path) -> None:
    loading.load()

    async def work(broker: Broker) -> None:
        client, random, handlers = Client(broker), Random(6), handlers_of(broker)
        await fill(client)
        pulls = [make_request(RequestCode.PULL_MESSAGE, random_pull(random)) for _ in range(1_500)]
        pulls += [make_request(RequestCode.PULL_MESSAGE, asked(offset=n % 20, queue=n % 3)) for n in range(300)]
        plain = [answers_of(handlers, client, pulls[at : at + 8]) for at in range(0, len(pulls), 8)]
        broker.store.use_kernels()
        assert [answers_of(handlers, client, pulls[at : at + 8]) for at in range(0, len(pulls), 8)] == plain
        assert sum(map(len, plain)) == len(pulls)

    with_broker(tmp_path / "store", work)


def test_the_header_is_what_encoding_its_fields_gives() -> None:
    random = Random(7)
    for _ in range(200):
        topic = TopicConfig("orders", sys_flag=random.choice((0, 1, -5, 2**31 - 1)))
        group = GroupConfig("billing", sys_flag=random.choice((0, 3, 2**30)))
        next_offset, low, high = (random.choice((0, 1, 99, 2**63 - 1)) for _ in range(3))
        parts = [memoryview(random.randbytes(random.randrange(9))) for _ in range(random.randrange(4))]
        size = sum(map(len, parts))
        request = make_request(11, {})
        request.form = random.choice((JSON_FORM, BINARY_FORM))
        found = FoundBytes(ReadStatus.FOUND, next_offset, low, high, len(parts), size, parts)
        answer = found_answer(request, topic, group, found)
        fields = pull_fields(topic, group, next_offset, low, high)
        whole = make_answer(request, ResponseCode.SUCCESS, fields, b"".join(parts), remark="FOUND")
        assert encode_command(answer) == encode_command(whole)
        assert (answer.code, answer.remark, answer.fields) == (whole.code, whole.remark, whole.fields)
        assert (answer.language, answer.version, answer.data) == (whole.language, whole.version, whole.data)
        assert repr(answer) == repr(whole)


@pytest.mark.parametrize("change", ["topic", "group", "settings", "gone"])
def test_what_is_changed_counts_for_the_next_pull(tmp_path: Path, change: str) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        before = [await client.pull(offset=number) for number in range(3)]
        assert [answer.code for answer in before] == [ResponseCode.SUCCESS] * 3
        topic, group = broker.topics.read("orders"), broker.groups.read("billing")
        if change == "topic":
            broker.store.save_topic(replace(topic, permission=Permission.WRITE))
        elif change == "group":
            broker.groups.save(replace(group, may_consume=False))
        elif change == "gone":
            broker.store.delete_topic("orders")
        else:
            handlers_of(broker).settings = replace(broker.settings, pull_max_messages=1)
        after = await client.pull(offset=3)
        match change:
            case "settings":
                assert (after.code, after.fields["nextBeginOffset"]) == (ResponseCode.SUCCESS, "4")
            case "gone":
                assert after.code == ResponseCode.TOPIC_NOT_EXIST
            case _:
                assert after.code == ResponseCode.NO_PERMISSION

    with_broker(tmp_path / "store", work)


def test_pulls_of_one_read_are_answered_in_their_order(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await fill(client)
        waiting = asked(offset=20, sysFlag="6", suspendTimeoutMillis="60000")
        pulls = [
            make_request(11, asked(offset=1)), make_request(11, asked(queue=99)), make_request(11, waiting),
            make_request(11, asked(offset=2), oneway=True), make_request(11, asked(), bytes(2 * 1024 * 1024)),
            make_request(361, asked(offset=3)),
        ]  # fmt: skip
        client.peer.take_sent()
        client.tell(*pulls)
        sent = client.peer.take_sent()
        assert [answer.opaque for answer in sent] == [pulls[number].opaque for number in (0, 1, 4, 5)]
        expected = [ResponseCode.SUCCESS, *[ResponseCode.INVALID_PARAMETER] * 2, ResponseCode.SUCCESS]
        assert [answer.code for answer in sent] == expected
        assert len(broker.polls) == 1

    with_broker(tmp_path / "store", work)
