"""A consume queue: what is put is read back, whatever happens in between."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.errors import CorruptRecord, MissingFile, WrongFileSize
from embermq.format.queue_entry import ENTRY, PRE_BLANK, QUEUE_ENTRY_SIZE
from embermq.log.consume_queue import LARGEST_GAP, ConsumeQueue
from embermq.log.queue_kind import QueueKind
from tests.builders import a_placed
from tests.unit.log.queue_builders import (
    BLANK,
    PER_FILE,
    Opener,
    content,
    entries,
    file_starts,
    items,
    refuse_space,
)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(tmp_path / "queue")
    yield opener
    opener.close()


def test_a_queue_without_files_is_empty_and_begins_at_zero(make: Opener) -> None:
    queue = make()
    assert (queue.min_offset, queue.max_offset, queue.end_position) == (0, 0, 0)
    assert queue.read(0, 10) == queue.read(-1, 10) == []
    assert queue.last_entry() is None
    assert queue.kind is QueueKind.SIMPLE
    assert not queue.folder.exists()


@pytest.mark.parametrize("count", [1, PER_FILE - 1, PER_FILE, PER_FILE + 1, 3 * PER_FILE])
def test_what_was_put_is_read_before_and_after_a_reload(make: Opener, count: int) -> None:
    queue = make()
    queue.put(items(0, count))
    for each in (queue, make(), make(read_only=True)):
        assert each.read(0, count + 5) == entries(0, count)
        assert (each.min_offset, each.max_offset, each.end_position) == (0, count, 100 * count)
        assert each.last_entry() == entries(count - 1, count)[0]


def test_entries_have_rocketmqs_bytes(make: Opener) -> None:
    queue = make()
    queue.put([a_placed(0, 0, size=0xB1, tags_code=2598919)])
    assert content(queue.folder)[:20].hex() == "0000000000000000" + "000000b1" + "000000000027a807"
    assert content(queue.folder)[20:] == bytes(180)


def test_reading_crosses_files_and_stays_within_the_queue(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 25))
    assert queue.read(8, 4) == entries(8, 12)
    assert queue.read(24, 1) == queue.read(24, 9) == entries(24, 25)
    assert queue.read(25, 1) == queue.read(-1, 3) == queue.read(3, 0) == queue.read(3, -1) == []


def test_a_file_size_is_rounded_up_to_whole_entries(tmp_path: Path) -> None:
    queue = ConsumeQueue(tmp_path / "queue", "orders", 0, file_size=181)
    queue.put(items(0, 11))
    assert file_starts(queue.folder) == [0, 200]
    queue.close()


def test_an_item_that_is_there_already_is_skipped(make: Opener, caplog: pytest.LogCaptureFixture) -> None:
    queue = make()
    queue.put(items(0, 15))
    before = content(queue.folder)
    for again in (items(0, 15), items(14, 15), items(3, 12), items(2, 3) + items(7, 9)):
        queue.put(again)
    assert content(queue.folder) == before
    queue.put(items(12, 18))
    assert queue.read(0, 20) == entries(0, 18)
    assert not caplog.records


def test_where_the_log_says_otherwise_the_queue_is_cut_and_follows_the_log(
    make: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make()
    queue.put(items(0, 25))
    with caplog.at_level(logging.WARNING):
        queue.put(items(8, 12) + items(12, 14, tags_code=99))
    assert queue.read(0, 30) == entries(0, 12) + entries(12, 14, tags_code=99)
    assert (queue.max_offset, queue.end_position) == (14, 1400)
    assert file_starts(queue.folder) == [0, 200]
    assert [record.getMessage().split()[-1] for record in caplog.records] == ["offset=12"]


def test_offsets_that_were_left_out_get_blank_entries(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 3))
    queue.put(items(14, 16) + items(18, 19))
    expected = entries(0, 3) + [BLANK] * 11 + entries(14, 16) + [BLANK] * 2 + entries(18, 19)
    for each in (queue, make()):
        assert each.read(0, 20) == expected
        assert (each.min_offset, each.max_offset, each.end_position) == (0, 19, 1900)


def test_a_gap_no_log_can_have_is_damage_and_changes_nothing(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 3))
    with pytest.raises(CorruptRecord) as caught:
        queue.put([a_placed(3, 300), a_placed(LARGEST_GAP + 5, 400)])
    assert caught.value.position == 400
    assert (queue.max_offset, queue.end_position) == (3, 300)
    assert make().read(0, 9) == entries(0, 3)


@pytest.mark.parametrize("first", [1, PER_FILE - 1, PER_FILE, PER_FILE + 1, 123_456])
def test_a_queue_may_begin_at_any_offset(make: Opener, first: int) -> None:
    queue = make()
    queue.put(items(first, first + 3))
    start = first - first % PER_FILE
    assert file_starts(queue.folder)[0] == start * QUEUE_ENTRY_SIZE
    assert content(queue.folder).startswith(PRE_BLANK * (first - start) + ENTRY.pack(100 * first, 100, 7))
    for each in (queue, make()):
        assert (each.min_offset, each.max_offset) == (first, first + 3)
        assert each.read(first, 5) == entries(first, first + 3)
        assert each.read(first - 1, 5) == []


def test_blank_entries_alone_keep_the_next_offset_and_no_position(make: Opener) -> None:
    queue = make()
    queue.put(items(105, 108))
    queue.cut(100 * 105)
    for each in (queue, make()):
        each.correct_min(1)
        assert (each.min_offset, each.max_offset, each.end_position) == (105, 105, 0)
        assert each.last_entry() is None
        assert each.read(105, 1) == []
    queue.put(items(105, 106))
    assert queue.read(105, 3) == entries(105, 106)


def test_an_item_in_the_place_of_a_blank_entry_is_written(make: Opener) -> None:
    queue = make()
    queue.put(items(5, 8))
    queue.put(items(3, 8))
    assert queue.min_offset == 3
    assert queue.read(3, 9) == entries(3, 8)


@pytest.mark.parametrize("kept", [0, 1, PER_FILE - 1, PER_FILE, PER_FILE + 1, 25])
def test_a_cut_forgets_exactly_what_begins_at_or_after_the_position(make: Opener, kept: int) -> None:
    for position in (100 * kept, 100 * kept - 99):
        queue = make()
        queue.put(items(0, 25))
        queue.cut(position)
        assert queue.read(0, 30) == entries(0, kept)
        assert (queue.max_offset, queue.end_position) == (kept, 100 * kept)
        assert file_starts(queue.folder) == list(range(0, kept * QUEUE_ENTRY_SIZE, 200))
        assert make().read(0, 30) == entries(0, kept)
        if kept:
            assert content(queue.folder)[kept * QUEUE_ENTRY_SIZE :].strip(b"\0") == b""
        queue.put(items(kept, 27))
        assert make().read(0, 30) == entries(0, 27)


def test_a_cut_behind_the_end_changes_nothing(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 5))
    queue.cut(500)
    queue.cut(499)
    assert queue.read(0, 9) == entries(0, 5)


def test_files_of_one_entry_can_be_cut(make: Opener) -> None:
    queue = make(per_file=1)
    queue.put(items(0, 4))
    queue.cut(200)
    assert make(per_file=1).read(0, 9) == entries(0, 2)


def test_a_queue_cut_to_nothing_begins_at_zero_again(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 25))
    queue.cut(0)
    assert (queue.min_offset, queue.max_offset, queue.end_position) == (0, 0, 0)
    queue.put(items(0, 2))
    assert queue.read(0, 9) == entries(0, 2)


def test_a_queue_whose_beginning_is_deleted_keeps_its_next_offset_when_the_rest_is_cut(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 25))
    queue.delete_before(100 * 12)
    queue.cut(100 * 10)
    for each in (queue, make()):
        assert (each.min_offset, each.max_offset, each.end_position) == (10, 10, 0)
    queue.put(items(10, 11))
    assert make().read(10, 9) == entries(10, 11)


def test_entries_whose_records_are_gone_lie_below_the_smallest_offset(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 35))
    for log_begin, smallest in ((0, 0), (1, 1), (100, 1), (2000, 20), (2001, 21), (0, 21), (3499, 35)):
        for _ in range(2):
            queue.correct_min(log_begin)
            assert (queue.min_offset, queue.max_offset) == (smallest, 35)
    assert queue.read(21, 3) == []
    queue.put(items(35, 36))
    assert (queue.min_offset, queue.max_offset) == (35, 36)


def test_the_smallest_offset_is_searched_in_all_files_and_over_blank_entries(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 3) + items(33, 36))
    queue.correct_min(201)
    assert queue.min_offset == 33


@pytest.mark.parametrize(("log_begin", "first"), [(900, 0), (901, 10), (1900, 10), (1901, 20), (9999, 20)])
def test_files_go_with_their_last_record_but_one_stays(make: Opener, log_begin: int, first: int) -> None:
    queue = make()
    queue.put(items(0, 25))
    assert queue.delete_before(log_begin) == first // PER_FILE
    assert file_starts(queue.folder)[0] == first * QUEUE_ENTRY_SIZE
    again = make()
    again.correct_min(log_begin)
    for each in (queue, again):
        assert each.min_offset == min(25, -(-log_begin // 100))
        assert each.max_offset == 25


def test_an_item_of_a_file_that_is_deleted_is_skipped(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 25))
    queue.delete_before(1500)
    queue.put(items(3, 27))
    assert queue.read(15, 20) == entries(15, 27)
    assert file_starts(queue.folder) == [200, 400]


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_full_disk_leaves_all_as_it_was(make: Opener, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    queue = make()
    queue.put(items(0, 10))
    with monkeypatch.context() as patch:
        refuse_space(patch, after=after)
        with pytest.raises(OSError, match="No space left"):
            queue.put(items(10, 18) + items(22, 55))
    for each in (queue, make()):
        assert each.read(0, 99) == entries(0, 10)
        assert (each.max_offset, each.end_position) == (10, 1000)
    assert file_starts(queue.folder) == [0]
    queue.put(items(10, 33))
    assert make().read(0, 99) == entries(0, 33)


@pytest.mark.parametrize("after", [0, 1])
def test_a_full_disk_leaves_no_new_queue(make: Opener, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    queue = make()
    with monkeypatch.context() as patch:
        refuse_space(patch, after=after)
        with pytest.raises(OSError, match="No space left"):
            queue.put(items(105, 133))
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    assert file_starts(queue.folder) == []
    queue.put(items(105, 107))
    assert queue.read(105, 9) == entries(105, 107)


def test_flushing_brings_all_to_the_disk(make: Opener) -> None:
    queue = make()
    assert not queue.is_dirty
    queue.put(items(0, 25))
    assert queue.is_dirty
    queue.flush(least_pages=1)  # less than a page of the last file
    assert queue.is_dirty
    queue.flush()
    assert not queue.is_dirty
    queue.put(items(0, 25))
    assert not queue.is_dirty
    queue.sync()
    queue.cut(1900)
    assert not queue.is_dirty


def test_a_destroyed_queue_leaves_nothing_and_can_be_used_again(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 25))
    queue.destroy()
    assert not queue.folder.exists()
    assert (queue.min_offset, queue.max_offset, queue.end_position) == (0, 0, 0)
    queue.put(items(0, 1))
    assert queue.read(0, 1) == entries(0, 1)


def test_files_that_are_not_as_they_should_be_are_refused(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 5))
    with pytest.raises(WrongFileSize):
        make(per_file=PER_FILE + 1)
    queue.put(items(5, 25))
    (queue.folder / f"{200:020d}").unlink()
    with pytest.raises(MissingFile):
        make()
