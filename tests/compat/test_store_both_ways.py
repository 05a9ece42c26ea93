"""RocketMQ opens our directories and we open its own: what one of them writes, both read, and both go on."""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from embermq import Message, Receipt
from embermq.files.lock import DirectoryLock
from embermq.format.checkpoint import PROGRESS_AT
from embermq.model.properties import parse_properties
from embermq.store.opening import Begin
from tests.builders import ManualClock
from tests.compat.agreement import Content, check_rocketmq_sees, check_we_see
from tests.compat.expected import CRC, Facts
from tests.compat.samples import ROCKETMQ, TOPICS, Put, every_kind, fill, for_rocketmq, open_samples, write
from tests.compat.store_tool import StoreTool, StoreToolError
from tests.compat.views import DERIVED_FOLDERS, our_records

ROOT = Path(__file__).parents[2]
ADDED_BY_THE_STORE = {"INNER_BASE", "INNER_MULTI_QUEUE_OFFSET", CRC}
FIRST = {("sync", "closed"), ("sync", "killed"), ("async", "closed"), ("async", "copied"), ("pooled", "killed")}
WAYS = [
    pytest.param(durability, ending, marks=() if (durability, ending) in FIRST else pytest.mark.slow)
    for durability in ("sync", "async", "pooled")
    for ending in ("closed", "copied", "killed")
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Facts], list[Receipt]]:
    """The records of a store that took all kinds, and the receipts for them."""
    path = tmp_path_factory.mktemp("written") / "store"
    store, receipts, _ = fill(path, "async")
    store.close()
    return our_records(path), receipts


def test_records_of_every_kind_hold_what_was_put(written: tuple[list[Facts], list[Receipt]]) -> None:
    records, receipts = written
    sent = [facts for put in every_kind(largest=True) for facts in as_sent(put)]
    for facts, record, receipt in zip(sent, records, receipts, strict=True):
        assert {name: as_put(record)[name] for name in facts} == facts
        assert (record["topic"], record["queueId"]) == (receipt.topic, receipt.queue)
        assert (record["physicalOffset"], record["queueOffset"]) == (receipt.position, receipt.offset)
        assert (record["msgId"], record["storeTimestamp"]) == (receipt.message_id, receipt.store_time_ms)
    assert {record["magic"] for record in records} == {"DAA320A7", "DAA320AB"}
    assert {record["storeHost"] for record in records} == {"127.0.0.1:10911", "[0:0:0:0:0:0:0:1]:10911"}
    assert {record["bornHost"] for record in records} > {"[2001:db8:0:0:0:0:0:1]:50002", "127.0.0.1:50001"}


def as_sent(put: Put) -> Iterator[Facts]:
    """What a caller says about each record."""
    for message in put.messages:
        properties = dict(message.properties)
        properties |= {"KEYS": " ".join(message.keys)} if message.keys else {}
        properties |= {"TAGS": message.tags} if message.tags else {}
        yield {
            "topic": message.topic,
            "body": hashlib.sha256(message.body).hexdigest(),
            "properties": properties,
            "flag": message.flag,
        }
    for draft in put.drafts:
        yield {
            "topic": draft.topic.decode(),
            "queueId": draft.queue,
            "body": hashlib.sha256(draft.body).hexdigest(),
            "properties": parse_properties(draft.properties),
            "flag": draft.flag,
            "bornTimestamp": draft.born_time,
            "reconsumeTimes": draft.reconsume_times,
            "preparedTransactionOffset": draft.prepared_position,
        }


def as_put(record: Facts) -> Facts:
    """A record without what the store adds to properties, and with the hash of its body as it is stored."""
    properties = {name: value for name, value in record["properties"].items() if name not in ADDED_BY_THE_STORE}
    body = record.get("bodySha256") or hashlib.sha256(bytes.fromhex(record["bodyHex"])).hexdigest()
    return record | {"properties": properties, "body": body}


@pytest.mark.parametrize(("durability", "ending"), WAYS)
def test_what_we_wrote_rocketmq_reads_and_what_it_adds_we_read(
    store_tool: StoreTool, tmp_path: Path, written: tuple[list[Facts], list[Receipt]], durability: str, ending: str
) -> None:
    path, safe = leave(tmp_path, durability, ending)
    records = our_records(path, torn=ending != "closed")
    assert len(records) >= safe
    assert records == written[0][: len(records)]

    facts = check_rocketmq_sees(store_tool, path, records)
    assert facts["abort"] is (ending != "closed")
    with open_samples(path, durability=durability) as store:
        check_we_see(store, records)

    puts = store_tool.write(path, for_rocketmq(seed=1), config=ROCKETMQ)
    with open_samples(path, durability=durability) as store:
        more = our_records(path)
        assert more[: len(records)] == records
        check_puts(puts, more[len(records) :])
        check_we_see(store, more)


def leave(work: Path, durability: str, ending: str) -> tuple[Path, int]:
    """A store with all kinds whose process closed it or has just died; and how many records must be in it."""
    path, copied = work / "store", work / "copied"
    if ending == "killed":
        return path, fill_and_be_killed(path, durability)
    store, receipts, safe = fill(path, durability)
    if ending == "copied":
        shutil.copytree(path, copied)
    store.close()
    return (copied, safe) if ending == "copied" else (path, len(receipts))


def fill_and_be_killed(path: Path, durability: str) -> int:
    """Let another process write, and kill it while it does; how many records it called safe."""
    command = [sys.executable, "-m", "tests.compat.samples", str(path), durability]
    python_path = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=ROOT, env=python_path, **pipes) as process:
        assert process.stdout is not None
        for _ in range(20):
            _, safe = map(int, process.stdout.readline().split())
        process.kill()
    return safe


def check_puts(puts: list[Facts], records: list[Facts]) -> None:
    """The records lie where RocketMQ said it put them, and there are no others."""
    inner = [1 if "INNER_NUM" in record["properties"] else 0 for record in records]
    assert sum(inner) == sum(put["topic"] == "batches" for put in puts)
    at = iter(records)
    for put in puts:
        assert put["status"] == "PUT_OK"
        count = 1 if put["topic"] == "batches" else put["count"]
        some = [next(at) for _ in range(count)]
        assert put["msgId"] == ",".join(record["msgId"] for record in some)
        assert (put["physicalOffset"], put["queueOffset"]) == (some[0]["physicalOffset"], some[0]["queueOffset"])
        assert put["totalSize"] == sum(record["totalSize"] for record in some)
    assert list(at) == []


class Turn(NamedTuple):
    """How one round goes: RocketMQ writes and ends, then we do."""

    they_crash: bool = False
    they_dispatch: bool = True
    durability: str = "async"
    we_crash: bool = False


def some_turns(seed: int) -> list[Turn]:
    chance = random.Random(seed)
    yes_or_no, durabilities = (False, True), ("sync", "async", "pooled")
    choices = (yes_or_no, yes_or_no, durabilities, yes_or_no)
    return [Turn(*map(chance.choice, choices)) for _ in range(5)]


TURNS = [
    pytest.param([Turn(), Turn()], id="closed"),
    pytest.param([Turn(True, True, "async", True), Turn(True, False, "async", True)], id="crashed"),
    *(pytest.param(some_turns(seed), id=f"mixed-{seed}", marks=pytest.mark.slow) for seed in range(8)),
]


@pytest.mark.parametrize("turns", TURNS)
def test_both_see_all_content_when_they_take_turns(store_tool: StoreTool, tmp_path: Path, turns: list[Turn]) -> None:
    path = tmp_path / "store"
    records: list[Facts] = []
    path.mkdir()
    for number, turn in enumerate(turns):
        puts = store_tool.write(
            path,
            for_rocketmq(seed=number, count=25),
            config=ROCKETMQ,
            topics=TOPICS,
            crash=turn.they_crash,
            dispatch=turn.they_dispatch,
        )
        before, records = records, our_records(path)
        assert records[: len(before)] == before
        check_puts(puts, records[len(before) :])

        copied = tmp_path / f"copied-{number}"
        with open_samples(path, durability=turn.durability) as store:
            check_we_see(store, records)
            receipts = write(store, None, every_kind(seed=number, count=10))
            if turn.we_crash:
                shutil.copytree(path, copied)
                path = copied

        before, records = records, our_records(path)
        assert records[: len(before)] == before
        added = [record["msgId"] for record in records[len(before) :]]
        if not turn.we_crash or turn.durability != "pooled":
            assert len(added) == len(receipts)
        assert added == [receipt.message_id for receipt in receipts[: len(added)]]
        check_rocketmq_sees(store_tool, path, records)


@pytest.mark.parametrize("crash", [False, True])
def test_one_record_that_rocketmq_added_is_not_taken_for_dispatched(
    store_tool: StoreTool, tmp_path: Path, crash: bool
) -> None:
    with open_samples(tmp_path / "store") as store:
        store.put_many([Message("orders", b"ours", queue=0)] * 3)
    store_tool.write(
        tmp_path / "store", [{"topic": "orders", "bodyHex": "07"}], config=ROCKETMQ, crash=crash, dispatch=not crash
    )
    with open_samples(tmp_path / "store") as store:
        assert crash or store.state().recovered.reason is Begin.QUEUE_END
        check_we_see(store, our_records(store.path))
        assert [message.body for message in store.get("orders", queue=0, offset=0)] == [b"ours"] * 3 + [b"\x07"]
        assert store.put(Message("orders", b"ours", queue=0)).offset == 4


def test_rocketmq_that_only_looks_changes_nothing_for_us(store_tool: StoreTool, tmp_path: Path) -> None:
    store, _, _ = fill(tmp_path / "store", "async")
    store.close()
    records = our_records(store.path)
    check_rocketmq_sees(store_tool, store.path, records)
    check_rocketmq_sees(store_tool, store.path, records)
    with open_samples(store.path) as store:
        check_we_see(store, records)
        assert store.state().recovered.scan.records == 0


def test_rocketmq_finds_every_key_after_we_crashed(store_tool: StoreTool, tmp_path: Path) -> None:
    """The newest index file is not full; RocketMQ drops it, and must begin early enough to make it again."""
    clock, path = ManualClock(), tmp_path / "store"
    shape: dict[str, Any] = {"index_slots": 500, "index_entries": 2_000}
    with open_samples(path, clock, **shape) as store:
        for number in range(600):
            clock.advance(ms=100)
            store.put(Message("orders", bytes(300), keys=[f"key-{number}"]))
            if number == 500:
                store.checkpoint()
        shutil.copytree(path, tmp_path / "copied")
    config = {**ROCKETMQ, "maxHashSlotNum": 500, "maxIndexNum": 2_000}
    records = our_records(tmp_path / "copied")
    assert len(records) == 600
    check_rocketmq_sees(store_tool, tmp_path / "copied", records, config=config)


def test_queues_and_index_that_are_gone_after_a_crash_are_made_again_as_a_whole(tmp_path: Path) -> None:
    path, _ = leave(tmp_path, "async", "copied")
    with (path / "checkpoint").open("r+b") as checkpoint:
        checkpoint.truncate(PROGRESS_AT)  # what RocketMQ's own has: only times, which vouch for most of the log
        checkpoint.truncate(4096)
    for folder in DERIVED_FOLDERS:
        shutil.rmtree(path / folder, ignore_errors=True)
    with open_samples(path) as store:
        check_we_see(store, our_records(path))


@pytest.mark.parametrize("verified", [False, True])
def test_damaged_properties_end_the_log_for_both_if_both_verify_them(
    store_tool: StoreTool, tmp_path: Path, verified: bool
) -> None:
    clock, ours, theirs = ManualClock(), tmp_path / "ours", tmp_path / "theirs"
    with open_samples(tmp_path / "store", clock, property_crc=True) as store:
        write(store, clock, every_kind(count=20))
        shutil.copytree(store.path, ours)
    records = our_records(ours)
    place, damaged = find_property_byte(records, "late-18")
    with (ours / "commitlog" / f"{place - place % 65_536:020d}").open("r+b") as file:
        file.seek(place % 65_536)
        file.write(b"L")
    shutil.copytree(ours, theirs)

    kept = records[:damaged] if verified else our_records(ours)
    assert len(kept) == (damaged if verified else len(records))
    with open_samples(ours, property_crc=True, verify_property_crc=verified) as store:
        check_we_see(store, kept)
    config = {**ROCKETMQ, "enabledAppendPropCRC": True, "forceVerifyPropCRC": verified}
    check_rocketmq_sees(store_tool, theirs, kept, config=config)


def find_property_byte(records: list[Facts], key: str) -> tuple[int, int]:
    """Where in the log the first letter of a key lies, and the number of its record."""
    for number, record in enumerate(records):
        if record["properties"].get("KEYS") == key:
            end = record["physicalOffset"] + record["totalSize"]
            return end - len(CRC + "..........") - 2 - len(key) - 1, number
    raise AssertionError(f"no record with the key {key}")


def test_rocketmq_reads_the_extended_entries_that_we_wrote(store_tool: StoreTool, tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "store"
    with open_samples(path, clock, extended_queues=True) as store:
        write(store, clock, every_kind(count=20))
        check_we_see(store, our_records(path))
    records = our_records(path)
    config = {**ROCKETMQ, "enableConsumeQueueExt": True}
    extended = check_rocketmq_sees(store_tool, path, records, config=config)["extended"]
    stored = {record["physicalOffset"]: record["storeTimestamp"] for record in records}
    for (topic, number), entries in extended.items():
        queue = Content(records).queues[topic][number]
        has_them = queue["type"] == "SimpleCQ" and not topic.startswith("%LMQ%")
        assert entries == [
            {"queueOffset": offset, "tagsCode": code, "msgStoreTime": stored[position], "filterBitMap": None}
            for offset, (position, _, code) in enumerate(queue["units"] if has_them else [])
        ]


def test_both_see_where_a_store_begins_whose_oldest_files_we_deleted(store_tool: StoreTool, tmp_path: Path) -> None:
    path, _ = leave(tmp_path, "async", "closed")
    everything = our_records(path)
    with open_samples(path, max_bytes=4 * 65_536, delete_pause_ms=0) as store:
        assert store.clean() > 2
        begin = store.state().log_begin
        records = [record for record in everything if record["physicalOffset"] >= begin]
        check_we_see(store, records)
        ends = {place: store.offsets(place[0], queue=place[1])[1] for place in places(everything)}
    facts = check_rocketmq_sees(store_tool, path, records)
    assert facts["commitLog"]["minOffset"] == begin

    # Also in queues that have lost all their messages, offsets go on where they were.
    puts = store_tool.write(path, [{"topic": topic, "queueId": queue} for topic, queue in ends], config=ROCKETMQ)
    assert [put["queueOffset"] for put in puts] == list(ends.values())
    with open_samples(path) as store:
        check_we_see(store, our_records(path))


def places(records: list[Facts]) -> list[tuple[str, int]]:
    """The queues of these records."""
    return list(dict.fromkeys((record["topic"], record["queueId"]) for record in records))


def test_rocketmq_does_not_start_in_a_directory_that_we_hold(store_tool: StoreTool, tmp_path: Path) -> None:
    store_tool.write(tmp_path, [{"topic": "orders"}], config=ROCKETMQ)
    lock = DirectoryLock(tmp_path)
    lock.take()
    with pytest.raises(StoreToolError, match="Lock failed"):
        store_tool.read(tmp_path, config=ROCKETMQ)
    lock.release()
    assert len(store_tool.read(tmp_path, config=ROCKETMQ)["commitLog"]["records"]) == 1


def test_log_files_lie_in_the_directory_where_rocketmq_would_make_them(store_tool: StoreTool, tmp_path: Path) -> None:
    """With several directories they take turns in the order of their names, whatever that of the settings is."""
    path = tmp_path / "store"
    folders = tuple(str(path / f"commitlog-{disk}") for disk in "bac")
    config = {**ROCKETMQ, "storePathCommitLog": ",".join(folders)}
    clock = ManualClock()
    with open_samples(path, clock, log_paths=folders) as store:
        write(store, clock, every_kind(largest=True))
    check_rocketmq_sees(store_tool, path, our_records(path), config=config)
    store_tool.write(path, for_rocketmq(seed=1), config=config)
    with open_samples(path, log_paths=folders) as store:
        check_we_see(store, our_records(path))
        write(store, None, every_kind())
    check_rocketmq_sees(store_tool, path, our_records(path), config=config)

    files = sorted(path.glob("commitlog-*/*"), key=lambda file: file.name)
    assert len(files) > 15
    assert [file.parent.name[-1] for file in files] == [("a", "b", "c")[at % 3] for at in range(len(files))]
