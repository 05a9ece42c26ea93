"""Stores whose queues are no files: what those hold is told by the log."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from embermq.files.lock import DirectoryLock
from embermq.scan.end_of_log import OwnerOnly
from embermq.scan.searching import StoreSearch
from embermq.scan.splits import StorePlace
from embermq.scan.store_state import StoreState, look
from embermq.scan.told_queues import ToldSearch
from tests.conftest import Golden


def test_queues_in_a_rocksdb_are_told_by_the_log(golden: Golden) -> None:
    state = look(StorePlace(str(golden.store("rocksdb-cq"))))
    records = golden.expected("rocksdb-cq")["commitLog"]["records"]
    offsets: dict[tuple[str, int], list[int]] = {}
    for facts in records:
        offsets.setdefault((facts["topic"], facts["queueId"]), []).append(facts["queueOffset"])
    assert state.is_told
    assert {tuple(queue) for queue in state.queues} == {
        (topic, queue, min(found), max(found) + 1) for (topic, queue), found in offsets.items()
    }
    assert state.queues


@pytest.fixture
def both(golden: Golden, tmp_path: Path) -> tuple[StoreState, StoreState]:
    """A store, and a copy that has nothing but its log."""
    path = golden.store("basic")
    shutil.copytree(path / "commitlog", tmp_path / "log-only" / "commitlog")
    return look(StorePlace(str(path))), look(StorePlace(str(tmp_path / "log-only")))


def test_a_copy_of_the_log_alone_tells_the_same_queues(both: tuple[StoreState, StoreState]) -> None:
    whole, told = both
    assert not whole.is_told
    assert told.is_told
    assert told.queues == tuple(queue for queue in whole.queues if queue.begin < queue.end)


def test_offsets_are_found_as_through_queues(both: tuple[StoreState, StoreState], golden: Golden) -> None:
    whole, told = both
    by_queues, by_log = StoreSearch(whole), ToldSearch(told.place, told.files, told.end)
    times = sorted(facts["storeTimestamp"] for facts in golden.expected("basic")["commitLog"]["records"])
    for queue in told.queues[:3]:
        for time_ms in (0, times[len(times) // 3], times[-1], times[-1] + 1):
            assert by_log.find_offset(queue, time_ms) == by_queues.find_offset(queue, time_ms)
        for begin, size in ((0, 1), (3, 2_000), (5, 20_000), (queue.end - 1, 1), (0, 1 << 30)):
            assert by_log.count_within(queue, begin, size) == by_queues.count_within(queue, begin, size)


def test_an_open_store_whose_queues_only_the_owner_reads_is_refused(golden: Golden) -> None:
    path = golden.store("rocksdb-cq")
    with DirectoryLock(path), pytest.raises(OwnerOnly, match="read it through its broker"):
        look(StorePlace(str(path)))
