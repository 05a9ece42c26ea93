"""Transactions: hidden until their producer says how they ended, asked about, and given up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.format.record import decode_record
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.topic import GIVEN_UP_TOPIC, HALF_DONE_TOPIC, HALF_TOPIC
from tests.builders import ManualClock
from tests.unit.broker.brokers import until, with_broker
from tests.unit.broker.transacting import (
    COMMIT,
    GROUP,
    ROLL_BACK,
    UNKNOWN,
    Begun,
    TransactionProducer,
    given_up,
    look,
    question_of,
    visible,
)

TIMEOUT_MS, INTERVAL_MS = 6_000, 30_000


def marks(broker: Broker) -> list[bytes]:
    return [message.body for message in broker.store.get(HALF_DONE_TOPIC, queue=0, offset=0, limit=1000)]


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_a_message_is_seen_when_it_is_committed_and_never_if_it_is_rolled_back(tmp_path: Path, durability: str) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        first = await producer.begin(b"first", queue=2, TAGS="t", KEYS="k", mine="kept")
        second = await producer.begin(b"second")
        assert visible(broker) == []
        assert (await producer.end(first, COMMIT)).code == ResponseCode.SUCCESS
        assert (await producer.end(second, ROLL_BACK)).code == ResponseCode.SUCCESS
        await until(lambda: visible(broker) == [b"first"])
        (message,) = broker.store.get("orders", queue=2, offset=0)
        assert (message.body, message.tags, message.keys, message.flag) == (b"first", "t", ("k",), 7)
        assert {"mine": "kept", "REAL_TOPIC": "orders", "REAL_QID": "2"}.items() <= message.properties.items()
        assert message.properties["__transactionId__"] == first.unique_id
        record = broker.store.read_record(message.position)
        assert (record.sys_flag & 0xC, record.prepared_position) == (8, first.position)
        await until(lambda: marks(broker) == [b"0,", b"1,"])
        assert len(broker.transactions.halves) == 0

    with_broker(tmp_path / "store", work, durability=durability)


def test_the_answer_to_a_half_message_names_its_own_place_and_the_users_queue(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        fields = producer.fields("orders", 3, TRAN_MSG="TRUE", UNIQ_KEY="ID")  # and no group in its properties
        answer = await producer.ask(310, fields, b"x")
        assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("3", "0")
        assert answer.fields["transactionId"] == "ID"
        found = broker.store.find(answer.fields["msgId"])
        assert found is not None and found.topic == HALF_TOPIC
        assert found.properties["PGROUP"] == GROUP

    with_broker(tmp_path / "store", work)


def test_ends_of_one_read_are_one_put_with_one_mark(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        begun = [await producer.begin(b"%d" % number) for number in range(5)]
        ends = [producer.end(each, COMMIT if n % 2 else ROLL_BACK) for n, each in enumerate(begun)]
        await asyncio.gather(*ends)
        assert marks(broker) == [b"0,1,2,3,4,"]
        assert visible(broker) == [b"1", b"3"]

    with_broker(tmp_path / "store", work)


def test_marks_are_no_larger_than_they_may_be(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        begun = [await producer.begin(b"%d" % number) for number in range(12)]
        await asyncio.gather(*(producer.end(each, ROLL_BACK) for each in begun))
        assert marks(broker) == [b"0,1,2,3,", b"4,5,6,7,", b"8,9,10,", b"11,"]

    with_broker(tmp_path / "store", work, settings=BrokerSettings(transaction_mark_size=8))


def test_open_transactions_are_asked_about_when_they_are_due_and_not_before(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        producer.register()
        begun = await producer.begin(b"unknown", queue=1, TAGS="t", mine="kept")
        await producer.end(begun, UNKNOWN)
        await look(broker)
        clock.advance(ms=TIMEOUT_MS - 1)
        await look(broker)
        assert producer.questions() == []
        clock.advance(ms=1)
        await look(broker)
        (question,) = [each for each in producer.peer.take_sent() if each.code == RequestCode.CHECK_TRANSACTION_STATE]
        asked = decode_record(memoryview(question.data), int(question.fields["commitLogOffset"]))
        assert (asked.topic, asked.queue, asked.body, asked.flag) == ("orders", 1, b"unknown", 7)
        assert {"mine": "kept", "TRANSACTION_CHECK_TIMES": "1"}.items() <= asked.property_map().items()
        assert question.fields["topic"] == HALF_TOPIC
        assert question.is_oneway
        copy = question_of(question)
        assert copy.offset == 1
        assert (await producer.end(copy, COMMIT, is_asked=True)).code == ResponseCode.SUCCESS
        assert visible(broker) == [b"unknown"]
        assert marks(broker) == [b"0,", b"1,"]
        clock.advance(hours=1)
        await look(broker)
        assert producer.questions() == []

    with_broker(tmp_path / "store", work, clock=clock)


def test_the_pauses_between_questions_grow_and_end_with_giving_up(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        producer.register()
        begun = await producer.begin(b"never told")
        await look(broker)
        for pause in (TIMEOUT_MS, INTERVAL_MS, 2 * INTERVAL_MS, 4 * INTERVAL_MS, 8 * INTERVAL_MS, 8 * INTERVAL_MS):
            clock.advance(ms=pause - 1)
            await look(broker)
            assert producer.questions() == []
            clock.advance(ms=1)
            await look(broker)
            assert len(producer.questions()) == 1
        assert given_up(broker) == []
        clock.advance(ms=8 * INTERVAL_MS)
        await look(broker)
        assert producer.questions() == []
        (message,) = broker.store.get(GIVEN_UP_TOPIC, queue=0, offset=0)
        assert (message.body, message.flag) == (b"never told", 7)
        assert message.properties["TRANSACTION_CHECK_TIMES"] == "6"
        answer = await producer.end(begun, COMMIT)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark and "given up" in answer.remark
        assert visible(broker) == []

    with_broker(tmp_path / "store", work, clock=clock, settings=BrokerSettings(transaction_check_max=6))


def test_a_transaction_whose_producers_are_gone_waits_for_one_and_is_not_counted(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        gone = TransactionProducer(broker)
        await gone.begin(b"orphan")
        gone.leave()
        for _ in range(20):
            clock.advance(ms=60_000)
            await look(broker)
        assert given_up(broker) == []
        other = TransactionProducer(broker, group="PID_other")
        other.register()
        back = TransactionProducer(broker)
        back.register()
        await look(broker)
        assert other.questions() == []
        (question,) = back.questions()
        await back.end(question, COMMIT, is_asked=True)
        assert visible(broker) == [b"orphan"]

    with_broker(tmp_path / "store", work, clock=clock)


def test_who_sent_a_half_message_is_asked_before_its_first_heartbeat(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        await producer.begin(b"early")
        await look(broker)
        clock.advance(ms=TIMEOUT_MS)
        await look(broker)
        assert len(producer.questions()) == 1
        assert broker.membership.producers(GROUP) == []

    with_broker(tmp_path / "store", work, clock=clock)


def test_what_is_older_than_messages_are_kept_is_given_up(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        await producer.begin(b"old")
        producer.leave()
        await look(broker)
        clock.advance(hours=49)
        await look(broker)
        assert given_up(broker) == [b"old"]

    with_broker(tmp_path / "store", work, clock=clock, retention_hours=48)


def test_producers_of_a_group_are_asked_in_turn(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        producers = [TransactionProducer(broker) for _ in range(3)]
        for each in producers:
            each.register()
        for number in range(9):
            await producers[0].begin(b"%d" % number)
        clock.advance(ms=1)
        await look(broker)
        clock.advance(ms=TIMEOUT_MS)
        await look(broker)
        assert [len(each.questions()) for each in producers] == [3, 3, 3]

    with_broker(tmp_path / "store", work, clock=clock)


def test_a_producer_may_ask_for_more_time_before_the_first_question(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        producer.register()
        late = await producer.begin(b"late", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        timely = await producer.begin(b"timely", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        await look(broker)
        clock.advance(ms=59_999)
        await look(broker)
        assert producer.questions() == []
        assert (await producer.end(timely, COMMIT)).code == ResponseCode.SUCCESS
        clock.advance(ms=2)
        refused = await producer.end(late, COMMIT)
        assert refused.code == ResponseCode.ILLEGAL_OPERATION
        assert refused.remark and "60000 ms" in refused.remark
        await look(broker)
        (question,) = producer.questions()
        assert (await producer.end(question, COMMIT, is_asked=True)).code == ResponseCode.SUCCESS
        assert visible(broker) == [b"timely", b"late"]

    with_broker(tmp_path / "store", work, clock=clock)


def test_an_end_that_comes_after_the_question_ends_the_copy_too(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        producer.register()
        begun = await producer.begin(b"slow")
        await look(broker)
        clock.advance(ms=TIMEOUT_MS)
        await look(broker)
        (question,) = producer.questions()
        assert (await producer.end(begun, COMMIT)).code == ResponseCode.SUCCESS
        assert (await producer.end(question, COMMIT, is_asked=True)).code == ResponseCode.SYSTEM_ERROR
        assert visible(broker) == [b"slow"]
        clock.advance(hours=1)
        await look(broker)
        assert producer.questions() == []

    with_broker(tmp_path / "store", work, clock=clock)


def test_ending_twice_changes_nothing(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        begun = await producer.begin()
        first, second = await asyncio.gather(producer.end(begun, COMMIT), producer.end(begun, ROLL_BACK))
        assert (first.code, second.code) == (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
        assert (await producer.end(begun, COMMIT)).code == ResponseCode.SYSTEM_ERROR
        assert visible(broker) == [b"hello"]

    with_broker(tmp_path / "store", work)


@pytest.mark.parametrize(
    ("fields", "code", "reason"),
    [
        ({"commitLogOffset": "99999999"}, ResponseCode.SYSTEM_ERROR, "99999999"),
        ({"commitLogOffset": "1"}, ResponseCode.SYSTEM_ERROR, "position 1"),
        ({"commitLogOffset": "-1"}, ResponseCode.SYSTEM_ERROR, "-1"),
        ({"commitLogOffset": "9" * 5_000}, ResponseCode.INVALID_PARAMETER, "64 bits"),
        ({"tranStateTableOffset": "5"}, ResponseCode.SYSTEM_ERROR, "has offset 0"),
        ({"producerGroup": "PID_thief"}, ResponseCode.SYSTEM_ERROR, GROUP),
        ({"producerGroup": ""}, ResponseCode.INVALID_PARAMETER, "producerGroup"),
        ({"commitOrRollback": "9"}, ResponseCode.INVALID_PARAMETER, "8 (commit)"),
        ({"commitOrRollback": "x"}, ResponseCode.INVALID_PARAMETER, "no number"),
    ],
)
def test_ends_for_unknown_places_and_of_others_are_refused(
    tmp_path: Path, fields: dict[str, str], code: int, reason: str
) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        begun = await producer.begin()
        refused = await producer.end(begun, COMMIT, **fields)
        assert refused.code == code
        assert refused.remark and reason in refused.remark
        assert visible(broker) == []
        assert (await producer.end(begun, COMMIT)).code == ResponseCode.SUCCESS

    with_broker(tmp_path / "store", work)


def test_an_ordinary_message_cannot_be_committed(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        sent = await producer.send("orders", b"seen", PGROUP=GROUP, REAL_TOPIC="orders", REAL_QID="0")
        assert sent.code == 0
        refused = await producer.end(Begun(b"", 0, 0, ""), COMMIT)
        assert refused.code == ResponseCode.SYSTEM_ERROR
        assert visible(broker) == [b"seen"]

    with_broker(tmp_path / "store", work)


def test_a_message_of_a_deleted_topic_cannot_be_committed_but_rolled_back(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        begun = await producer.begin(topic="doomed")
        broker.topics.delete("doomed")
        assert (await producer.end(begun, COMMIT)).code == ResponseCode.TOPIC_NOT_EXIST
        assert (await producer.end(begun, ROLL_BACK)).code == ResponseCode.SUCCESS

    with_broker(tmp_path / "store", work)


@pytest.mark.parametrize("group", ["PID\x02REAL_TOPIC\x01other", "\ud800"])
def test_a_producer_group_that_cannot_be_written_down_is_refused(tmp_path: Path, group: str) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        refused = await producer.ask(310, {**producer.fields("orders", 0, TRAN_MSG="true"), "a": group}, b"x")
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL
        assert refused.remark and "PGROUP" in refused.remark

    with_broker(tmp_path / "store", work)


@pytest.mark.parametrize("name", ["DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC"])
def test_a_transactional_message_with_a_delay_is_refused(tmp_path: Path, name: str) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        fields = producer.fields("orders", 0, TRAN_MSG="true", UNIQ_KEY="ID", **{name: "3"})
        refused = await producer.ask(310, fields, b"x")
        assert refused.code == ResponseCode.MESSAGE_ILLEGAL

    with_broker(tmp_path / "store", work)


def test_a_broker_may_refuse_transactions(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        refused = await producer.ask(310, producer.fields("orders", 0, TRAN_MSG="true", UNIQ_KEY="ID"), b"x")
        assert refused.code == ResponseCode.NO_PERMISSION

    with_broker(tmp_path / "store", work, settings=BrokerSettings(transactions=False))


def test_what_was_given_up_can_be_taken_up_again(tmp_path: Path) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        producer = TransactionProducer(broker)
        producer.register()
        await producer.begin(b"again")
        await look(broker)
        for _ in range(2):
            clock.advance(hours=1)
            await look(broker)
        producer.questions()
        assert given_up(broker) == [b"again"]
        (message,) = broker.store.get(GIVEN_UP_TOPIC, queue=0, offset=0)
        assert (await producer.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": message.message_id})).code == 0
        await look(broker)
        clock.advance(ms=TIMEOUT_MS)
        await look(broker)
        (question,) = producer.questions()
        await producer.end(question, COMMIT, is_asked=True)
        assert visible(broker) == [b"again"]
        (seen,) = broker.store.get("orders", queue=0, offset=0)
        for bad in (seen.message_id, "nonsense", "00" * 16):
            refused = await producer.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": bad})
            assert refused.code != 0 and refused.remark

    with_broker(tmp_path / "store", work, clock=clock, settings=BrokerSettings(transaction_check_max=1))
