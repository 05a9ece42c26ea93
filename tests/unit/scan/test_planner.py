"""How a read is cut: by share, offset, time and key; every message in one split and no more than one."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from embermq import Message
from embermq.scan import log_plan
from embermq.scan.log_plan import CLOCK_SLACK_MS, LARGEST_SPLIT, SMALLEST_SPLIT, choose_size
from embermq.scan.numpy_engine import NumpyEngine
from embermq.scan.planner import list_queues, plan
from embermq.scan.queue_plan import Estimate
from embermq.scan.reading import read_split
from embermq.scan.record_places import SPARSE_GAP
from embermq.scan.splits import LogSplit, QueueSplit, RecordSplit, Split, StorePlace
from embermq.scan.wanted import OffsetRange, Wanted
from tests.builders import ManualClock, a_store

WANTED = Wanted(columns=("topic", "queueId", "queueOffset", "physicalOffset", "keys", "storeTimestamp"))
HOUR_MS = 3_600_000
COUNT = 600


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several files and hours, in which one message of fifty is for the topic `rare`."""
    path, clock = tmp_path_factory.mktemp("store"), ManualClock()
    with a_store(path, log_file_size=16_384, clock=clock, retention_hours=10**6) as store:
        for number in range(COUNT):
            topic = "rare" if number % 50 == 7 else "orders"
            store.put(Message(topic, b"%d" % number * 20, queue=number % 2, keys=[f"key-{number}", "all"]))
            clock.advance(ms=HOUR_MS // 100)
    return path


def rows_of(splits: list[Split], wanted: Wanted) -> list[dict[str, Any]]:
    splits = pickle.loads(pickle.dumps(splits))
    wanted = pickle.loads(pickle.dumps(wanted))
    batches = (batch for split in splits for batch in read_split(split, wanted, make_engine=NumpyEngine))
    return [row for batch in batches for row in batch.to_pylist()]


def test_the_whole_log_is_cut_into_stretches_that_meet(path: Path) -> None:
    splits = plan(str(path), WANTED, split_size=10_000)
    stretches = [split for split in splits if isinstance(split, LogSplit)]
    assert len(stretches) == len(splits) > 5
    assert all(one.end == next_one.begin for one, next_one in pairwise(stretches))
    rows = rows_of(splits, WANTED)
    assert len({row["physicalOffset"] for row in rows}) == len(rows) == COUNT


@pytest.mark.parametrize("total", [1, 100 << 20, 1 << 30, (1 << 30) + 1, 5_000_000_000, 1 << 40])
def test_each_core_gets_as_many_splits_of_a_useful_size(total: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    size = choose_size(total, None, 1)
    assert min(SMALLEST_SPLIT, total) <= size <= LARGEST_SPLIT
    assert size == SMALLEST_SPLIT or -(-total // size) % 4 == 0 or total < SMALLEST_SPLIT


@pytest.mark.parametrize("least", [1, 3, 10])
def test_there_are_as_many_splits_as_asked_for(path: Path, least: int) -> None:
    assert len(plan(str(path), WANTED, min_partitions=least)) >= least
    orders = replace(WANTED, ranges=tuple(OffsetRange(*state[:2]) for state in list_queues(str(path))))
    splits = plan(str(path), orders, min_partitions=least)
    assert len(splits) >= least
    assert len(rows_of(splits, orders)) == COUNT


def test_splits_smaller_than_records_are_one_for_each_record_and_never_too_many(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = plan(str(path), WANTED, split_size=1)
    assert COUNT // 2 <= len(splits) <= COUNT  # they begin where records of one queue of two do
    assert len(rows_of(splits, WANTED)) == COUNT
    monkeypatch.setattr(log_plan, "MOST_SPLITS", 10)
    for options in ({"split_size": 1}, {"min_partitions": 10**9}):
        splits = plan(str(path), WANTED, **options)
        assert 5 <= len(splits) <= 10
        assert len(rows_of(splits, WANTED)) == COUNT


def test_a_rare_topic_is_read_through_its_queues_and_a_common_one_from_the_log(path: Path) -> None:
    rare, common = (replace(WANTED, topics=frozenset({topic})) for topic in ("rare", "orders"))
    assert all(isinstance(split, QueueSplit) for split in plan(str(path), rare))
    assert all(isinstance(split, LogSplit) for split in plan(str(path), common))
    assert len(rows_of(plan(str(path), rare), rare)) == COUNT // 50
    assert len(rows_of(plan(str(path), common), common)) == COUNT - COUNT // 50
    pattern = replace(WANTED, pattern="ra.*")
    assert rows_of(plan(str(path), pattern), pattern) == rows_of(plan(str(path), rare), rare)


def test_bytes_between_messages_count_where_they_are_read() -> None:
    assert Estimate(1_000, 300_000).cost(3_000_000) == 300_000 + 2_700_000 // 5  # close together
    assert Estimate(1_000, 300_000).cost(1 << 40) == 300_000 + 1_000 * SPARSE_GAP // 5  # each read by itself
    assert Estimate(1_000, 300_000).cost(200_000) == 300_000
    assert Estimate(0, 0).cost(1 << 40) == 0


def test_a_topic_in_ten_is_work_for_all_cores(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    (single,) = plan(str(path), Wanted(topics=frozenset({"rare"})))
    monkeypatch.setattr(log_plan, "SMALLEST_SPLIT", 4_000)  # more than its messages are
    several = plan(str(path), Wanted(topics=frozenset({"rare"})))
    assert len(several) == 3 and all(isinstance(split, QueueSplit) for split in several)
    assert sum(end - begin for split in several for *_, begin, end in split.parts) == sum(
        end - begin for *_, begin, end in single.parts
    )


def test_offsets_are_read_through_queues(path: Path) -> None:
    wanted = replace(WANTED, ranges=(OffsetRange("orders", 0, 3, 5), OffsetRange("orders", 1, 7, 8)))
    splits = plan(str(path), wanted)
    assert all(isinstance(split, QueueSplit) for split in splits)
    assert [(row["queueId"], row["queueOffset"]) for row in rows_of(splits, wanted)] == [(0, 3), (0, 4), (1, 7)]


def test_files_outside_of_the_wanted_times_are_not_read(path: Path) -> None:
    everything = rows_of(plan(str(path), WANTED), WANTED)
    begin = round(everything[COUNT // 2]["storeTimestamp"].timestamp() * 1000)
    wanted = replace(WANTED, begin_time_ms=begin, end_time_ms=begin + HOUR_MS)
    splits = plan(str(path), wanted)
    read = sum(split.end - split.begin for split in splits if isinstance(split, LogSplit))
    assert 0 < read < (everything[-1]["physicalOffset"]) // 2
    assert HOUR_MS > CLOCK_SLACK_MS
    assert rows_of(splits, wanted) == everything[COUNT // 2 : COUNT // 2 + 100]
    rare = replace(wanted, topics=frozenset({"rare"}))
    assert rows_of(plan(str(path), rare), rare) == [
        row for row in everything[COUNT // 2 : COUNT // 2 + 100] if row["topic"] == "rare"
    ]


def test_keys_are_looked_up_in_the_index(path: Path) -> None:
    wanted = replace(WANTED, keys=frozenset({"key-123", "key-7", "missing"}))
    splits = plan(str(path), wanted)
    (found,) = (split for split in splits if isinstance(split, RecordSplit))
    assert len(found.positions) == 2
    read = sum(split.end - split.begin for split in splits if isinstance(split, LogSplit))
    assert read < 300  # behind the last record that the index knows
    assert [row["keys"] for row in rows_of(splits, wanted)] == ["key-7 all", "key-123 all"]


def test_without_an_index_keys_are_looked_for_in_the_log(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for part in ("commitlog", "consumequeue", "checkpoint"):
        (copy / part).symlink_to(path / part)
    wanted = replace(WANTED, keys=frozenset({"key-123"}))
    splits = plan(str(copy), wanted)
    assert all(isinstance(split, LogSplit) for split in splits)
    assert [row["keys"] for row in rows_of(splits, wanted)] == ["key-123 all"]


def test_a_log_alone_can_be_read(path: Path, tmp_path: Path) -> None:
    (tmp_path / "commitlog").symlink_to(path / "commitlog")
    splits = plan(StorePlace(str(tmp_path)), WANTED)
    assert len(rows_of(splits, WANTED)) == COUNT
