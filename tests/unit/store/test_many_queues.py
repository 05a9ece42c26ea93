"""More queues than files may be open: those used least are closed, and open again when they are needed."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from embermq import Message, Store
from embermq.format.record import Draft
from embermq.model.flags import SysFlag
from embermq.model.topic import TopicConfig
from embermq.store import queues as queues_module
from tests.builders import a_store
from tests.unit.store.planting import verify

MOST = 3
QUEUES = 25
PER_FILE = 100  # entries of a queue file: see SMALL_SIZES


def many(path: Path, **settings: Any) -> Store:
    return a_store(path, max_open_queue_files=MOST, **settings)


def open_queue_files(store: Path) -> int:
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    paths = [os.readlink(link) for link in links if os.path.islink(link)]
    return len({path for path in paths if path.startswith(str(store)) and "consumequeue" in path})


def put_round(store: Store, name: str) -> None:
    store.put_many([Message("wide", f"{name} {queue}".encode(), queue=queue) for queue in range(QUEUES)])


def bodies(store: Store, queue: int) -> list[str]:
    return [message.body.decode() for message in store.get("wide", queue=queue, offset=0, limit=1000)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with many(tmp_path / "s") as store:
        store.save_topic(TopicConfig("wide", read_queues=QUEUES, write_queues=QUEUES))
    return tmp_path / "s"


def test_all_queues_are_appended_to_and_read_with_few_files_open(path: Path) -> None:
    with many(path) as store:
        for name in "abc":
            put_round(store, name)
            assert open_queue_files(path) <= MOST
        assert all(bodies(store, queue) == [f"{name} {queue}" for name in "abc"] for queue in range(QUEUES))
        assert open_queue_files(path) <= MOST
        assert store.queues("wide") == list(range(QUEUES))
    with many(path) as store:
        assert store.state().recovered.begin == store.state().log_written  # nothing was read again
        put_round(store, "d")
        assert bodies(store, 7) == ["a 7", "b 7", "c 7", "d 7"]
    assert verify(path).sound


def test_queues_of_several_files_are_closed_and_opened_whole(path: Path) -> None:
    with many(path) as store:
        for queue in (0, 1, 2):
            store.put_many([Message("wide", b"%d" % number, queue=queue) for number in range(2 * PER_FILE + 5)])
        for queue in (0, 1, 2):
            assert bodies(store, queue) == [str(number) for number in range(2 * PER_FILE + 5)]
            assert store.offsets("wide", queue=queue) == (0, 2 * PER_FILE + 5)
    assert verify(path).sound


def test_batch_queues_are_closed_and_opened_too(tmp_path: Path) -> None:
    flag = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP

    def batch(queue: int, count: int) -> Draft:
        return Draft(b"batches", queue, b"%d" % count, b"INNER_NUM\x01%d\x02" % count, sys_flag=flag)

    with many(tmp_path / "s") as store:
        attributes = {"queue.type": "BatchCQ"}
        store.save_topic(TopicConfig("batches", read_queues=9, write_queues=9, attributes=attributes))
        for count in (2, 3):
            store.put_drafts(lambda count=count: [batch(queue, count) for queue in range(9)])
        for queue in range(9):
            assert store.offsets("batches", queue=queue) == (0, 5)
            assert [message.body for message in store.get("batches", queue=queue, offset=3)] == [b"3"]
        assert open_queue_files(path) <= MOST


def test_a_crash_loses_nothing_of_queues_that_were_closed(path: Path) -> None:
    store = many(path)
    put_round(store, "a")
    store.checkpoint()
    put_round(store, "b")
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    store.close()
    with many(copy) as store:
        assert all(bodies(store, queue) == [f"a {queue}", f"b {queue}"] for queue in range(QUEUES))
    assert verify(copy).sound


def test_a_checkpoint_syncs_what_was_closed_before_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = queues_module.sync_file
    monkeypatch.setattr(queues_module, "sync_file", lambda file: (synced.append(str(file)), real(file)))
    with many(path) as store:
        store.checkpoint()
        put_round(store, "a")
        synced.clear()
        store.checkpoint()
        assert len(synced) >= QUEUES - MOST
        store.checkpoint()
        assert len(synced) <= QUEUES


def test_with_very_many_changed_queues_the_file_system_is_synced_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(queues_module, "MOST_SYNCS", 2)
    monkeypatch.setattr(queues_module, "sync_file_system", synced.append)
    monkeypatch.setattr(queues_module, "sync_file", lambda file: pytest.fail(f"{file} synced alone"))
    with many(path) as store:
        put_round(store, "a")
        store.checkpoint()
        assert set(synced) == {path}
        count = len(synced)
        store.checkpoint()
        assert len(synced) == count


def test_readers_in_other_threads_find_what_is_being_closed(path: Path) -> None:
    failures: list[object] = []
    with many(path, durability="async") as store:
        put_round(store, "first")
        is_over = threading.Event()

        def read(begin: int) -> None:
            queue = begin
            while not is_over.is_set():
                queue = (queue + 7) % QUEUES
                found = bodies(store, queue)
                if not found or found != [f"{name.split()[0]} {queue}" for name in found]:
                    failures.append((queue, found))

        readers = [threading.Thread(target=read, args=(number,)) for number in range(3)]
        for reader in readers:
            reader.start()
        for number in range(30):
            put_round(store, f"n{number}")
        is_over.set()
        for reader in readers:
            reader.join()
        assert all(len(bodies(store, queue)) == 31 for queue in range(QUEUES))
    assert failures == []
