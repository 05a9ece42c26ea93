"""What `verify` finds in the log and among its files: each kind of damage is planted, and nothing else is found."""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from embermq import Message, Store
from embermq.format.checkpoint import CHECKPOINT_SIZE
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.store.reader import StoreReader
from embermq.store.verify import DamageKind, Verdict, verify_store
from tests.builders import a_store, some_messages
from tests.unit.store.planting import (
    COUNT,
    FIRST_LOG,
    LOG_FILE,
    SECOND_LOG,
    flip,
    overwrite,
    overwrite_log,
    records_of,
    the_only,
    verify,
)


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A store that was closed."""
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(COUNT))
    return path


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


def test_records_that_a_short_file_lost_are_no_further_damage(stopped: Path) -> None:
    cut = records_of(stopped)[100]
    os.truncate(stopped / FIRST_LOG, cut.position + 50)
    damages = verify(stopped).damage
    assert [(damage.file, damage.position, damage.kind) for damage in damages] == [
        (FIRST_LOG, 0, DamageKind.FILE),
        (FIRST_LOG, cut.position, DamageKind.RECORD),
    ]


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


def kill(tmp_path: Path) -> Path:
    """A store whose owner was killed when half of the messages came after the last checkpoint."""
    with a_store(tmp_path / "running", checkpoint_interval_ms=3_600_000) as store:
        store.put_many(some_messages(COUNT // 2))
        store.checkpoint()
        store.put_many(some_messages(COUNT // 2))
        shutil.copytree(store.path, tmp_path / "killed")
    return tmp_path / "killed"


def test_what_came_after_the_checkpoint_of_a_killed_owner_is_no_damage(tmp_path: Path) -> None:
    verdict = verify(kill(tmp_path))
    assert verdict.sound
    assert verdict.records == COUNT
    assert not verdict.is_clean


@pytest.mark.parametrize(
    ("folder", "which", "begin", "end"),
    [
        ("consumequeue/orders/1", 0, 70 * QUEUE_ENTRY_SIZE, 90 * QUEUE_ENTRY_SIZE),  # in the middle
        ("consumequeue/orders/1", -1, 0, 2000),  # all of the last file
        ("index", -1, 40, 240),  # the slots
        ("index", -1, 240, 4240),  # the entries
        ("index", -1, 300, 320),  # one of them
    ],
)
def test_pages_of_queues_and_index_that_a_power_cut_took_are_no_damage(
    tmp_path: Path, folder: str, which: int, begin: int, end: int
) -> None:
    path = kill(tmp_path)
    overwrite(sorted((path / folder).iterdir())[which], begin, bytes(end - begin))
    assert verify(path).sound


def test_records_that_a_power_cut_took_are_no_damage_if_they_came_after_the_checkpoint(tmp_path: Path) -> None:
    path = kill(tmp_path)
    last = records_of(path)[-1]
    overwrite_log(path, last.position, bytes(last.size))
    verdict = verify(path)
    assert verdict.sound
    assert verdict.records == COUNT - 1


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


def test_emptied_files_never_stop_it(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put_many(some_messages(4 * COUNT))
    for folder in ("commitlog", "consumequeue/orders/1", "index"):
        for file in sorted((tmp_path / "store" / folder).iterdir())[:-1]:
            os.truncate(file, 0)
    emptied = [damage.file for damage in verify(tmp_path / "store").damage if damage.kind is DamageKind.FILE]
    assert {"commitlog", "consumequeue", "index"} == {file.split("/")[0] for file in emptied}


def test_a_file_that_cannot_be_read_is_named(stopped: Path) -> None:
    (stopped / FIRST_LOG).unlink()
    (stopped / FIRST_LOG).symlink_to(stopped / FIRST_LOG)
    damages = verify(stopped).damage
    assert (damages[0].file, damages[0].kind) == (FIRST_LOG, DamageKind.FILE)


def test_a_directory_where_a_file_should_be_never_stops_it(stopped: Path) -> None:
    for name in ("checkpoint", "config/topics.json", FIRST_LOG, f"consumequeue/orders/1/{0:020d}", "abort"):
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
