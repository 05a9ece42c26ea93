"""Opening a directory after whatever happened to it: one test per case.

A crash is a copy of the directory of an open store: what a killed process leaves.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from embermq import Message, Store
from embermq.errors import ForeignFile, MissingFile, StoreLocked, StoreMissing, WrongFileSize
from embermq.format.checkpoint import CHECKPOINT_SIZE
from embermq.store.opening import Begin
from tests.builders import SMALL_SIZES, a_store, read_all, some_messages

COUNT = 400  # some 70 KB: two log files, several queue and index files
LOG_FILE = SMALL_SIZES["log_file_size"]


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A store that was closed."""
    path = tmp_path / "stopped"
    with a_store(path) as store:
        fill(store)
    return path


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A store whose process was killed some time after its last checkpoint."""
    return crash(tmp_path)


def crash(tmp_path: Path, **settings: Any) -> Path:
    path = tmp_path / "crashed"
    with a_store(tmp_path / "running", **settings) as store:
        store.put_many(some_messages(COUNT // 2))
        store.checkpoint()
        fill(store, begin=COUNT // 2)
        shutil.copytree(store.path, path)
    return path


def fill(store: Store, begin: int = 0) -> None:
    store.put_many(some_messages(COUNT)[begin:])


def bodies() -> set[bytes]:
    return {message.body for message in some_messages(COUNT)}


def bodies_in(store: Store) -> set[bytes]:
    return {body for queue in read_all(store).values() for body in queue}


def check_all_there(path: Path, reason: Begin, *, clean: bool) -> None:
    """Everything is back, by queue and by key, and the store goes on."""
    with a_store(path) as store:
        recovered = store.state().recovered
        assert (recovered.reason, recovered.clean) == (reason, clean)
        assert bodies_in(store) == bodies()
        assert all(store.query("orders", f"key-{number}") for number in range(COUNT))
        receipt = store.put(Message("orders", b"next", queue=0))
        assert receipt.offset == COUNT // 4
        assert store.state().dispatch_behind == 0


def log_files(path: Path) -> list[Path]:
    return sorted((path / "commitlog").iterdir())


def end_of_log(path: Path) -> int:
    """Where the records end, found by hand: sizes are added up until there is none."""
    end = 0
    for file in log_files(path):
        data, at = file.read_bytes(), 0
        while at + 8 <= len(data):
            size, magic = struct.unpack_from(">II", data, at)
            if magic != 0xDAA320A7:
                break
            at += size
            end = int(file.name) + at
    return end


def overwrite(path: Path, position: int, data: bytes) -> None:
    file = path / "commitlog" / f"{position // LOG_FILE * LOG_FILE:020d}"
    with file.open("r+b") as opened:
        opened.seek(position % LOG_FILE)
        opened.write(data)


def last_record(path: Path) -> tuple[int, int]:
    """Position and size of the last record."""
    end, position, size = end_of_log(path), 0, 0
    at = max(int(file.name) for file in log_files(path) if int(file.name) < end)
    data = (path / "commitlog" / f"{at:020d}").read_bytes()
    while at < end:
        position, size = at, struct.unpack_from(">I", data, at % LOG_FILE)[0]
        at += size
    return position, size


def test_a_clean_stop_needs_no_reading(stopped: Path) -> None:
    with a_store(stopped) as store:
        recovered = store.state().recovered
        assert recovered.scan.records == 0
        assert recovered.begin == recovered.scan.end == end_of_log(stopped)
    check_all_there(stopped, Begin.CHECKPOINT, clean=True)


def test_after_a_crash_reading_begins_at_the_checkpoint(crashed: Path) -> None:
    with a_store(crashed) as store:
        assert store.state().recovered.scan.records == COUNT // 2
    check_all_there(crashed, Begin.CHECKPOINT, clean=True)


def test_an_empty_directory_is_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with a_store(tmp_path / "empty") as store:
        assert store.state().recovered.reason is Begin.NEW
        assert store.put(Message("orders", b"first", queue=0)).offset == 0


@pytest.mark.parametrize("kept", [0, 1, 4, 7, 8, 50, 100, 150])
def test_a_torn_last_record_is_cut_and_kept_aside(crashed: Path, kept: int) -> None:
    position, size = last_record(crashed)
    overwrite(crashed, position + kept, bytes(size - kept))
    with a_store(crashed) as store:
        state = store.state()
        assert state.recovered.scan.end == state.log_written == position
        missing = bodies() - bodies_in(store)
        assert len(missing) == 1
        assert [Path(file).name for file in state.recovered.kept] == (
            [f"{position:020d}.broken"] if kept > 3 else []
        )  # its first bytes are zero anyway
        store.put(Message("orders", b"goes on"))
        assert b"goes on" in bodies_in(store)


def test_garbage_behind_the_last_record_is_cut_and_kept_aside(crashed: Path) -> None:
    end = end_of_log(crashed)
    overwrite(crashed, end, b"\x99" * 300)
    with a_store(crashed) as store:
        (kept,) = store.state().recovered.kept
        assert Path(kept).read_bytes() == b"\x99" * 300
        assert bodies_in(store) == bodies()
        assert not any(log_files(crashed)[-1].read_bytes()[end % LOG_FILE :])


def test_garbage_behind_the_end_of_a_clean_stop_is_cut_too(stopped: Path) -> None:
    overwrite(stopped, end_of_log(stopped), b"\x99" * 300)
    check_all_there(stopped, Begin.CHECKPOINT, clean=True)
    assert len(list((stopped / "broken").iterdir())) == 1


def test_zeros_in_the_middle_end_the_log_and_what_follows_is_kept_aside(crashed: Path) -> None:
    position, size = last_record(crashed)
    overwrite(crashed, position - 3 * size, bytes(size))
    with a_store(crashed) as store:
        state = store.state()
        assert state.log_written == position - 3 * size
        (kept,) = state.recovered.kept
        assert len(Path(kept).read_bytes()) == 4 * size
        assert len(bodies() - bodies_in(store)) == 4


def test_a_flipped_bit_behind_the_checkpoint_ends_the_log(crashed: Path) -> None:
    position, size = last_record(crashed)
    file = crashed / "commitlog" / f"{position // LOG_FILE * LOG_FILE:020d}"
    data = bytearray(file.read_bytes())
    data[position % LOG_FILE - size + 90] ^= 4  # in the body of the last but one
    file.write_bytes(data)
    with a_store(crashed) as store:
        recovered = store.state().recovered
        assert recovered.scan.damage is not None
        assert recovered.scan.damage.reason == "its body does not match its checksum"
        assert len(bodies() - bodies_in(store)) == 2


def test_stale_bytes_behind_a_cut_cannot_come_back(crashed: Path) -> None:
    position, size = last_record(crashed)
    overwrite(crashed, position - size, bytes(4))  # the last record stands, but behind a hole
    with a_store(crashed) as store:
        assert store.state().log_written == position - size
        store.put(Message("orders", b"x", queue=0))
    with a_store(crashed) as store:
        assert b"x" in bodies_in(store)
        assert len(bodies_in(store)) == COUNT - 2 + 1


def test_prepared_files_behind_the_last_are_removed(crashed: Path) -> None:
    needed = [file for file in log_files(crashed) if int(file.name) < end_of_log(crashed)]
    assert len(log_files(crashed)) == len(needed) + 2, "next and next but one"
    with a_store(crashed, prepare_files=False) as store:
        assert bodies_in(store) == bodies()
        assert log_files(crashed) == needed


def test_an_empty_last_file_is_a_file_whose_making_was_cut_short(crashed: Path) -> None:
    last = log_files(crashed)[-1]
    (crashed / "commitlog" / f"{int(last.name) + LOG_FILE:020d}").touch()
    check_all_there(crashed, Begin.CHECKPOINT, clean=False)


def test_a_missing_first_file_means_that_the_log_begins_later(stopped: Path) -> None:
    first, second, *_ = log_files(stopped)
    first.unlink()
    with a_store(stopped) as store:
        assert store.state().log_begin == int(second.name)
        low, high = store.offsets("orders", queue=0)
        assert 0 < low < high == COUNT // 4
        assert len(bodies_in(store)) < COUNT


def test_a_missing_file_in_the_middle_is_refused_and_named(tmp_path: Path) -> None:
    with a_store(tmp_path / "s") as store:
        for _ in range(3):
            fill(store)
    files = log_files(tmp_path / "s")
    files[1].unlink()
    before = tree(tmp_path / "s")
    with pytest.raises(MissingFile, match=files[1].name):
        a_store(tmp_path / "s")
    assert tree(tmp_path / "s") == before


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/orders/0", "index"])
def test_a_file_of_another_size_is_refused_before_anything_changes(stopped: Path, folder: str) -> None:
    victim = sorted((stopped / folder).iterdir())[0]
    victim.write_bytes(victim.read_bytes()[:-20])
    before = tree(stopped)
    with pytest.raises(WrongFileSize, match=victim.name):
        a_store(stopped)
    assert tree(stopped) == before


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/orders/0", "index"])
def test_a_file_with_a_foreign_name_is_refused_before_anything_changes(stopped: Path, folder: str) -> None:
    (stopped / folder / "notes.txt").write_text("not ours")
    before = tree(stopped)
    with pytest.raises(ForeignFile, match=r"notes\.txt"):
        a_store(stopped)
    assert tree(stopped) == before


@pytest.mark.parametrize("state", ["stopped", "crashed"])
@pytest.mark.parametrize(
    ("lost", "reason"),
    [
        ("consumequeue", Begin.QUEUES_SHORT),
        ("consumequeue/orders", Begin.QUEUES_SHORT),
        ("consumequeue/orders/2", Begin.QUEUES_SHORT),
        ("index", Begin.INDEX_SHORT),
    ],
)
def test_missing_queues_or_index_are_made_again(tmp_path: Path, state: str, lost: str, reason: Begin) -> None:
    if state == "stopped":
        with a_store(tmp_path / "s") as store:
            fill(store)
        path = tmp_path / "s"
    else:
        path = crash(tmp_path)
    shutil.rmtree(path / lost)
    check_all_there(path, reason, clean=state == "stopped")


def test_a_missing_index_file_is_noticed(stopped: Path) -> None:
    sorted((stopped / "index").iterdir())[0].unlink()
    check_all_there(stopped, Begin.INDEX_SHORT, clean=True)


@pytest.mark.parametrize("state", ["stopped", "crashed"])
def test_a_missing_checkpoint_costs_time_but_no_message(tmp_path: Path, state: str) -> None:
    with a_store(tmp_path / "s") as store:
        fill(store)
        shutil.copytree(store.path, tmp_path / "crashed")
    path = tmp_path / ("s" if state == "stopped" else "crashed")
    (path / "checkpoint").unlink()
    reason = Begin.QUEUE_END if state == "stopped" else Begin.FILE_BY_TIME
    check_all_there(path, reason, clean=state == "stopped")


def test_a_damaged_checkpoint_counts_as_none(crashed: Path) -> None:
    (crashed / "checkpoint").write_bytes(b"\xff" * CHECKPOINT_SIZE)
    check_all_there(crashed, Begin.FILE_BY_TIME, clean=False)


def test_a_checkpoint_from_the_future_is_not_believed(tmp_path: Path) -> None:
    with a_store(tmp_path / "s") as store:
        store.put_many(some_messages(COUNT // 2))
        store.checkpoint()
        shutil.copytree(store.path, tmp_path / "old")
        fill(store, begin=COUNT // 2)
    shutil.copy(tmp_path / "s" / "checkpoint", tmp_path / "old" / "checkpoint")
    with a_store(tmp_path / "old") as store:
        assert store.state().recovered.reason in (Begin.CHECKPOINT_AHEAD, Begin.QUEUES_SHORT)
        assert bodies_in(store) == {message.body for message in some_messages(COUNT // 2)}


def test_queues_ahead_of_the_log_are_cut_to_it(tmp_path: Path) -> None:
    with a_store(tmp_path / "s") as store:
        store.put_many(some_messages(COUNT // 2))
        shutil.copytree(store.path / "commitlog", tmp_path / "old-log")
        fill(store, begin=COUNT // 2)
    shutil.rmtree(tmp_path / "s" / "commitlog")
    shutil.copytree(tmp_path / "old-log", tmp_path / "s" / "commitlog")
    with a_store(tmp_path / "s") as store:
        assert bodies_in(store) == {message.body for message in some_messages(COUNT // 2)}
        assert store.offsets("orders", queue=0) == (0, COUNT // 8)
        assert store.query("orders", f"key-{COUNT - 1}") == []


def test_a_lost_log_leaves_no_ghosts(stopped: Path) -> None:
    shutil.rmtree(stopped / "commitlog")
    with a_store(stopped) as store:
        assert store.state().recovered.reason is Begin.NEW
        assert store.offsets("orders", queue=0)[1] == 0
        assert store.query("orders", "key-1") == []
        assert store.put(Message("orders", b"again", queue=0)).position == 0


def test_recovery_reports_its_progress(crashed: Path) -> None:
    reports: list[tuple[int, int]] = []
    (crashed / "checkpoint").unlink()
    with a_store(crashed, report=lambda done, total: reports.append((done, total))):
        assert reports
        assert all(0 <= done <= total for done, total in reports)


def test_a_second_owner_is_refused(tmp_path: Path) -> None:
    with a_store(tmp_path / "s"), pytest.raises(StoreLocked, match="in use"):
        a_store(tmp_path / "s")


def test_a_directory_without_a_parent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="make it first"):
        a_store(tmp_path / "no" / "where")


def test_a_file_where_the_directory_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreMissing, match="a directory is wanted"):
        a_store(tmp_path / "file")


def tree(path: Path) -> dict[str, bytes]:
    """Every file with its content, but for the lock that says who looked."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and file.name != "lock"
    }
