"""What `verify` finds: for each kind of damage a planted example, and nothing else."""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from embermq import Message, Store
from embermq.format.batch_entry import BATCH_ENTRY_SIZE
from embermq.format.checkpoint import CHECKPOINT_SIZE
from embermq.format.queue_entry import PRE_BLANK, QUEUE_ENTRY_SIZE
from embermq.format.record import Draft, Record
from embermq.model.flags import SysFlag
from embermq.model.properties import format_properties
from embermq.model.topic import TopicConfig
from embermq.store.reader import StoreReader
from embermq.store.verify import Damage, DamageKind, Verdict, verify_store
from tests.builders import SMALL_SIZES, a_message, a_store, some_messages

COUNT = 500  # some 115 KB: two log files, several files of queues and index
LOG_FILE = SMALL_SIZES["log_file_size"]
SLOTS, ENTRIES = SMALL_SIZES["index_slots"], SMALL_SIZES["index_entries"]
HEADER_SIZE = 40
FIRST_INDEX_ENTRY = HEADER_SIZE + 4 * SLOTS + 20  # entry 0 is never used

FIRST_LOG = f"commitlog/{0:020d}"
SECOND_LOG = f"commitlog/{LOG_FILE:020d}"
QUEUE = f"consumequeue/orders/1/{0:020d}"


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A store that was closed."""
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(COUNT))
    return path


def verify(path: Path) -> Verdict:
    with StoreReader(path) as reader:
        return verify_store(reader)


def records_of(path: Path) -> list[Record]:
    with StoreReader(path) as reader:
        return list(reader.iter_records())


def overwrite(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def flip(file: Path, at: int, mask: int = 0x10) -> None:
    data = file.read_bytes()
    overwrite(file, at, bytes([data[at] ^ mask]))


def overwrite_log(path: Path, position: int, data: bytes) -> None:
    overwrite(path / "commitlog" / f"{position // LOG_FILE * LOG_FILE:020d}", position % LOG_FILE, data)


def the_only(verdict: Verdict) -> Damage:
    assert len(verdict.damage) == 1, verdict.damage
    assert not verdict.sound
    return verdict.damage[0]


def first_index_file(path: Path) -> Path:
    return sorted((path / "index").iterdir())[0]


def test_a_store_that_was_closed_is_sound(stopped: Path) -> None:
    verdict = verify(stopped)
    last = records_of(stopped)[-1]
    assert verdict == Verdict(records=COUNT, bytes=last.position + last.size, damage=[], is_clean=True)
    assert verdict.sound


def test_an_empty_store_is_sound(tmp_path: Path) -> None:
    with a_store(tmp_path / "store"):
        pass
    assert verify(tmp_path / "store") == Verdict(records=0, bytes=0, damage=[], is_clean=True)


def test_verifying_reports_its_progress(stopped: Path) -> None:
    reports: list[tuple[int, int]] = []
    with StoreReader(stopped) as reader:
        verify_store(reader, lambda done, total: reports.append((done, total)))
    assert reports == sorted(reports)
    assert reports[-1] == (2 * LOG_FILE, 2 * LOG_FILE)


def test_every_kind_of_damage_has_a_name_that_stays() -> None:
    assert {str(kind) for kind in DamageKind} == {
        *("file", "record", "hole", "tail", "queue", "orphan", "index", "unindexed", "checkpoint"),
    }


@pytest.mark.parametrize("number", [0, 100, COUNT - 1])
def test_a_changed_body_is_a_damaged_record(stopped: Path, number: int) -> None:
    record = records_of(stopped)[number]
    overwrite_log(stopped, record.position + 100, b"\xff")
    verdict = verify(stopped)
    damage = the_only(verdict)
    assert (damage.kind, damage.position) == (DamageKind.RECORD, record.position)
    assert damage.file == (FIRST_LOG if record.position < LOG_FILE else SECOND_LOG)
    assert "checksum" in damage.detail
    assert verdict.records == COUNT - 1


@pytest.mark.parametrize(
    ("at", "what"),
    [(0, "size"), (4, "magic"), (32, "own position"), (84, "body size")],
)
def test_a_record_that_is_none_does_not_hide_those_behind_it(stopped: Path, at: int, what: str) -> None:
    record = records_of(stopped)[100]
    overwrite_log(stopped, record.position + at, b"\x5a")
    verdict = verify(stopped)
    damage = the_only(verdict)
    assert (damage.file, damage.position, damage.kind) == (FIRST_LOG, record.position, DamageKind.RECORD), what
    assert verdict.records == COUNT - 1


def test_the_same_key_behind_a_damaged_record_is_no_further_damage(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put_many([Message("orders", b"%d" % number, keys=["same"]) for number in range(20)])
    record = records_of(tmp_path / "store")[10]
    overwrite_log(tmp_path / "store", record.position, b"\x5a")
    assert the_only(verify(tmp_path / "store")).position == record.position


def test_a_damaged_blank_at_the_end_of_a_file_is_a_damaged_record(stopped: Path) -> None:
    last = [record for record in records_of(stopped) if record.position < LOG_FILE][-1]
    blank = last.position + last.size
    overwrite_log(stopped, blank + 4, b"\xff")
    damage = the_only(verify(stopped))
    assert (damage.file, damage.position, damage.kind) == (FIRST_LOG, blank, DamageKind.RECORD)


def test_a_blank_of_a_wrong_size_is_a_damaged_record(stopped: Path) -> None:
    last = [record for record in records_of(stopped) if record.position < LOG_FILE][-1]
    blank = last.position + last.size
    overwrite_log(stopped, blank, struct.pack(">I", 9))
    damage = the_only(verify(stopped))
    assert (damage.position, damage.kind) == (blank, DamageKind.RECORD)


def test_damage_with_a_property_checksum_is_found_anywhere_in_the_record(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", property_crc=True) as store:
        store.put_many(some_messages(10))
    record = records_of(tmp_path / "store")[3]
    overwrite_log(tmp_path / "store", record.position + 51, b"\x77")  # the address it came from
    damage = the_only(verify(tmp_path / "store"))
    assert (damage.position, damage.kind) == (record.position, DamageKind.RECORD)
    assert "property checksum" in damage.detail


def test_properties_that_end_in_zeros_are_a_damaged_record(stopped: Path) -> None:
    record = records_of(stopped)[-1]
    overwrite_log(stopped, record.position + record.size - 3, bytes(3))
    kinds = {damage.kind for damage in verify(stopped).damage}
    assert DamageKind.RECORD in kinds


def test_zeros_before_other_records_are_a_hole(stopped: Path) -> None:
    record = records_of(stopped)[100]
    overwrite_log(stopped, record.position, bytes(record.size))
    verdict = verify(stopped)
    damage = the_only(verdict)
    assert (damage.file, damage.position, damage.kind) == (FIRST_LOG, record.position, DamageKind.HOLE)
    assert f"{record.size} bytes" in damage.detail
    assert verdict.records == COUNT - 1


def test_zeros_up_to_the_end_of_a_file_are_a_hole_if_the_next_has_records(stopped: Path) -> None:
    records = records_of(stopped)
    lost = [record for record in records if LOG_FILE - 1000 < record.position < LOG_FILE]
    overwrite_log(stopped, lost[0].position, bytes(LOG_FILE - lost[0].position))
    verdict = verify(stopped)
    damage = the_only(verdict)
    assert (damage.file, damage.position, damage.kind) == (FIRST_LOG, lost[0].position, DamageKind.HOLE)
    assert verdict.records == COUNT - len(lost)


def test_bytes_behind_the_last_record_are_a_tail(stopped: Path) -> None:
    last = records_of(stopped)[-1]
    end = last.position + last.size
    overwrite_log(stopped, end, b"\x99" * 300)
    damage = the_only(verify(stopped))
    assert (damage.file, damage.position, damage.kind) == (SECOND_LOG, end, DamageKind.TAIL)
    assert "300 bytes" in damage.detail


def test_bytes_far_behind_the_last_record_are_a_tail_where_they_begin(stopped: Path) -> None:
    overwrite_log(stopped, 2 * LOG_FILE - 500, b"\x99" * 10)
    damage = the_only(verify(stopped))
    assert (damage.position, damage.kind) == (2 * LOG_FILE - 500, DamageKind.TAIL)


def test_a_log_that_lost_what_the_checkpoint_promised_is_damaged(stopped: Path) -> None:
    last = records_of(stopped)[-1]
    overwrite_log(stopped, last.position, bytes(last.size))
    found = {damage.kind: damage for damage in verify(stopped).damage}
    assert set(found) == {DamageKind.CHECKPOINT, DamageKind.QUEUE, DamageKind.INDEX}
    assert found[DamageKind.CHECKPOINT].file == "checkpoint"
    assert f"ends at {last.position}" in found[DamageKind.CHECKPOINT].detail
    assert "behind the log's end" in found[DamageKind.QUEUE].detail


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/orders/1", "index"])
def test_a_file_with_a_foreign_name_is_named(stopped: Path, folder: str) -> None:
    (stopped / folder / "notes.txt").write_text("not ours")
    damage = the_only(verify(stopped))
    assert (damage.file, damage.kind) == (f"{folder}/notes.txt", DamageKind.FILE)


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/orders/1", "index"])
@pytest.mark.parametrize("change", [lambda data: data[:-24], lambda data: data + bytes(24)])
def test_a_file_of_another_size_is_named(stopped: Path, folder: str, change: Callable[[bytes], bytes]) -> None:
    victim = sorted((stopped / folder).iterdir())[0]
    victim.write_bytes(change(victim.read_bytes()))
    damage = verify(stopped).damage[0]
    assert (damage.file, damage.kind) == (f"{folder}/{victim.name}", DamageKind.FILE)
    assert "expected" in damage.detail


def test_a_missing_log_file_is_named_once(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put_many(some_messages(3 * COUNT))
    victim = sorted((tmp_path / "store" / "commitlog").iterdir())[1]
    victim.unlink()
    damage = the_only(verify(tmp_path / "store"))
    assert (damage.file, damage.kind) == (SECOND_LOG, DamageKind.FILE)
    assert "missing" in damage.detail


def test_a_missing_queue_file_is_named_once(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put_many(some_messages(3 * COUNT))
    victim = sorted((tmp_path / "store" / "consumequeue/orders/1").iterdir())[1]
    victim.unlink()
    damage = the_only(verify(tmp_path / "store"))
    assert (damage.file, damage.kind) == (f"consumequeue/orders/1/{victim.name}", DamageKind.FILE)


def test_an_empty_last_file_is_no_damage(stopped: Path) -> None:
    (stopped / "commitlog" / f"{2 * LOG_FILE:020d}").touch()
    (stopped / "index" / "99991231235959999").touch()
    assert verify(stopped).sound


def test_a_log_that_begins_later_is_no_damage(stopped: Path) -> None:
    (stopped / FIRST_LOG).unlink()
    verdict = verify(stopped)
    assert verdict.sound
    assert 0 < verdict.records < COUNT


def test_a_table_of_topics_that_cannot_be_read_is_named(stopped: Path) -> None:
    for name in ("topics.json", "topics.json.bak"):
        (stopped / "config" / name).write_text("{{{")
    damage = the_only(verify(stopped))
    assert (damage.file, damage.kind) == ("config/topics.json", DamageKind.FILE)


def test_a_queue_of_another_kind_than_its_topic_calls_for_is_named(stopped: Path) -> None:
    text = (stopped / "config/topics.json").read_text()
    (stopped / "config/topics.json").write_text(
        text.replace('"attributes":{}', '"attributes":{"queue.type":"BatchCQ"}')
    )
    kinds = {(damage.file, damage.kind) for damage in verify(stopped).damage}
    assert ("consumequeue/orders/1", DamageKind.FILE) in kinds


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


@pytest.mark.parametrize(
    ("at", "what"),
    [
        (0, "begin time"),
        (6, "begin time"),
        (12, "end time"),
        (22, "begin"),
        (30, "end"),
        (34, "slots"),
        (38, "entries"),
    ],
)
def test_a_header_that_does_not_fit_is_named(stopped: Path, at: int, what: str) -> None:
    file = first_index_file(stopped)
    flip(file, at)
    damages = verify(stopped).damage
    assert (damages[0].file, damages[0].position, damages[0].kind) == (f"index/{file.name}", 0, DamageKind.INDEX), what
    assert len(damages) == 1


@pytest.mark.parametrize("at", range(0, 20, 3))
def test_an_index_entry_that_does_not_fit_is_named(stopped: Path, at: int) -> None:
    file, place = first_index_file(stopped), FIRST_INDEX_ENTRY + 50 * 20
    flip(file, place + at)
    damage = the_only(verify(stopped))
    assert (damage.file, damage.position, damage.kind) == (f"index/{file.name}", place, DamageKind.INDEX)
    assert "entry 51" in damage.detail


def test_a_slot_that_leads_elsewhere_is_named(stopped: Path) -> None:
    file = first_index_file(stopped)
    flip(file, HEADER_SIZE + 4 * 7 + 3, 0x01)
    damage = the_only(verify(stopped))
    assert (damage.file, damage.position, damage.kind) == (f"index/{file.name}", HEADER_SIZE + 4 * 7, DamageKind.INDEX)


def test_records_that_the_index_does_not_know_are_named_together(stopped: Path) -> None:
    files = sorted((stopped / "index").iterdir())
    begin, end = (struct.unpack_from(">qq", file.read_bytes(), 16) for file in (files[0], files[2]))
    files[1].unlink()
    damage = the_only(verify(stopped))
    first = next(record.position for record in records_of(stopped) if record.position > begin[1])
    assert (damage.position, damage.kind) == (first, DamageKind.UNINDEXED)
    assert f"to {max(r.position for r in records_of(stopped) if r.position < end[0])}" in damage.detail


@pytest.mark.parametrize("which", [0, -1])
def test_the_first_or_last_index_file_is_missed(stopped: Path, which: int) -> None:
    sorted((stopped / "index").iterdir())[which].unlink()
    assert the_only(verify(stopped)).kind is (DamageKind.INDEX if which == 0 else DamageKind.UNINDEXED)


def test_an_index_that_is_gone_is_missed_if_the_checkpoint_counted_it(stopped: Path) -> None:
    shutil.rmtree(stopped / "index")
    assert the_only(verify(stopped)).kind is DamageKind.INDEX
    (stopped / "checkpoint").unlink()
    assert verify(stopped).sound


def test_a_store_without_an_index_is_sound(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", index_enabled=False) as store:
        store.put_many(some_messages(10))
    assert verify(tmp_path / "store").sound


def test_an_index_that_was_switched_off_is_no_damage(stopped: Path) -> None:
    with a_store(stopped, index_enabled=False) as store:
        store.put_many(some_messages(10))
    assert verify(stopped).sound


def test_what_came_after_the_checkpoint_of_a_killed_owner_is_no_damage(tmp_path: Path) -> None:
    with a_store(tmp_path / "running", checkpoint_interval_ms=3_600_000) as store:
        store.put_many(some_messages(COUNT // 2))
        store.checkpoint()
        store.put_many(some_messages(COUNT // 2))
        shutil.copytree(store.path, tmp_path / "killed")
    lost = sorted((tmp_path / "killed/consumequeue/orders/1").iterdir())[-1]
    lost.write_bytes(bytes(2000))  # what a power cut makes of pages that nobody had flushed
    verdict = verify(tmp_path / "killed")
    assert verdict.sound
    assert not verdict.is_clean


def test_what_came_before_the_checkpoint_of_a_killed_owner_must_be_there(tmp_path: Path) -> None:
    with a_store(tmp_path / "running") as store:
        store.put_many(some_messages(COUNT))
        store.checkpoint()
        shutil.copytree(store.path, tmp_path / "killed")
    shutil.rmtree(tmp_path / "killed/consumequeue/orders/1")
    assert the_only(verify(tmp_path / "killed")).kind is DamageKind.ORPHAN


def test_a_store_that_is_written_meanwhile_is_sound(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", checkpoint_interval_ms=10) as store:
        store.put_many(some_messages(COUNT))

        def put_more(done: int, total: int) -> None:
            put_some(store)

        put_some(store)
        with StoreReader(store.path) as reader:
            for _ in range(5):
                assert verify_store(reader, put_more).damage == []


def put_some(store: Store) -> None:
    for number in range(5):
        store.put_many(some_messages(20, topic=f"topic-{number}"))


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue", "index"])
@pytest.mark.parametrize("seed", range(10))
def test_flipped_bits_never_stop_it(stopped: Path, folder: str, seed: int) -> None:
    chance = random.Random(f"{folder} {seed}")
    for _ in range(3):
        file = chance.choice(sorted(file for file in (stopped / folder).rglob("*") if file.is_file()))
        for _ in range(chance.choice([1, 10, 200])):
            flip(file, chance.randrange(file.stat().st_size), 1 << chance.randrange(8))
        verify(stopped)


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue", "index", "config", "checkpoint"])
@pytest.mark.parametrize("seed", range(3))
def test_noise_in_every_file_never_stops_it(stopped: Path, folder: str, seed: int) -> None:
    chance = random.Random(f"{folder} {seed}")
    for file in [stopped / folder, *(stopped / folder).rglob("*")]:
        if file.is_file():
            file.write_bytes(chance.randbytes(chance.choice([0, 1, 19, file.stat().st_size, 3000])))
    verdict = verify(stopped)
    assert not verdict.sound or folder == "checkpoint"


def test_a_directory_where_a_file_should_be_never_stops_it(stopped: Path) -> None:
    for name in ("checkpoint", "config/topics.json", FIRST_LOG, QUEUE, "abort"):
        (stopped / name).unlink(missing_ok=True)
        (stopped / name).mkdir()
    assert not verify(stopped).sound


def test_a_checkpoint_of_zeros_says_nothing(stopped: Path) -> None:
    (stopped / "checkpoint").write_bytes(bytes(CHECKPOINT_SIZE))
    assert verify(stopped).sound


def test_very_much_damage_is_counted_not_listed(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", log_file_size=1 << 20) as store:
        store.put_many([Message("orders", b"x" * 20, queue=0) for _ in range(1500)])
    for record in records_of(tmp_path / "store"):
        overwrite(tmp_path / "store" / FIRST_LOG, record.position + 90, b"y")
    damages = verify(tmp_path / "store").damage
    assert len(damages) == 1001
    assert "500 more" in damages[-1].detail
