"""SEND: what is stored, what is answered, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.batch import BatchElement, encode_batch
from embermq.format.command import ONEWAY, Command
from embermq.format.frame import BINARY_FORM
from embermq.format.message_id import decode_message_id
from embermq.model.codes import ResponseCode
from embermq.model.flags import Permission
from embermq.model.message import StoredMessage
from embermq.model.topic import TopicConfig
from tests.unit.broker.brokers import HOST, Client, send_fields, until, with_broker

LONG_NAMES = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums", "e": "queueId",
    "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties", "j": "reconsumeTimes", "k": "unitMode",
    "m": "batch",
}  # fmt: skip


def stored(broker: Broker, topic: str = "orders", queue: int = 0) -> list[StoredMessage]:
    return list(broker.store.get(topic, queue=queue, offset=0, limit=1000))


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_messages_of_one_read_are_stored_and_answered_in_their_order(tmp_path: Path, durability: str) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        requests = [
            Command(310, send_fields(queue=n % 2, UNIQ_KEY=f"ID{n}", TAGS=f"t{n}"), b"body %d" % n, 100 + n)
            for n in range(20)
        ]
        client.tell(*requests)
        await until(lambda: len(client.peer.sent) == 20)
        assert client.peer.owed == 0
        answers = {answer.opaque: answer for answer in client.peer.sent}
        for n, request in enumerate(requests):
            fields = answers[request.opaque].fields
            assert (fields["queueId"], fields["queueOffset"]) == (str(n % 2), str(n // 2))
            assert fields["transactionId"] == f"ID{n}"
            host, position = decode_message_id(fields["msgId"])
            assert host == HOST
            await until(lambda n=n: len(stored(broker, queue=n % 2)) == 10)
            message = broker.store.find(fields["msgId"])
            assert message is not None and (message.position, message.body) == (position, b"body %d" % n)
            assert message.properties["CLUSTER"] == "DefaultCluster"
            assert message.properties["MSG_REGION"] == "DefaultRegion" and message.properties["TRACE_ON"] == "true"

    with_broker(tmp_path / "store", work, durability=durability)


def test_both_forms_and_both_spellings_are_answered_alike(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        short = send_fields(UNIQ_KEY="ID", KEYS="a b", TAGS="t")
        long = {LONG_NAMES[name]: value for name, value in short.items() if name in LONG_NAMES}
        for number, (code, fields, form) in enumerate(
            [(310, short, 0), (10, long, 0), (310, short, BINARY_FORM), (10, long, BINARY_FORM)] * 2
        ):
            request = Command(code, fields, b"body", number, form=form)
            client.tell(request)
            answer = await client.answer_to(request)
            assert (answer.code, answer.form) == (0, form)
            assert set(answer.fields) == {
                "queueId", "transactionId", "msgId", "TRACE_ON", "MSG_REGION", "queueOffset"
            }  # fmt: skip
            assert answer.fields["queueOffset"] == str(number)
        assert len({(each.body, each.tags, each.keys, each.flag) for each in stored(broker)}) == 1

    with_broker(tmp_path / "store", work)


def test_a_oneway_message_is_stored_and_not_answered(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        client.tell(Command(310, send_fields(UNIQ_KEY="A"), b"1", 1, ONEWAY), Command(310, send_fields(), b"2", 2))
        await until(lambda: len(stored(broker)) == 2)
        assert [answer.opaque for answer in client.peer.sent] == [2]

    with_broker(tmp_path / "store", work)


def test_a_batch_becomes_messages_with_their_own_ids(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        elements = [
            BatchElement(7, b"one", b"UNIQ_KEY\x01ID1\x02TAGS\x01x\x02"),
            BatchElement(0, b"two", b""),
        ]
        fields = {**send_fields(queue=1, UNIQ_KEY="BATCH", WAIT="true"), "m": "true"}
        answer = await client.ask(320, fields, encode_batch(elements))
        first, second = stored(broker, queue=1)
        assert answer.fields["msgId"] == f"{first.message_id},{second.message_id}"
        assert (answer.fields["queueOffset"], answer.fields["transactionId"]) == ("0", "BATCH")
        assert (first.body, first.flag, first.tags, first.properties["UNIQ_KEY"]) == (b"one", 7, "x", "ID1")
        assert second.properties["UNIQ_KEY"] not in ("", "ID1", "BATCH")
        assert first.properties["WAIT"] == second.properties["WAIT"] == "true"

    with_broker(tmp_path / "store", work)


def test_a_new_topic_is_made_after_its_template_and_told(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        told: list[str] = []
        broker.topics.listeners.append(lambda configs: told.extend(config.name for config in configs))
        await Client(broker).ask(310, {**send_fields("fresh"), "d": "6"}, b"x")
        made = broker.topics.read("fresh")
        assert (made.read_queues, made.write_queues, made.permission) == (6, 6, 6)
        await Client(broker).ask(310, {**send_fields("wide"), "d": "600"}, b"x")
        assert broker.topics.read("wide").write_queues == 8
        assert told == ["fresh", "wide"]

    with_broker(tmp_path / "store", work)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"b": ""}, ResponseCode.INVALID_PARAMETER, "'b'"),
        ({"b": "../x"}, ResponseCode.INVALID_PARAMETER, "illegal topic"),
        ({"b": "x" * 128}, ResponseCode.INVALID_PARAMETER, "limit 127"),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION, "belongs to the broker"),
        ({"b": "rmq_sys_REVIVE_LOG_DefaultCluster"}, ResponseCode.NO_PERMISSION, "belongs to the broker"),
        ({"b": "oders", "c": "no-template"}, ResponseCode.TOPIC_NOT_EXIST, "nearest name is 'orders'"),
        ({"e": "4"}, ResponseCode.INVALID_PARAMETER, "queues 0 to 3"),
        ({"e": "many"}, ResponseCode.INVALID_PARAMETER, "no number"),
        ({"e": "9" * 30}, ResponseCode.INVALID_PARAMETER, "no number"),
        ({"h": "4294967296"}, ResponseCode.INVALID_PARAMETER, "32 bits"),
        ({"g": "9223372036854775808"}, ResponseCode.INVALID_PARAMETER, "64 bits"),
        ({"i": "TIMER_DELAY_SEC\x01999999999\x02"}, ResponseCode.MESSAGE_ILLEGAL, "timer_max_delay_s"),
        ({"i": "x\x01" + "y" * 33_000 + "\x02"}, ResponseCode.MESSAGE_ILLEGAL, "limit 32767"),
        ({"i": "x\x01\ud800\x02"}, ResponseCode.MESSAGE_ILLEGAL, "UTF-8"),
        ({"m": "true"}, ResponseCode.MESSAGE_ILLEGAL, "batch"),
        ({"b": "read-only"}, ResponseCode.NO_PERMISSION, "write permission"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_the_rest_of_the_read_is_not(
    tmp_path: Path, change: dict[str, str], code: int, said: str
) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send()
        broker.topics.save(TopicConfig("read-only", permission=Permission.READ))
        before = len(stored(broker))
        good, bad = Command(310, send_fields(), b"good", 1), Command(310, {**send_fields(), **change}, b"bad", 2)
        client.tell(good, bad, Command(310, send_fields(), b"good", 3))
        answer = await client.answer_to(bad)
        assert answer.code == code and said in (answer.remark or "")
        assert answer.fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
        await until(lambda: len(stored(broker)) == before + 2)
        assert client.peer.owed == 0

    with_broker(tmp_path / "store", work)


def test_bodies_are_limited(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        assert (await client.send(body=b"")).code == ResponseCode.MESSAGE_ILLEGAL
        assert (await client.send(body=bytes(1000))).code == 0
        assert (await client.send(body=bytes(1001))).code == ResponseCode.MESSAGE_ILLEGAL
        fields = {**send_fields(), "m": "true"}
        large = encode_batch([BatchElement(0, bytes(600), b""), BatchElement(0, bytes(600), b"")])
        assert (await client.ask(320, fields, large)).code == ResponseCode.MESSAGE_ILLEGAL

    with_broker(tmp_path / "store", work, max_message_size=1000)


def test_one_message_that_no_file_can_hold_does_not_cost_the_others_of_its_read(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send()
        client.tell(
            *(Command(310, send_fields(UNIQ_KEY=f"I{n}"), bytes(size), n) for n, size in enumerate([9, 9000, 9]))
        )
        await until(lambda: len(client.peer.sent) == 4)
        codes = {answer.opaque: answer.code for answer in client.peer.sent}
        assert [codes[n] for n in range(3)] == [0, ResponseCode.MESSAGE_ILLEGAL, 0]

    with_broker(tmp_path / "store", work, log_file_size=8192)


def test_a_broker_without_write_permission_takes_nothing(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        assert (await Client(broker).send()).code == ResponseCode.NO_PERMISSION

    with_broker(tmp_path / "store", work, settings=BrokerSettings(permission=Permission.READ))


def test_a_changed_topic_is_seen_by_the_next_message(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        assert (await client.send(UNIQ_KEY="A")).code == (await client.send(UNIQ_KEY="B")).code == 0
        broker.topics.save(TopicConfig("orders", permission=Permission.READ))
        assert (await client.send(UNIQ_KEY="C")).code == ResponseCode.NO_PERMISSION
        broker.topics.save(TopicConfig("orders", read_queues=1, write_queues=1))
        assert (await client.send(UNIQ_KEY="D", queue=1)).code == ResponseCode.INVALID_PARAMETER

    with_broker(tmp_path / "store", work)


def test_what_a_client_may_not_set_is_not_stored(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        fields = send_fields(UNIQ_KEY="A", POP_CK="0 1 2", **{"__RMQ.TRANSIENT.x": "y"}, mine="kept")
        await client.ask(310, {**fields, "f": str(0x1 | 0x4 | 0x30 | 0x80)}, b"x")
        (message,) = stored(broker)
        assert "POP_CK" not in message.properties and "__RMQ.TRANSIENT.x" not in message.properties
        assert message.properties["mine"] == "kept"
        assert message.sys_flag == 0x1

    with_broker(tmp_path / "store", work)
