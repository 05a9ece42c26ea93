"""The queues of RocketMQ's own stores, read by ours: entries, bounds and answers of the time search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embermq.format.batch_entry import BatchEntry
from embermq.format.queue_entry import QueueEntry
from embermq.format.record import decode_record
from embermq.log.batch_queue import BatchQueue
from embermq.log.consume_queue import ConsumeQueue
from embermq.log.extended_queue import ExtendedQueue

STORES = (
    "basic", "batch", "batch-cq", "compaction", "cq-ext", "delay", "ipv6", "lmq", "ordered", "pooled", "pop",
    "prop-crc", "retry-dlq", "sync-flush", "timer", "transaction", "v2-topic",
)  # fmt: skip

# The file sizes that the stores were made with; see README.md there.
SIMPLE_SIZE, EXTENDED_SIZE, BATCH_SIZE = 2000, 1024, 920


def time_reader(store: Path) -> Callable[[QueueEntry], int | None]:
    """Tells the store time of an entry's record from the log files themselves."""
    files = {int(path.name): path.read_bytes() for path in (store / "commitlog").iterdir()}
    size = len(next(iter(files.values())))

    def time_at(entry: QueueEntry) -> int | None:
        data = files.get(entry.position - entry.position % size)
        if data is None:
            return None
        return decode_record(data[entry.position % size :], entry.position).store_time

    return time_at


def queues_of(expected: dict[str, Any], kind: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for topic, queues in expected["consumeQueues"].items():
        for number, facts in queues.items():
            if facts["type"] == kind:
                yield topic, number, facts


def open_simple(store: Path, topic: str, number: str, *, read_only: bool = False) -> ConsumeQueue:
    folder = store / "consumequeue_ext" / topic / number
    extended = ExtendedQueue(folder, file_size=EXTENDED_SIZE, read_only=read_only)
    queue = ConsumeQueue(
        store / "consumequeue" / topic / number,
        topic,
        int(number),
        file_size=SIMPLE_SIZE,
        extended=extended if folder.exists() else None,
        read_only=read_only,
    )
    queue.load()
    return queue


def open_batch(store: Path, topic: str, number: str) -> BatchQueue:
    queue = BatchQueue(store / "batchconsumequeue" / topic / number, topic, int(number), file_size=BATCH_SIZE)
    queue.load()
    return queue


def test_every_store_that_was_opened_and_has_queue_files_is_read_here(golden: Any) -> None:
    opened = [name for name in golden.names if golden.expected(name)["mode"] == "open"]
    assert sorted({*STORES, "rocksdb-cq"}) == opened


@pytest.mark.parametrize("read_only", [False, True], ids=["owner", "reader"])
@pytest.mark.parametrize("name", STORES)
def test_entries_bounds_and_times_are_what_rocketmq_read(golden: Any, name: str, read_only: bool) -> None:
    store, expected = golden.store(name), golden.expected(name)
    time_at = time_reader(store)
    checked = 0
    for topic, number, facts in queues_of(expected, "SimpleCQ"):
        queue = open_simple(store, topic, number, read_only=read_only)
        queue.correct_min(0)
        assert (queue.min_offset, queue.max_offset) == (facts["minOffset"], facts["maxOffset"])
        assert queue.end_position == facts["maxPhysicOffset"]
        assert [list(entry) for entry in queue.read(0, queue.max_offset)] == facts["units"]
        for answer in facts.get("offsetByTime", ()):
            time_ms, place = answer["timestamp"], f"{topic}/{number}"
            assert queue.find_offset(time_ms, upper=False, time_at=time_at) == answer["lower"], place
            assert queue.find_offset(time_ms, upper=True, time_at=time_at) == answer["upper"], place
        checked += len(facts["units"])
        queue.close()
    assert checked or name == "batch-cq"


def test_extended_entries_are_what_rocketmq_read(golden: Any) -> None:
    store, expected = golden.store("cq-ext"), golden.expected("cq-ext")
    checked = 0
    for topic, number, facts in queues_of(expected, "SimpleCQ"):
        queue = open_simple(store, topic, number)
        for unit in facts["ext"]:
            entry = queue.read_extended(unit["queueOffset"])
            assert entry is not None
            bits = bytes.fromhex(unit["filterBitMap"] or "")
            assert entry == (unit["tagsCode"], unit["msgStoreTime"], bits)
            checked += 1
    assert checked == 120


def test_batch_entries_and_bounds_are_what_rocketmq_read(golden: Any) -> None:
    store, expected = golden.store("batch-cq"), golden.expected("batch-cq")
    for topic, number, facts in queues_of(expected, "BatchCQ"):
        queue = open_batch(store, topic, number)
        units = [BatchEntry(*unit) for unit in expected["batchConsumeQueueUnits"][topic][number]["units"]]
        assert queue.read(0, queue.max_offset) == units
        assert (queue.min_offset, queue.max_offset) == (facts["minOffset"], facts["maxOffset"])
        assert queue.end_position == units[-1].position + units[-1].size
        # RocketMQ tells where the last record of a batch queue begins, not where it ends.
        assert units[-1].position == facts["maxPhysicOffset"]


def test_a_time_in_a_batch_queue_is_found_where_rocketmq_finds_it_if_it_does(golden: Any) -> None:
    store, expected = golden.store("batch-cq"), golden.expected("batch-cq")
    unanswered = 0
    for topic, number, facts in queues_of(expected, "BatchCQ"):
        queue = open_batch(store, topic, number)
        for answer in facts["offsetByTime"]:
            lower = queue.find_offset(answer["timestamp"], upper=False)
            upper = queue.find_offset(answer["timestamp"], upper=True)
            assert lower == answer["lower"]
            if answer["upper"] == -1:
                # It misses entries at times; what it means to find then is the next later one.
                assert upper == lower
                unanswered += 1
            else:
                assert upper == answer["upper"]
    assert unanswered == 4


@pytest.mark.parametrize("name", ["crashed", "torn-cut", "torn-queues"])
def test_queues_that_a_crash_left_behind_end_with_their_last_whole_entry(golden: Any, name: str) -> None:
    store, expected = golden.store(name), golden.expected(name)
    for topic, queues in expected["consumeQueues"].items():
        for number, facts in queues.items():
            queue = open_simple(store, topic, number)
            assert [list(entry) for entry in queue.read(0, queue.max_offset)] == facts["units"]
