"""What `verify` finds in queues: each kind of damage is planted, and nothing else is found."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from embermq.format.batch_entry import BATCH_ENTRY_SIZE
from embermq.format.queue_entry import PRE_BLANK, QUEUE_ENTRY_SIZE
from embermq.format.record import Draft
from embermq.model.flags import SysFlag
from embermq.model.properties import format_properties
from embermq.model.topic import TopicConfig
from embermq.store.verify import DamageKind
from tests.builders import SMALL_SIZES, a_message, a_store, some_messages
from tests.unit.store.planting import COUNT, SECOND_LOG, flip, overwrite, overwrite_log, records_of, the_only, verify

QUEUE = f"consumequeue/orders/1/{0:020d}"
PER_FILE = SMALL_SIZES["queue_file_size"] // QUEUE_ENTRY_SIZE


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A store that was closed."""
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(COUNT))
    return path


@pytest.mark.parametrize("at", range(0, QUEUE_ENTRY_SIZE, 3))
def test_an_entry_that_does_not_fit_its_record_is_named(stopped: Path, at: int) -> None:
    flip(stopped / QUEUE, 20 * QUEUE_ENTRY_SIZE + at, 0x04)
    damage = the_only(verify(stopped))
    assert (damage.file, damage.position, damage.kind) == (QUEUE, 20 * QUEUE_ENTRY_SIZE, DamageKind.QUEUE)
    assert "orders/1 offset 20" in damage.detail


@pytest.mark.parametrize("what", [bytes(QUEUE_ENTRY_SIZE), PRE_BLANK, b"\xff" * QUEUE_ENTRY_SIZE])
def test_entries_missing_before_others_are_named_together(stopped: Path, what: bytes) -> None:
    overwrite(stopped / QUEUE, 20 * QUEUE_ENTRY_SIZE, 3 * what)
    damage = the_only(verify(stopped))
    assert (damage.file, damage.position, damage.kind) == (QUEUE, 20 * QUEUE_ENTRY_SIZE, DamageKind.QUEUE)
    assert "offset 20 to 22 has no entry" in damage.detail


def test_an_entry_without_a_record_is_named(stopped: Path) -> None:
    records = [record for record in records_of(stopped) if record.queue == 1]
    last = sorted((stopped / "consumequeue/orders/1").iterdir())[-1]
    at = len(records) * QUEUE_ENTRY_SIZE - int(last.name)
    overwrite(last, at, struct.pack(">qiq", records[-1].position + 1, 200, 0))
    damage = the_only(verify(stopped))
    assert (damage.position, damage.kind) == (at, DamageKind.QUEUE)
    assert "no such record" in damage.detail


def test_records_behind_the_end_of_their_queue_are_orphans(stopped: Path) -> None:
    records = [record for record in records_of(stopped) if record.queue == 1]
    last = sorted((stopped / "consumequeue/orders/1").iterdir())[-1]
    at = (len(records) - 3) * QUEUE_ENTRY_SIZE - int(last.name)
    overwrite(last, at, bytes(3 * QUEUE_ENTRY_SIZE))
    damage = the_only(verify(stopped))
    assert (damage.file, damage.position, damage.kind) == (SECOND_LOG, records[-3].position, DamageKind.ORPHAN)
    assert f"orders/1 has no entry for offsets {len(records) - 3} to {len(records) - 1}" in damage.detail


def test_records_before_the_first_file_of_their_queue_are_orphans(stopped: Path) -> None:
    first = next(record for record in records_of(stopped) if record.queue == 1)
    (stopped / QUEUE).unlink()
    damage = the_only(verify(stopped))
    assert (damage.position, damage.kind, damage.hides) == (
        first.position, DamageKind.ORPHAN, (("orders", 1, 0, PER_FILE),),
    )  # fmt: skip


def test_records_before_the_first_entries_of_their_queue_are_orphans(stopped: Path) -> None:
    overwrite(stopped / QUEUE, 0, 7 * PRE_BLANK)
    damage = the_only(verify(stopped))
    assert (damage.kind, damage.hides) == (DamageKind.ORPHAN, (("orders", 1, 0, 7),))


def test_records_before_the_first_file_of_their_batch_queue_are_orphans(tmp_path: Path) -> None:
    with_batches(tmp_path / "store")
    (tmp_path / f"store/batchconsumequeue/batches/0/{0:020d}").unlink()
    damage = the_only(verify(tmp_path / "store"))
    assert (damage.position, damage.kind) == (0, DamageKind.ORPHAN)


def test_a_queue_whose_first_messages_expired_is_sound(tmp_path: Path) -> None:
    with a_store(tmp_path) as store:
        store.put_many(some_messages(2 * COUNT))
    for file in sorted((tmp_path / "commitlog").iterdir())[:2]:
        file.unlink()
    for file in (tmp_path / "consumequeue").rglob(f"{0:020d}"):
        file.unlink()
    assert records_of(tmp_path)[0].offset > PER_FILE
    assert verify(tmp_path).sound


@pytest.mark.parametrize("lost", ["consumequeue", "consumequeue/orders", "consumequeue/orders/1"])
def test_records_of_a_lost_queue_are_orphans(stopped: Path, lost: str) -> None:
    shutil.rmtree(stopped / lost)
    damages = verify(stopped).damage
    assert {damage.kind for damage in damages} == {DamageKind.ORPHAN}
    assert len(damages) == (1 if lost.endswith("1") else 4)
    assert f"offsets 0 to {COUNT // 4 - 1}" in damages[-1].detail


def test_records_of_a_deleted_topic_are_no_orphans(stopped: Path) -> None:
    with a_store(stopped) as store:
        store.delete_topic("orders")
        store.put(a_message("other"))
    assert verify(stopped).sound


@pytest.mark.parametrize("count", [0, 1, 3, 2 * COUNT])
def test_records_of_a_topic_that_was_made_again_are_no_orphans(stopped: Path, count: int) -> None:
    with a_store(stopped) as store:
        store.delete_topic("orders")
        store.save_topic(TopicConfig("orders"))
        store.put_many(some_messages(count))
    assert verify(stopped).sound


def test_records_marked_prepared_or_rolled_back_need_no_entry(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.save_topic(TopicConfig("orders"))
        flags = [0, SysFlag.PREPARED, SysFlag.ROLLED_BACK, SysFlag.COMMITTED]
        drafts = [Draft(b"orders", 0, b"x", b"KEYS\x01k\x02", sys_flag=flag) for flag in flags]
        store.put_drafts(lambda: drafts)
    verdict = verify(tmp_path / "store")
    assert verdict.sound
    assert verdict.records == 4


def test_two_records_that_claim_one_offset_are_one_orphan(stopped: Path) -> None:
    first, second = [record for record in records_of(stopped) if record.queue == 1][20:22]
    overwrite_log(stopped, second.position + 20, struct.pack(">q", first.offset))
    damages = verify(stopped).damage
    assert [(damage.position, damage.kind) for damage in damages] == [
        (second.position, DamageKind.ORPHAN),
        (second.offset * QUEUE_ENTRY_SIZE, DamageKind.QUEUE),  # and what led to it leads to no such record
    ]


def with_batches(path: Path) -> None:
    with a_store(path) as store:
        store.save_topic(TopicConfig("batches", attributes={"queue.type": "BatchCQ"}))

        def drafts() -> list[Draft]:
            flag = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP
            properties = format_properties({"INNER_NUM": "5", "TAGS": "eu"})
            return [Draft(b"batches", 0, b"x" * 50, properties, sys_flag=flag) for _ in range(60)]

        store.put_drafts(drafts)


def test_a_batch_queue_is_sound(tmp_path: Path) -> None:
    with_batches(tmp_path / "store")
    assert len(list((tmp_path / "store/batchconsumequeue/batches/0").iterdir())) > 1
    assert verify(tmp_path / "store").sound


@pytest.mark.parametrize("at", [7, 11, 19, 27, 35, 37])
def test_a_batch_entry_that_does_not_fit_its_record_is_named(tmp_path: Path, at: int) -> None:
    with_batches(tmp_path / "store")
    file = f"batchconsumequeue/batches/0/{0:020d}"
    flip(tmp_path / "store" / file, 5 * BATCH_ENTRY_SIZE + at)
    damages = verify(tmp_path / "store").damage
    assert (damages[0].file, damages[0].position, damages[0].kind) == (file, 5 * BATCH_ENTRY_SIZE, DamageKind.QUEUE)
    assert len(damages) <= 2  # the next may not follow it


@pytest.mark.parametrize(("begin", "count"), [(5, 1), (5, 3), (57, 3)])
def test_missing_batch_entries_are_found(tmp_path: Path, begin: int, count: int) -> None:
    with_batches(tmp_path / "store")
    for number in range(begin, begin + count):
        place = number * BATCH_ENTRY_SIZE
        name = f"{place // 920 * 920:020d}"
        overwrite(tmp_path / "store/batchconsumequeue/batches/0" / name, place % 920, bytes(BATCH_ENTRY_SIZE))
    damage = the_only(verify(tmp_path / "store"))
    assert damage.kind is (DamageKind.ORPHAN if begin + count == 60 else DamageKind.QUEUE)


def test_a_gap_between_batches_is_named_though_log_and_queue_agree(tmp_path: Path) -> None:
    with_batches(tmp_path / "store")
    last = records_of(tmp_path / "store")[-1]
    properties = last.properties.replace(b"INNER_BASE\x01295", b"INNER_BASE\x01296")
    overwrite_log(tmp_path / "store", last.position + last.size - len(properties), properties)
    file = sorted((tmp_path / "store/batchconsumequeue/batches/0").iterdir())[-1]
    at = 59 * BATCH_ENTRY_SIZE - int(file.name)
    overwrite(file, at + 28, struct.pack(">q", 296))
    damage = the_only(verify(tmp_path / "store"))
    assert (damage.position, damage.kind) == (at, DamageKind.QUEUE)
    assert "gap" in damage.detail


def test_a_batch_entry_without_a_record_is_named(tmp_path: Path) -> None:
    with_batches(tmp_path / "store")
    entry = struct.pack(">qiqqqhii", 17, 100, 0, 0, 300, 5, -1, 0)
    overwrite(tmp_path / f"store/batchconsumequeue/batches/0/{0:020d}", 0, entry)
    assert DamageKind.QUEUE in {damage.kind for damage in verify(tmp_path / "store").damage}


def test_light_queues_are_compared_too(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", light_queues=True) as store:
        named = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}
        store.put_many([a_message(body=b"%d" % number, properties=named) for number in range(10)])
    assert verify(tmp_path / "store").sound
    file = f"consumequeue/%LMQ%b/0/{0:020d}"
    flip(tmp_path / "store" / file, 3 * QUEUE_ENTRY_SIZE + 7)
    damage = the_only(verify(tmp_path / "store"))
    assert (damage.file, damage.position, damage.kind) == (file, 3 * QUEUE_ENTRY_SIZE, DamageKind.QUEUE)


def test_extended_entries_are_compared_too(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", extended_queues=True) as store:
        store.put_many(some_messages(200))
    assert verify(tmp_path / "store").sound
    flip(tmp_path / f"store/consumequeue_ext/orders/1/{0:020d}", 3 * 20 + 5)  # the tags code of the fourth
    damage = the_only(verify(tmp_path / "store"))
    assert (damage.file, damage.position, damage.kind) == (QUEUE, 3 * QUEUE_ENTRY_SIZE, DamageKind.QUEUE)
    assert "extended" in damage.detail


def test_the_time_of_a_delayed_message_is_compared(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        properties = format_properties({"DELAY": "3", "REAL_TOPIC": "orders"})
        store.put_drafts(lambda: [Draft(b"SCHEDULE_TOPIC_XXXX", 2, b"x", properties)] * 5)
    assert verify(tmp_path / "store").sound
    file = f"consumequeue/SCHEDULE_TOPIC_XXXX/2/{0:020d}"
    flip(tmp_path / "store" / file, 2 * QUEUE_ENTRY_SIZE + 19)
    damage = the_only(verify(tmp_path / "store"))
    assert (damage.file, damage.position, damage.kind) == (file, 2 * QUEUE_ENTRY_SIZE, DamageKind.QUEUE)
