"""A batch queue: records of many messages, found by the offset of any of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import ForeignFile
from embermq.format.batch_entry import BATCH_ENTRY_SIZE, BatchEntry
from embermq.log.batch_queue import BatchQueue
from embermq.log.placed import Placed
from embermq.log.queue_kind import QueueKind
from tests.builders import a_placed
from tests.unit.log.queue_builders import file_starts, refuse_space

PER_FILE = 20

Make = Callable[..., BatchQueue]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[BatchQueue] = []

    def load(*, per_file: int = PER_FILE, **options: Any) -> BatchQueue:
        queue = BatchQueue(tmp_path / "queue", "orders", 0, file_size=per_file * BATCH_ENTRY_SIZE, **options)
        made.append(queue)
        queue.load()
        return queue

    yield load
    for queue in made:
        queue.close()


def items(begin: int, end: int) -> list[Placed]:
    """Record n, stored at time n, lies at position n and holds the ten messages from offset 10 n + 1 on."""
    return [
        a_placed(10 * number + 1, number, size=1, count=10, store_time=number, tags_code=5)
        for number in range(begin, end)
    ]


def entries(begin: int, end: int) -> list[BatchEntry]:
    return [BatchEntry(number, 1, 5, number, 10 * number + 1, 10, -1, 0) for number in range(begin, end)]


def test_a_queue_without_entries_has_no_smallest_offset(make: Make) -> None:
    queue = make()
    assert (queue.min_offset, queue.max_offset, queue.end_position) == (-1, 0, 0)
    assert queue.read(0, 9) == queue.read(-1, 9) == []
    assert queue.last_entry() is None
    assert queue.find_offset(5, upper=False) == queue.find_offset(5, upper=True) == 0
    assert queue.kind is QueueKind.BATCH


def test_entries_have_rocketmqs_bytes(make: Make) -> None:
    queue = make()
    queue.put([a_placed(80, 4096, size=300, tags_code=2598919, store_time=1700000002001, count=10)])
    data = (queue.folder / "00000000000000000000").read_bytes()
    assert data[:BATCH_ENTRY_SIZE].hex() == (
        "00000000000010000000012c000000000027a8070000018bcfe56fd10000000000000050000affffffff00000000"
    )
    assert data[BATCH_ENTRY_SIZE:].strip(b"\0") == b""


def test_every_offset_of_a_batch_finds_its_entry(make: Make) -> None:
    queue = make()
    queue.put(items(0, 100))
    for each in (queue, make(), make(read_only=True)):
        assert (each.min_offset, each.max_offset, each.end_position) == (1, 1001, 100)
        for offset in range(1, 1001):
            assert each.read(offset, 1) == entries((offset - 1) // 10, (offset - 1) // 10 + 1)
        assert each.read(0, 1) == each.read(1001, 1) == []
        assert each.read(1, 1000) == entries(0, 100)
        assert each.last_entry() == entries(99, 100)[0]
    assert file_starts(queue.folder) == [start * PER_FILE * BATCH_ENTRY_SIZE for start in range(5)]


def test_a_read_ends_with_the_entry_of_the_last_message_asked_for(make: Make) -> None:
    queue = make()
    queue.put(items(0, 50))
    assert queue.read(5, 6) == entries(0, 1)
    assert queue.read(5, 7) == entries(0, 2)
    assert queue.read(195, 20) == entries(19, 22)
    assert queue.read(495, 999) == entries(49, 50)


def test_an_offset_that_no_entry_holds_finds_the_next_one(make: Make) -> None:
    queue = make()
    queue.put([a_placed(0, 0, count=5), a_placed(9, 100, count=2)])
    assert [entry.base_offset for entry in queue.read(4, 5)] == [0]
    assert [entry.base_offset for entry in queue.read(5, 5)] == [9]
    assert queue.read(5, 4) == []


def test_an_item_that_is_there_already_is_skipped(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    queue = make()
    queue.put(items(0, 30))
    for again in (items(0, 30), items(29, 30), items(5, 7) + items(12, 13)):
        queue.put(again)
    queue.put(items(28, 33))
    assert queue.read(1, 999) == entries(0, 33)
    assert not caplog.records


@pytest.mark.parametrize(
    "other", [{"position": 9}, {"size": 2}, {"count": 9}, {"count": 11}, {"tags_code": 0}, {"store_time": 0}]
)
def test_where_the_log_says_otherwise_the_queue_is_cut_and_follows_the_log(
    make: Make, caplog: pytest.LogCaptureFixture, other: dict[str, Any]
) -> None:
    queue = make()
    queue.put(items(0, 30))
    changed = items(25, 26)[0]._replace(**other)
    with caplog.at_level(logging.WARNING):
        queue.put([*items(20, 25), changed])
    assert queue.read(1, 999)[:-1] == entries(0, 25)
    assert queue.max_offset == changed.offset + changed.count
    assert len(caplog.records) == 1


def test_a_record_that_was_left_out_takes_its_place(make: Make) -> None:
    queue = make()
    queue.put(items(0, 5) + items(6, 9))
    queue.put(items(5, 9))
    assert queue.read(1, 999) == entries(0, 9)


@pytest.mark.parametrize("kept", [0, 1, PER_FILE - 1, PER_FILE, PER_FILE + 1, 80, 100])
def test_a_cut_forgets_exactly_what_begins_at_or_after_the_position(make: Make, kept: int) -> None:
    queue = make()
    queue.put(items(0, 100))
    queue.cut(kept)
    for each in (queue, make()):
        assert each.read(1, 9999) == entries(0, kept)
        assert (each.min_offset, each.max_offset) == ((1, 10 * kept + 1) if kept else (-1, 0))
        assert each.end_position == kept
    assert len(file_starts(queue.folder)) == -(-kept // PER_FILE)
    queue.put(items(kept, 101))
    assert make().read(1, 9999) == entries(0, 101)


def test_cut_and_deleted_queues_keep_what_lies_between(make: Make) -> None:
    queue = make()
    queue.put(items(0, 100))
    queue.cut(80)
    assert (len(file_starts(queue.folder)), queue.max_offset) == (4, 801)
    assert queue.delete_before(30) == 1
    assert (len(file_starts(queue.folder)), queue.min_offset, queue.max_offset) == (3, 301, 801)
    again = make()
    assert again.min_offset == 201
    again.correct_min(30)
    assert (again.min_offset, again.max_offset) == (301, 801)
    assert again.read(300, 1) == []
    assert again.read(301, 999) == entries(30, 80)
    again.put(items(10, 82))
    assert again.read(301, 999) == entries(30, 82)


def test_when_all_records_are_gone_the_next_offset_stays(make: Make) -> None:
    queue = make()
    queue.put(items(0, 30))
    for _ in range(2):
        queue.delete_before(999)
        assert (queue.min_offset, queue.max_offset) == (301, 301)
        assert queue.read(301, 1) == []
    assert queue.find_offset(0, upper=False) == 301
    reader = make(read_only=True)
    reader.correct_min(999)
    assert (reader.min_offset, reader.max_offset) == (301, 301)
    queue.put(items(30, 31))
    assert (queue.min_offset, queue.max_offset) == (301, 311)
    assert queue.read(305, 1) == entries(30, 31)


def test_a_queue_may_begin_at_any_offset(make: Make) -> None:
    queue = make()
    queue.put(items(500, 503))
    assert file_starts(queue.folder) == [0]
    assert (make().min_offset, make().max_offset) == (5001, 5031)


@pytest.mark.parametrize("after", [0, 1])
def test_a_full_disk_leaves_all_as_it_was(make: Make, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    queue = make()
    queue.put(items(0, PER_FILE))
    with monkeypatch.context() as patch:
        refuse_space(patch, after=after)
        with pytest.raises(OSError, match="No space left"):
            queue.put(items(PER_FILE, 100))
    for each in (queue, make()):
        assert each.read(1, 9999) == entries(0, PER_FILE)
    assert file_starts(queue.folder) == [0]


def test_files_must_hold_whole_entries(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="entries of 46"):
        BatchQueue(tmp_path, "orders", 0, file_size=920 + 1)


def test_a_foreign_file_is_refused(make: Make) -> None:
    queue = make()
    queue.put(items(0, 1))
    (queue.folder / "notes").touch()
    with pytest.raises(ForeignFile):
        make()


def test_flush_sync_and_destroy(make: Make) -> None:
    queue = make()
    queue.put(items(0, 30))
    assert queue.is_dirty
    queue.flush()
    queue.sync()
    assert not queue.is_dirty
    queue.destroy()
    assert not queue.folder.exists()
    assert (queue.min_offset, queue.max_offset, queue.end_position) == (-1, 0, 0)


@pytest.mark.parametrize(("time", "base"), [(-100, 1), (0, 1), (1, 11), (57, 571), (99, 991), (100, 991)])
def test_a_time_finds_the_first_entry_from_then_on_or_the_last(make: Make, time: int, base: int) -> None:
    queue = make()
    queue.put(items(0, 100))
    assert queue.find_offset(time, upper=False) == queue.find_offset(time, upper=True) == base


@pytest.mark.parametrize(
    ("times", "time", "lower", "upper"),
    [
        ([1, 3, 3], 2, 1, 1),
        ([1, 3, 3], 3, 1, 2),
        ([1, 1, 2, 2, 2], 1, 0, 1),
        ([1, 1, 2, 2, 2], 2, 2, 4),
        ([4], 5, 0, 0),
    ],
)
def test_among_entries_of_the_same_time_the_upper_bound_is_the_last(
    make: Make, times: list[int], time: int, lower: int, upper: int
) -> None:
    queue = make()
    queue.put([a_placed(number, 10 * number, store_time=each) for number, each in enumerate(times)])
    assert queue.find_offset(time, upper=False) == lower
    assert queue.find_offset(time, upper=True) == upper


def test_a_time_search_needs_no_log_and_stays_within_the_offsets_there_are(make: Make) -> None:
    queue = make()
    queue.put(items(0, 100))
    queue.correct_min(42)
    assert queue.find_offset(3, upper=False, time_at=lambda _: None) == 421
    assert queue.find_offset(50, upper=True, time_at=lambda _: None) == 501


@given(counts=st.lists(st.integers(1, 30), min_size=1, max_size=20), data=st.data())
def test_lookups_agree_with_a_plain_search(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("batch") / "queue"
    queue = BatchQueue(folder, "orders", 0, file_size=7 * BATCH_ENTRY_SIZE)
    bases = [sum(counts[:number]) for number in range(len(counts))]
    queue.put(
        [a_placed(base, 100 * base, count=count) for base, count in zip(bases, counts, strict=True)],
    )
    begin = data.draw(st.integers(-2, sum(counts) + 2))
    count = data.draw(st.integers(0, 60))
    wanted = [
        base
        for base, size in zip(bases, counts, strict=True)
        if count and 0 <= begin < sum(counts) and base < begin + count and base + size > begin
    ]
    assert [entry.base_offset for entry in queue.read(begin, count)] == wanted
    queue.destroy()
