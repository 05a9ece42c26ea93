"""Staged batches: nothing is seen before they are published, everything after it, once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.model.codes import ResponseCode
from tests.builders import ManualClock
from tests.unit.broker.brokers import Client
from tests.unit.broker.staging import (
    DISCARD,
    FIND,
    JOB,
    PUBLISH,
    WithBroker,
    a_staged,
    discard,
    find,
    plan_of,
    publish,
    seen,
    stage,
)


def test_a_batch_is_seen_when_it_is_published_and_not_before(tmp_path: Path, with_either: WithBroker) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        assert (await stage(client, "a", 0, b"1", b"2")).code == 0
        assert (await stage(client, "b", 0, b"3")).code == 0
        assert (await stage(client, "a", 1, b"4")).code == 0
        assert seen(broker.store) == []
        assert await find(client, 0) == {"state": "none"}
        answer = await publish(client, 0, [("a", 2, 3), ("b", 1, 1)])
        assert (answer.code, answer.fields["isNew"]) == (0, "true")
        assert seen(broker.store) == [b"1", b"2", b"4", b"3"]
        assert await find(client, 0) == {"state": "done", "newest": "0"}
        assert broker.publisher.files.bytes == 0
        assert list(broker.store.path.glob("staged/*/*.chunks")) == []

    with_either(tmp_path, work)


def test_a_batch_is_published_once(tmp_path: Path, with_either: WithBroker) -> None:
    """A writer that starts again stages the batch under other names."""

    async def work(broker: Broker) -> None:
        client = Client(broker)
        await stage(client, "first", 0, b"1")
        await publish(client, 7, [("first", 1, 1)])
        await stage(client, "again", 0, b"1")
        answer = await publish(client, 7, [("again", 1, 1)])
        assert (answer.code, answer.fields["isNew"], answer.data) == (0, "false", plan_of([("first", 1, 1)]))
        older = await publish(client, 6, [("again", 1, 1)])
        assert (older.code, older.fields["isNew"], older.data) == (0, "false", b"")
        assert seen(broker.store) == [b"1"]

    with_either(tmp_path, work)


def test_the_broker_that_comes_after_knows_what_was_published(tmp_path: Path, with_either: WithBroker) -> None:
    async def before(broker: Broker) -> None:
        client = Client(broker)
        await stage(client, "a", 0, b"1")
        await publish(client, 0, [("a", 1, 1)])
        await stage(client, "b", 0, b"2", b"3")

    async def after(broker: Broker) -> None:
        client = Client(broker)
        assert (await publish(client, 0, [("a", 1, 1)])).fields["isNew"] == "false"
        assert broker.publisher.files.bytes > 0
        assert (await publish(client, 1, [("b", 1, 2)])).fields["isNew"] == "true"
        assert seen(broker.store) == [b"1", b"2", b"3"]

    with_either(tmp_path, before)
    with_either(tmp_path, after)


def test_messages_keep_all_that_a_send_keeps_and_get_a_unique_key(tmp_path: Path, with_either: WithBroker) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await client.send("orders", b"sent", queue=1, TAGS="eu", KEYS="k", UNIQ_KEY="0" * 32)
        properties = b"TAGS\x01eu\x02KEYS\x01k\x02UNIQ_KEY\x01nonsense\x02"
        await stage(client, "a", 0, a_staged(b"staged", queue=1, properties=properties))
        await publish(client, 0, [("a", 1, 1)])
        sent, staged = broker.store.get("orders", queue=1, offset=0)
        assert dict(staged.properties) == {**sent.properties, "UNIQ_KEY": staged.properties["UNIQ_KEY"]}
        assert (staged.tags, staged.keys, len(staged.properties["UNIQ_KEY"])) == ("eu", ("k",), 32)
        assert broker.store.query("orders", staged.properties["UNIQ_KEY"]) == [staged]
        assert staged.born_host.address == sent.born_host.address

    with_either(tmp_path, work)


def test_a_staged_message_may_ask_for_a_delay_level(tmp_path: Path, with_either: WithBroker) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await stage(client, "a", 0, a_staged(b"later", properties=b"DELAY\x013\x02"))
        assert (await publish(client, 0, [("a", 1, 1)])).code == 0
        assert seen(broker.store) == []
        assert seen(broker.store, "SCHEDULE_TOPIC_XXXX") == [b"later"]

    with_either(tmp_path, work)


def test_a_staged_message_may_ask_for_a_time(tmp_path: Path, with_either: WithBroker) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        at = str(broker.clock.now_ms() + 60_000)
        await stage(client, "a", 0, a_staged(b"later", properties=b"TIMER_DELIVER_MS\x01" + at.encode() + b"\x02"))
        assert (await publish(client, 0, [("a", 1, 1)])).code == 0
        assert seen(broker.store) == []
        assert seen(broker.store, "rmq_sys_wheel_timer") == [b"later"]

    with_either(tmp_path, work)


def test_a_chunk_that_comes_twice_counts_once_and_none_is_left_out(tmp_path: Path, with_either: WithBroker) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        for _ in range(2):
            assert (await stage(client, "a", 0, b"1")).code == 0
        gap = await stage(client, "a", 2, b"3")
        assert gap.code == ResponseCode.INVALID_PARAMETER
        assert "chunk 2 of task 'a', 1 is the next" in (gap.remark or "")
        other = await stage(client, "a", 0, b"another")
        assert other.code == ResponseCode.INVALID_PARAMETER
        await publish(client, 0, [("a", 1, 1)])
        assert seen(broker.store) == [b"1"]

    with_either(tmp_path, work)


@pytest.mark.parametrize("tasks", [[("a", 2, 2)], [("a", 1, 2)], [("a", 1, 1), ("b", 1, 1)]])
def test_what_is_not_staged_whole_is_not_published(
    tmp_path: Path, with_either: WithBroker, tasks: list[tuple[str, int, int]]
) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await stage(client, "a", 0, b"1")
        answer = await publish(client, 0, tasks)
        assert answer.code == ResponseCode.QUERY_NOT_FOUND
        assert "write the batch again" in (answer.remark or "")
        assert seen(broker.store) == []
        assert await find(client, 0) == {"state": "none"}

    with_either(tmp_path, work)


def test_a_task_without_messages_is_nothing_to_publish(tmp_path: Path, with_either: WithBroker) -> None:
    async def work(broker: Broker) -> None:
        assert (await publish(Client(broker), 0, [("a", 0, 0)])).fields["isNew"] == "true"
        assert seen(broker.store) == []

    with_either(tmp_path, work)


def test_a_torn_chunk_counts_for_nothing_and_is_written_anew(tmp_path: Path, with_either: WithBroker) -> None:
    async def before(broker: Broker) -> None:
        client = Client(broker)
        await stage(client, "a", 0, b"1")
        await stage(client, "a", 1, b"2")

    async def after(broker: Broker) -> None:
        client = Client(broker)
        assert (await publish(client, 0, [("a", 2, 2)])).code == ResponseCode.QUERY_NOT_FOUND
        assert (await stage(client, "a", 1, b"2")).code == 0
        assert (await publish(client, 0, [("a", 2, 2)])).code == 0
        assert seen(broker.store) == [b"1", b"2"]

    with_either(tmp_path, before)
    (file,) = tmp_path.glob("staged/*/a.chunks")
    file.write_bytes(file.read_bytes()[:-1])
    with_either(tmp_path, after)


def test_discarded_tasks_are_gone(tmp_path: Path, with_either: WithBroker) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await stage(client, "a", 0, b"1")
        assert (await discard(client, "a", "never")).code == 0
        assert broker.publisher.files.bytes == 0
        assert (await publish(client, 0, [("a", 1, 1)])).code == ResponseCode.QUERY_NOT_FOUND

    with_either(tmp_path, work)


def test_all_that_a_job_staged_can_be_discarded(tmp_path: Path, with_either: WithBroker) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        await stage(client, "a", 0, b"1")
        await stage(client, "b", 0, b"2")
        await stage(client, "b", 0, b"3", job="other")
        assert (await client.ask(DISCARD, {"job": JOB, "topics": "orders"})).code == 0
        assert [path.parent.name for path in tmp_path.glob("staged/*/*.chunks")] == ["other"]

    with_either(tmp_path, work)


def test_what_failed_tries_left_over_goes_when_the_batch_is_published(tmp_path: Path, with_either: WithBroker) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        for task in ("killed", "whole"):
            await stage(client, task, 0, b"1")
        await publish(client, 0, [("whole", 1, 1)])
        assert seen(broker.store) == [b"1"]
        assert broker.publisher.files.bytes == 0

    with_either(tmp_path, work)


def test_whoever_publishes_names_all_topics_of_the_batch(tmp_path: Path, with_either: WithBroker) -> None:
    """Access control checks the named ones; what is staged for others must not slip through."""

    async def work(broker: Broker) -> None:
        client = Client(broker)
        await stage(client, "a", 0, b"1")
        await stage(client, "a", 1, a_staged(b"2", properties=b"DELAY\x011\x02"), topic="bills")
        for answer in (await publish(client, 0, [("a", 2, 2)], topics="orders"), await discard(client, "a")):
            assert answer.code == ResponseCode.NO_PERMISSION
            assert "messages for topic 'bills' are staged, too" in (answer.remark or "")
        assert (await publish(client, 0, [("a", 2, 2)], topics="orders;bills")).code == 0

    with_either(tmp_path, work)


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"b": "no/topic"}, ResponseCode.INVALID_PARAMETER, "illegal topic"),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION, "belongs to the broker"),
        ({"b": "%RETRY%group"}, ResponseCode.MESSAGE_ILLEGAL, "nothing may be staged for topic"),
        ({"job": "../up"}, ResponseCode.INVALID_PARAMETER, "'../up' is no name"),
        ({"task": "a" * 101}, ResponseCode.INVALID_PARAMETER, "is no name"),
        ({"sequence": "-1"}, ResponseCode.INVALID_PARAMETER, "0 is the next"),
        ({"crc": "1"}, ResponseCode.INVALID_PARAMETER, "the body is not what was sent"),
    ],
)
def test_what_no_send_may_do_no_stage_may(
    tmp_path: Path, with_either: WithBroker, changed: dict[str, str], code: ResponseCode, said: str
) -> None:
    async def work(broker: Broker) -> None:
        answer = await stage(Client(broker), "a", 0, b"1", **changed)
        assert answer.code == code, answer
        assert said in (answer.remark or "")
        assert broker.publisher.files.bytes == 0

    with_either(tmp_path, work)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (a_staged(b""), "an empty body"),
        (a_staged(b"x", queue=99), "illegal queue 99"),
        (a_staged(b"x" * 2000), "limit 1000"),
        (a_staged(b"x", properties=b"n\x01" + b"v" * 30_000 + b"\x02"), "limit 20000"),
        (a_staged(b"x", properties=b"TIMER_DELIVER_MS\x01" + b"9" * 13 + b"\x02"), "timer_max_delay_s"),
        (a_staged(b"x", properties=b"TRAN_MSG\x01true\x02"), "a transactional message"),
    ],
)
def test_messages_that_could_not_be_sent_cannot_be_staged(
    tmp_path: Path, with_either: WithBroker, message: object, said: str
) -> None:
    async def work(broker: Broker) -> None:
        answer = await stage(Client(broker), "a", 0, b"fine", message)  # type: ignore[arg-type]
        assert answer.code != 0
        assert said in (answer.remark or "")
        assert broker.publisher.files.bytes == 0

    with_either(tmp_path, work, max_message_size=1000, max_properties_size=20_000)


def test_no_more_is_staged_than_the_broker_may_hold(tmp_path: Path, with_either: WithBroker) -> None:
    async def work(broker: Broker) -> None:
        client = Client(broker)
        assert (await stage(client, "a", 0, b"x" * 500)).code == 0
        answer = await stage(client, "a", 1, b"x" * 500)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert "limit 1000; publish or discard" in (answer.remark or "")
        await publish(client, 0, [("a", 1, 1)])
        assert (await stage(client, "b", 0, b"x" * 500)).code == 0

    with_either(tmp_path, work, settings=BrokerSettings(staged_max_bytes=1000))


def test_what_nobody_publishes_expires_and_so_do_jobs_that_ended(tmp_path: Path, with_either: WithBroker) -> None:
    clock = ManualClock()

    async def work(broker: Broker) -> None:
        import time

        clock.time_ms = time.time_ns() // 1_000_000
        client = Client(broker)
        await stage(client, "a", 0, b"1")
        await publish(client, 0, [("a", 1, 1)])
        await stage(client, "b", 0, b"2")
        clock.advance(hours=23)
        broker.publisher.expire()
        assert broker.publisher.files.bytes > 0
        clock.advance(hours=2)
        broker.publisher.expire()
        assert broker.publisher.files.bytes == 0
        assert await find(client, 0) == {"state": "done", "newest": "0"}
        clock.advance(hours=720)
        broker.publisher.expire()
        assert await find(client, 0) == {"state": "none"}
        broker.publisher.expire()
        assert list((tmp_path / "staged").iterdir()) == []

    with_either(tmp_path, work, clock=clock)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"broker-a": 3}', b'{"broker-a": [{"name": "a"}]}', b"\xff"])
def test_a_plan_that_makes_no_sense_is_refused(tmp_path: Path, with_either: WithBroker, body: bytes) -> None:
    async def work(broker: Broker) -> None:
        answer = await Client(broker).ask(PUBLISH, {"job": JOB, "batch": "0", "topics": "orders"}, body)
        assert answer.code == ResponseCode.INVALID_PARAMETER, answer
        assert "plan" in (answer.remark or "")

    with_either(tmp_path, work)


@pytest.mark.parametrize("batch", ["", "-1", "x", "9" * 30])
def test_a_batch_has_a_number(tmp_path: Path, with_either: WithBroker, batch: str) -> None:
    async def work(broker: Broker) -> None:
        answer = await Client(broker).ask(FIND, {"job": JOB, "batch": batch})
        assert answer.code == ResponseCode.INVALID_PARAMETER

    with_either(tmp_path, work)


def test_a_manifest_that_cannot_be_read_stops_its_job_and_no_other(tmp_path: Path, with_either: WithBroker) -> None:
    async def before(broker: Broker) -> None:
        client = Client(broker)
        await stage(client, "a", 0, b"1")
        await publish(client, 0, [("a", 1, 1)])

    async def after(broker: Broker) -> None:
        client = Client(broker)
        await stage(client, "b", 0, b"2")
        broken = await publish(client, 1, [("b", 1, 1)])
        assert broken.code == ResponseCode.SYSTEM_ERROR
        assert "manifest.json" in (broken.remark or "") and "restore it" in (broken.remark or "")
        assert (await stage(client, "b", 0, b"2", job="other")).code == 0
        assert (await publish(client, 0, [("b", 1, 1)], job="other")).code == 0

    with_either(tmp_path, before)
    (manifest,) = tmp_path.glob("staged/*/manifest.json")
    manifest.write_bytes(manifest.read_bytes()[:-5])
    with_either(tmp_path, after)


@pytest.mark.parametrize("copied", [0, 1, 250, 300])
def test_a_promised_batch_goes_on_where_the_log_ends(tmp_path: Path, with_either: WithBroker, copied: int) -> None:
    """The directory as a kill leaves it: the promise is made, and some of the messages are in the log."""
    bodies = [b"%d" % number for number in range(300)]

    async def before(broker: Broker) -> None:
        client = Client(broker)
        await client.send("orders", b"other")
        await stage(client, "a", 0, *bodies[:200])
        await stage(client, "b", 0, *bodies[200:])
        shutil.copytree(tmp_path / "a" / "staged", tmp_path / "staged")
        await publish(client, 0, [("a", 1, 200), ("b", 1, 100)])

    with_either(tmp_path / "a", before)
    manifest = tmp_path / "a" / "staged" / JOB / "manifest.json"
    shutil.copytree(tmp_path / "staged", tmp_path / "a" / "staged", dirs_exist_ok=True)
    manifest.write_text(manifest.read_text().replace('"done"', '"intent"'))
    _cut_log(tmp_path / "a", keep=1 + copied)

    async def after(broker: Broker) -> None:
        client = Client(broker)
        assert (await publish(client, 0, [("again", 1, 1)])).fields["isNew"] == "false"
        assert seen(broker.store) == [b"other", *bodies]

    with_either(tmp_path / "a", after)


def _cut_log(path: Path, *, keep: int) -> None:
    """Take away all records but the first ones, and what is made from them."""
    from tests.crash.damage import iter_records, overwrite

    records = list(iter_records(path))
    for position, size in records[keep:]:
        overwrite(path, position, bytes(size))
    for name in ("consumequeue", "index", "checkpoint"):
        shutil.rmtree(path / name) if (path / name).is_dir() else (path / name).unlink()
