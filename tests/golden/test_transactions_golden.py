"""RocketMQ's transactions: what we make of its half messages is what it made, and we go on where it stopped."""

from __future__ import annotations

from typing import Any

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.broker.transactions.halves import (
    Half,
    checked_draft,
    committed_draft,
    done_drafts,
    given_up_draft,
    read_half,
)
from embermq.format.done_marks import decode_done_marks
from embermq.format.record import Draft, DraftFields, Record
from embermq.format.transaction_metrics import decode_transactions, encode_transactions
from embermq.model.properties import parse_properties
from embermq.model.topic import GIVEN_UP_TOPIC, HALF_DONE_TOPIC, HALF_TOPIC
from embermq.store.store import Store, open_store
from tests.builders import ManualClock
from tests.conftest import Golden
from tests.unit.broker.brokers import with_broker
from tests.unit.broker.transacting import COMMIT, TransactionProducer, look, visible

TOPIC, GROUP = "TxTopic", "PID_tx"


@pytest.fixture
def records(golden: Golden) -> list[Record]:
    """Every record of the store, in the order of the log."""
    path, expected = golden.store("transaction"), golden.expected("transaction")
    with open_store(path, durability="async", reserve_bytes=0, retention_hours=10**6) as store:
        return [store.read_record(record["physicalOffset"]) for record in expected["commitLog"]["records"]]


def halves_of(records: list[Record]) -> dict[int, Half]:
    """By position."""
    found = [half for record in records if (half := read_half(record)) is not None]
    assert len(found) == 70
    return {half.record.position: half for half in found}


def facts(draft: DraftFields | Record) -> dict[str, Any]:
    """What must be the same, properties in any order."""
    if isinstance(draft, Record):
        plain = Draft(
            draft.topic.encode(), draft.queue, draft.body, draft.properties, draft.flag, draft.sys_flag,
            draft.born_time, draft.born_host, draft.reconsume_times, draft.prepared_position,
        )  # fmt: skip
    else:
        plain = Draft(*draft)
    return {**plain._asdict(), "properties": parse_properties(plain.properties)}


def test_what_we_commit_is_what_rocketmq_committed(records: list[Record]) -> None:
    halves = halves_of(records)
    committed = [record for record in records if record.topic == TOPIC]
    assert len(committed) == 26
    for record in committed:
        assert facts(committed_draft(halves[record.prepared_position])) == facts(record)


def test_what_we_put_back_is_what_rocketmq_put_back(records: list[Record]) -> None:
    halves = list(halves_of(records).values())
    by_checks = {(half.unique_id, half.checks): half for half in halves}
    copies = [half for half in halves if half.checks]
    assert {half.checks for half in copies} == {1, 2}
    for copy in copies:
        before = by_checks[copy.unique_id, copy.checks - 1]
        # Except for the flag, which RocketMQ forgets, and consumers of ours see.
        assert facts(checked_draft(before, copy.checks)) | {"flag": 0} == facts(copy.record)


def test_what_we_give_up_is_what_rocketmq_gave_up(records: list[Record]) -> None:
    last = {half.unique_id: half for half in halves_of(records).values()}
    given_up = [record for record in records if record.topic == GIVEN_UP_TOPIC]
    assert len(given_up) == 4
    for record in given_up:
        assert facts(given_up_draft(last[record.property_map()["UNIQ_KEY"]].record)) == facts(record)


def test_our_done_marks_are_rocketmqs(records: list[Record]) -> None:
    marks = [record for record in records if record.topic == HALF_DONE_TOPIC]
    assert len(marks) == 3
    for mark in marks:
        offsets = decode_done_marks(mark.body)
        (draft,), (highest,) = done_drafts(offsets, max_size=4096, now_ms=mark.born_time, host=mark.born_host)
        assert facts(draft) == facts(mark)
        assert draft[3] == mark.properties
        assert highest == max(offsets)


def test_the_counts_of_open_transactions_are_kept_as_rocketmq_keeps_them(golden: Golden) -> None:
    data = (golden.store("transaction") / "config/transactionMetrics").read_bytes()
    table = decode_transactions(data)
    assert {topic: count for topic, (count, _) in table.counts.items()} == {TOPIC: 4}
    assert encode_transactions(table) == data


def test_open_transactions_of_rocketmq_are_gone_on_with(golden: Golden) -> None:
    path, expected = golden.store("transaction"), golden.expected("transaction")
    records = expected["commitLog"]["records"]
    pending = [record for record in records if record["topic"] == HALF_TOPIC and record["queueOffset"] >= 66]
    clock = ManualClock(records[-1]["storeTimestamp"] + 60_000)

    async def work(broker: Broker) -> None:
        seen = visible(broker, TOPIC)
        assert broker.transactions.counts.items() == [(TOPIC, 4)]
        producer = TransactionProducer(broker, group=GROUP)
        producer.register()
        await look(broker)
        questions = producer.questions()
        assert [each.unique_id for each in questions] == [record["properties"]["UNIQ_KEY"] for record in pending]
        for question in questions:
            assert (await producer.end(question, COMMIT, is_asked=True)).code == 0
        assert len(visible(broker, TOPIC)) == len(seen) + 4
        assert broker.transactions.counts.items() == []

    with_broker(
        path, work, clock=clock, settings=BrokerSettings(transaction_check_interval_ms=3_000), retention_hours=10**6
    )
    with open_store(path, durability="async", reserve_bytes=0, retention_hours=10**6) as store:
        check_progress(store)


def check_progress(store: Store) -> None:
    """RocketMQ would find nothing to do."""
    offsets = (store.path / "config/consumerOffset.json").read_text()
    assert f'"{HALF_TOPIC}@CID_RMQ_SYS_TRANS":{{0:{store.offsets(HALF_TOPIC, queue=0)[1]}' in offsets
    assert f'"{HALF_DONE_TOPIC}@CID_RMQ_SYS_TRANS":{{0:{store.offsets(HALF_DONE_TOPIC, queue=0)[1]}' in offsets
