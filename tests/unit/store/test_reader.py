"""Reading a directory that somebody else may own."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from embermq import Message, open_store
from embermq.errors import CorruptRecord, ForeignFile, StoreMissing
from embermq.store.reader import QueueRange, StoreReader
from embermq.store.settings import StoreSettings
from tests.builders import SMALL_SIZES, a_message, a_store, some_messages

LOG_FILE = SMALL_SIZES["log_file_size"]
COUNT = 500  # some 115 KB: two log files


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A store that was closed."""
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(COUNT))
    return path


def digest(path: Path) -> dict[str, str]:
    """Name, time of change and content of everything in a directory."""
    return {
        str(file.relative_to(path)): f"{file.stat().st_mtime_ns} "
        + (hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "")
        for file in path.rglob("*")
    }


def read_everything(reader: StoreReader) -> None:
    assert list(reader.iter_records())
    assert reader.end > reader.begin
    assert reader.topics() == ["orders"]
    assert reader.read("orders", 0, 0)
    assert reader.find("orders", "key-1")
    assert reader.files
    assert reader.checkpoint.log_time
    assert reader.progress


def overwrite(path: Path, position: int, data: bytes) -> None:
    with (path / "commitlog" / f"{position // LOG_FILE * LOG_FILE:020d}").open("r+b") as file:
        file.seek(position % LOG_FILE)
        file.write(data)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="no such directory"):
        StoreReader(tmp_path / "nowhere")


def test_a_directory_without_a_store_is_no_empty_store(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of ours")
    with pytest.raises(StoreMissing, match="neither"):
        StoreReader(tmp_path)


def test_a_file_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreMissing):
        StoreReader(tmp_path / "file")


def test_a_store_without_a_message_is_read_as_empty(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", prepare_files=False):
        pass
    with StoreReader(tmp_path / "store") as reader:
        assert (reader.begin, reader.end, reader.files, reader.queues()) == (0, 0, (), [])
        assert list(reader.iter_records()) == []
        assert reader.find("orders", "key") == []
        assert list(reader.read("orders", 0, 0)) == []


def test_reading_a_closed_store_changes_nothing(stopped: Path) -> None:
    before = digest(stopped)
    with StoreReader(stopped) as reader:
        read_everything(reader)
    assert digest(stopped) == before


def test_reading_an_open_store_changes_nothing_and_needs_no_lock(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", checkpoint_interval_ms=3_600_000) as store:
        store.put_many(some_messages(COUNT))
        store.checkpoint()
        before = digest(store.path)
        with StoreReader(store.path) as reader:
            read_everything(reader)
            assert not reader.is_clean
            assert reader.end == store.state().log_written
        assert digest(store.path) == before
        store.put(a_message())


def test_a_read_only_directory_can_be_read(stopped: Path) -> None:
    shutil.rmtree(stopped / "index")  # nothing that is missing may be made
    stopped.chmod(0o555)
    try:
        with StoreReader(stopped) as reader:
            assert len(list(reader.iter_records())) == COUNT
            assert reader.find("orders", "key-1") == []
    finally:
        stopped.chmod(0o755)
    assert not (stopped / "index").exists()


def test_records_come_in_the_order_of_the_log(stopped: Path) -> None:
    with StoreReader(stopped) as reader:
        records = list(reader.iter_records())
    assert [record.body for record in records] == [message.body for message in some_messages(COUNT)]
    positions = [record.position for record in records]
    assert positions == sorted(positions)
    assert positions[-1] > LOG_FILE, "more than one file"


def test_records_of_a_range_are_those_that_begin_in_it(stopped: Path) -> None:
    with StoreReader(stopped) as reader:
        positions = [record.position for record in reader.iter_records()]
        begin, end = positions[3], positions[-3]
        assert [record.position for record in reader.iter_records(begin, end)] == positions[3:-3]
        assert [record.position for record in reader.iter_records(begin, end + 1)] == positions[3:-2]
        assert list(reader.iter_records(begin, begin)) == []
        assert list(reader.iter_records(reader.end)) == []


@pytest.mark.parametrize("lost", ["nothing", "checkpoint", "consumequeue", "both"])
def test_the_end_is_found_whatever_helps_to_find_it(stopped: Path, lost: str) -> None:
    with StoreReader(stopped) as reader:
        last = list(reader.iter_records())[-1]
    if lost in ("checkpoint", "both"):
        (stopped / "checkpoint").unlink()
    if lost in ("consumequeue", "both"):
        shutil.rmtree(stopped / "consumequeue")
    with StoreReader(stopped) as reader:
        assert reader.end == last.position + last.size
        assert len(list(reader.iter_records())) == COUNT


def test_the_end_lies_before_a_torn_record(stopped: Path) -> None:
    with StoreReader(stopped) as reader:
        last = list(reader.iter_records())[-1]
    overwrite(stopped, last.position + last.size - 60, bytes(60))
    with StoreReader(stopped) as reader:
        assert reader.end == last.position
        assert len(list(reader.iter_records())) == COUNT - 1


def test_the_end_of_a_log_whose_last_file_is_full_is_the_end_of_that_file(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        while store.state().log_written <= LOG_FILE:
            position = store.put(a_message(body=bytes(1000))).position
    assert position == LOG_FILE
    overwrite(tmp_path / "store", LOG_FILE, bytes(2000))
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    (tmp_path / "store" / "checkpoint").unlink()
    with StoreReader(tmp_path / "store") as reader:
        assert reader.end == LOG_FILE, "a BLANK record closes the first file"


def test_damage_before_the_end_is_an_error_that_tells_where(stopped: Path) -> None:
    with StoreReader(stopped) as reader:
        record = list(reader.iter_records())[100]
    overwrite(stopped, record.position + 95, b"\xff")
    with StoreReader(stopped) as reader:
        seen = []
        with pytest.raises(CorruptRecord) as caught:
            for each in reader.iter_records():
                seen.append(each)
    assert caught.value.position == record.position
    assert len(seen) == 100


def test_zeros_before_the_end_are_an_error_too(stopped: Path) -> None:
    with StoreReader(stopped) as reader:
        record = list(reader.iter_records())[100]
    overwrite(stopped, record.position, bytes(record.size))
    with StoreReader(stopped) as reader, pytest.raises(CorruptRecord) as caught:
        list(reader.iter_records())
    assert caught.value.position == record.position


def test_queues_have_their_smallest_and_next_offset(stopped: Path) -> None:
    with StoreReader(stopped) as reader:
        assert reader.queues() == [QueueRange("orders", queue, 0, COUNT // 4) for queue in range(4)]


def test_offsets_begin_with_the_first_record_that_the_log_still_has(stopped: Path) -> None:
    (stopped / "commitlog" / f"{0:020d}").unlink()
    with StoreReader(stopped) as reader:
        first = next(reader.iter_records())
        assert reader.begin == first.position == LOG_FILE
        ranges = {entry.queue: entry for entry in reader.queues()}
        assert ranges[first.queue].min_offset == first.offset
        assert all(0 < entry.min_offset < entry.max_offset == COUNT // 4 for entry in ranges.values())


def test_a_queue_is_read_from_an_offset_on(stopped: Path) -> None:
    with StoreReader(stopped) as reader:
        batch = reader.read("orders", 1, 10, limit=5)
        assert [message.offset for message in batch] == [10, 11, 12, 13, 14]
        assert batch.next_offset == 15
        assert {message.queue for message in batch} == {1}


def test_a_key_finds_its_newest_records_first(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        for number in range(5):
            store.put(Message("orders", b"%d" % number, keys=["same"]))
        store.put(Message("others", b"x", keys=["same"]))
    with StoreReader(tmp_path / "store") as reader:
        assert [record.body for record in reader.find("orders", "same", limit=3)] == [b"4", b"3", b"2"]
        assert [record.body for record in reader.find("others", "same")] == [b"x"]


def test_two_keys_with_one_hash_are_told_apart(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put_many([Message("orders", b"1", keys=["Aa"]), Message("orders", b"2", keys=["BB"])])
    with StoreReader(tmp_path / "store") as reader:
        assert [record.body for record in reader.find("orders", "Aa")] == [b"1"]


def test_topics_are_those_configured_or_with_a_queue(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put(a_message("orders"))
    shutil.copytree(tmp_path / "store" / "consumequeue" / "orders", tmp_path / "store" / "consumequeue" / "left-over")
    with StoreReader(tmp_path / "store") as reader:
        assert reader.topics() == ["left-over", "orders"]


def test_a_log_in_several_directories_is_one_log(tmp_path: Path) -> None:
    paths = tuple(str(tmp_path / name) for name in ("a", "b"))
    with open_store(tmp_path / "store", **{**SMALL_SIZES, "durability": "async", "log_paths": paths}) as store:
        store.put_many(some_messages(COUNT))
    with StoreReader(tmp_path / "store", StoreSettings(log_paths=paths)) as reader:
        assert len(list(reader.iter_records())) == COUNT
        assert {file.path.parent.name for file in reader.files} == {"a", "b"}


@pytest.mark.parametrize("folder", ["commitlog", "consumequeue/orders/0", "index"])
def test_a_file_that_no_store_makes_is_named(stopped: Path, folder: str) -> None:
    (stopped / folder / "notes.txt").write_text("x")
    with StoreReader(stopped) as reader, pytest.raises(ForeignFile, match=r"notes\.txt"):
        reader.queues()


def test_closing_twice_does_no_harm(stopped: Path) -> None:
    reader = StoreReader(stopped)
    read_everything(reader)
    reader.close()
    reader.close()
