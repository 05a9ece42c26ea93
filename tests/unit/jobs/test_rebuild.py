"""Queues and index from the log: the bytes that the store itself would have written."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from embermq import Message
from embermq.errors import StoreMissing
from embermq.jobs.errors import NoRoom, TargetExists
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.jobs.rebuild import rebuild
from embermq.log.consume_queue import LARGEST_GAP
from tests.builders import a_store, some_messages
from tests.unit.jobs.rebuilding import derived, filled_by_the_store, rebuilt
from tests.unit.store.planting import overwrite_log, records_of


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A store of three topics that was closed."""
    path = tmp_path / "store"
    chance = random.Random(7)
    with a_store(path) as store:
        for topic in ("orders", "clicks", "%RETRY%billing"):
            store.put_many(some_messages(200, topic=topic, size=chance.randrange(50, 300)))
        store.put_many(some_messages(100))
    return path


@pytest.mark.parametrize("range_size", [700, 9_000, 1 << 20])
def test_a_rebuilt_store_is_what_the_live_one_wrote(stopped: Path, tmp_path: Path, range_size: int) -> None:
    result = rebuilt(stopped, tmp_path / "out", range_size=range_size)
    assert derived(tmp_path / "out") == derived(stopped)
    assert (result.records, result.queues, result.entries) == (700, 12, 700)
    assert result.damage == [] and result.left_out == {}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["consumequeue", "index"]


def test_kernels_write_the_same(stopped: Path, tmp_path: Path) -> None:
    from embermq.kernels import loading

    if not loading.is_installed():
        pytest.skip("needs numba")
    loading.load()
    rebuilt(stopped, tmp_path / "out")
    assert derived(tmp_path / "out") == derived(stopped)


def test_queues_can_be_rebuilt_without_the_index(stopped: Path, tmp_path: Path) -> None:
    assert rebuilt(stopped, tmp_path / "out", with_index=False).index_files == 0
    assert not (tmp_path / "out" / "index").exists()
    assert {**derived(tmp_path / "out"), "index": []} == {**derived(stopped), "index": []}


def test_a_file_system_that_writes_files_as_a_whole_gets_the_same(stopped: Path, tmp_path: Path) -> None:
    rebuilt(stopped, tmp_path / "out", scattered=False)
    assert derived(tmp_path / "out") == derived(stopped)


class FalteringRunner(LocalRunner):
    """Runs each task twice, the first time only half of it."""

    def __init__(self) -> None:
        super().__init__(1)

    def run(self, work: Any, tasks: Sequence[Any], report: Any) -> list[Any]:
        for task in tasks:
            with pytest.raises(InterruptedError):
                work(task, interrupt)
        return super().run(work, tasks, report)


def interrupt(size: int) -> None:
    raise InterruptedError


def test_a_task_that_is_run_again_writes_the_same(stopped: Path, tmp_path: Path) -> None:
    rebuild(stopped, tmp_path / "out", runner=FalteringRunner(), progress=Progress("rebuild"), range_size=9_000)
    assert derived(tmp_path / "out") == derived(stopped)


def test_tasks_may_run_in_any_order(stopped: Path, tmp_path: Path) -> None:
    class Backwards(LocalRunner):
        def run(self, work: Any, tasks: Sequence[Any], report: Any) -> list[Any]:
            return super().run(work, tasks[::-1], report)[::-1]

    rebuild(stopped, tmp_path / "out", runner=Backwards(1), progress=Progress("rebuild"), range_size=5_000)
    assert derived(tmp_path / "out") == derived(stopped)


def test_a_topic_that_was_deleted_and_used_again_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(300))
        store.delete_topic("orders")
        store.put_many(some_messages(50))
    rebuilt(path, tmp_path / "out")
    queues = {name: data for name, data in derived(tmp_path / "out").items() if name != "index"}
    assert queues == {name: data for name, data in derived(path).items() if name != "index"}


def test_topics_that_there_are_no_more_are_left_out_and_told(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(30))
        store.put_many(some_messages(20, topic="clicks"))
        store.delete_topic("clicks")
    assert rebuilt(path, tmp_path / "out").left_out == {"clicks": 20}
    assert [folder.name for folder in (tmp_path / "out" / "consumequeue").iterdir()] == ["orders"]


@pytest.mark.parametrize("offset", [0, 3, 41, 5_000, 2**40, 2**60, -1])
def test_a_record_whose_offset_was_changed_goes_where_the_store_would_put_it(
    stopped: Path, tmp_path: Path, offset: int
) -> None:
    record = records_of(stopped)[150]
    overwrite_log(stopped, record.position + 20, struct.pack(">q", offset))
    rebuilt(stopped, tmp_path / "out")
    found, expected = derived(tmp_path / "out"), filled_by_the_store(stopped, tmp_path / "copy")
    if offset > LARGEST_GAP:  # the store passes the record over; here it can be found by its keys
        assert found.pop("index") != expected.pop("index")
    assert found == expected


@pytest.mark.parametrize("seed", range(6))
def test_what_is_no_record_is_passed_over_and_told(stopped: Path, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    record = chance.choice(records_of(stopped)[5:-5])
    overwrite_log(stopped, record.position + chance.randrange(8), b"\xff" * 4)
    result = rebuilt(stopped, tmp_path / "out", range_size=chance.choice([700, 9_000]))
    assert [(begin, end) for begin, end, _ in result.damage] == [(record.position, record.position + record.size)]
    assert derived(tmp_path / "out") == filled_by_the_store(stopped, tmp_path / "copy")


def test_bytes_that_look_like_a_record_inside_of_a_body_are_none(tmp_path: Path) -> None:
    path, body = tmp_path / "store", b"." * 4_000
    with a_store(path) as store:
        store.put(Message("orders", body, queue=0))
        store.put_many(some_messages(20))
    log = (path / "commitlog" / f"{0:020d}").read_bytes()
    last = records_of(path)[-1]
    fake = bytearray(log[last.position : last.position + last.size])
    begin = log.index(body) + 600
    struct.pack_into(">qq", fake, 20, 7, begin)  # it says that it is where it is, and has an offset of its own
    overwrite_log(path, begin, bytes(fake))
    result = rebuilt(path, tmp_path / "out", range_size=begin + 1_000)
    assert result.records == 21
    for range_size in range(begin - 600, begin, 50):  # some range begins before it, inside of the body
        result = rebuilt(path, tmp_path / str(range_size), range_size=range_size)
        assert result.records == 21
        assert derived(tmp_path / str(range_size)) == derived(path)


def test_what_expired_in_the_log_is_blank_and_a_queue_without_messages_keeps_its_next_offset(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many([Message("old", b"x" * 100, queue=0)] * 10)
        store.put_many(some_messages(600))
    (path / "commitlog" / f"{0:020d}").unlink()
    rebuilt(path, tmp_path / "out")
    assert (tmp_path / "out/consumequeue/old/0" / f"{0:020d}").read_bytes()[:200] == (
        path / "consumequeue/old/0" / f"{0:020d}"
    ).read_bytes()[:200]
    found = {name: data for name, data in derived(tmp_path / "out").items() if "/old/" not in name}
    assert found == filled_by_the_store(path, tmp_path / "copy")


def test_a_target_that_exists_is_refused_and_nothing_is_changed(stopped: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").touch()
    with pytest.raises(TargetExists, match="out exists already"):
        rebuilt(stopped, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["file"]


def test_a_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        rebuilt(tmp_path / "nothing", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_disk_without_space_is_told_before_anything_is_written(stopped: Path) -> None:
    small = Path("/sys/fs")  # a file system that has no space at all
    with pytest.raises(NoRoom, match=r"it takes up to \d+ bytes, 0 are free"):
        rebuilt(stopped, small / "out")


def test_an_owner_does_not_matter_to_a_new_directory(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put_many(some_messages(200))
        result = rebuilt(tmp_path / "store", tmp_path / "out")
        assert result.records == 200
        assert derived(tmp_path / "out") == derived(tmp_path / "store")
