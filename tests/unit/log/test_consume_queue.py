"""A consume queue: what is put is read back, whatever happens in between."""

from __future__ import annotations

import errno
import logging
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from embermq.errors import CorruptRecord, MissingFile, WrongFileSize
from embermq.format.queue_entry import ENTRY, PRE_BLANK, QUEUE_ENTRY_SIZE, QueueEntry
from embermq.log.consume_queue import LARGEST_GAP, ConsumeQueue
from embermq.log.placed import Placed
from embermq.log.queue_kind import QueueKind
from tests.builders import a_placed

PER_FILE = 10
BLANK = QueueEntry(*ENTRY.unpack(PRE_BLANK))

Make = Callable[..., ConsumeQueue]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[ConsumeQueue] = []

    def load(*, per_file: int = PER_FILE, **options: Any) -> ConsumeQueue:
        queue = ConsumeQueue(tmp_path / "queue", "orders", 3, file_size=per_file * QUEUE_ENTRY_SIZE, **options)
        made.append(queue)
        queue.load()
        return queue

    yield load
    for queue in made:
        queue.close()


def items(begin: int, end: int, *, tags_code: int = 7) -> list[Placed]:
    """Records of 100 bytes, of which the one with offset n lies at position 100 n."""
    return [a_placed(offset, 100 * offset, tags_code=tags_code) for offset in range(begin, end)]


def entries(begin: int, end: int, *, tags_code: int = 7) -> list[QueueEntry]:
    return [QueueEntry(100 * offset, 100, tags_code) for offset in range(begin, end)]


def file_names(queue: ConsumeQueue) -> list[int]:
    return sorted(int(path.name) for path in queue.folder.iterdir()) if queue.folder.exists() else []


def content(queue: ConsumeQueue) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(queue.folder.iterdir()))


def refuse_space(monkeypatch: pytest.MonkeyPatch, *, after: int = 0) -> None:
    """Let the disk be full after that many more reservations."""
    left = iter(range(after))
    real = os.posix_fallocate

    def reserve(descriptor: int, offset: int, size: int) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor, offset, size)

    monkeypatch.setattr(os, "posix_fallocate", reserve)


def test_a_queue_without_files_is_empty_and_begins_at_zero(make: Make) -> None:
    queue = make()
    assert (queue.min_offset, queue.max_offset, queue.end_position) == (0, 0, 0)
    assert queue.read(0, 10) == queue.read(-1, 10) == []
    assert queue.last_entry() is None
    assert queue.kind is QueueKind.SIMPLE
    assert not queue.folder.exists()


@pytest.mark.parametrize("count", [1, PER_FILE - 1, PER_FILE, PER_FILE + 1, 3 * PER_FILE])
def test_what_was_put_is_read_before_and_after_a_reload(make: Make, count: int) -> None:
    queue = make()
    queue.put(items(0, count))
    for each in (queue, make(), make(read_only=True)):
        assert each.read(0, count + 5) == entries(0, count)
        assert (each.min_offset, each.max_offset, each.end_position) == (0, count, 100 * count)
        assert each.last_entry() == entries(count - 1, count)[0]


def test_entries_have_rocketmqs_bytes(make: Make) -> None:
    queue = make()
    queue.put([a_placed(0, 0, size=0xB1, tags_code=2598919)])
    assert content(queue)[:20].hex() == "0000000000000000" + "000000b1" + "000000000027a807"
    assert content(queue)[20:] == bytes(180)


def test_reading_crosses_files_and_stays_within_the_queue(make: Make) -> None:
    queue = make()
    queue.put(items(0, 25))
    assert queue.read(8, 4) == entries(8, 12)
    assert queue.read(24, 1) == queue.read(24, 9) == entries(24, 25)
    assert queue.read(25, 1) == queue.read(-1, 3) == queue.read(3, 0) == queue.read(3, -1) == []


def test_a_file_size_is_rounded_up_to_whole_entries(tmp_path: Path) -> None:
    queue = ConsumeQueue(tmp_path / "queue", "orders", 0, file_size=181)
    queue.put(items(0, 11))
    assert file_names(queue) == [0, 200]
    queue.close()


def test_an_item_that_is_there_already_is_skipped(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    queue = make()
    queue.put(items(0, 15))
    before = content(queue)
    for again in (items(0, 15), items(14, 15), items(3, 12), items(2, 3) + items(7, 9)):
        queue.put(again)
    assert content(queue) == before
    queue.put(items(12, 18))
    assert queue.read(0, 20) == entries(0, 18)
    assert not caplog.records


def test_where_the_log_says_otherwise_the_queue_is_cut_and_follows_the_log(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make()
    queue.put(items(0, 25))
    with caplog.at_level(logging.WARNING):
        queue.put(items(8, 12) + items(12, 14, tags_code=99))
    assert queue.read(0, 30) == entries(0, 12) + entries(12, 14, tags_code=99)
    assert (queue.max_offset, queue.end_position) == (14, 1400)
    assert file_names(queue) == [0, 200]
    assert [record.getMessage().split()[-1] for record in caplog.records] == ["offset=12"]


def test_offsets_that_were_left_out_get_blank_entries(make: Make) -> None:
    queue = make()
    queue.put(items(0, 3))
    queue.put(items(14, 16) + items(18, 19))
    expected = entries(0, 3) + [BLANK] * 11 + entries(14, 16) + [BLANK] * 2 + entries(18, 19)
    for each in (queue, make()):
        assert each.read(0, 20) == expected
        assert (each.min_offset, each.max_offset, each.end_position) == (0, 19, 1900)


def test_a_gap_no_log_can_have_is_damage_and_changes_nothing(make: Make) -> None:
    queue = make()
    queue.put(items(0, 3))
    with pytest.raises(CorruptRecord) as caught:
        queue.put([a_placed(3, 300), a_placed(LARGEST_GAP + 5, 400)])
    assert caught.value.position == 400
    assert (queue.max_offset, queue.end_position) == (3, 300)
    assert make().read(0, 9) == entries(0, 3)


@pytest.mark.parametrize("first", [1, PER_FILE - 1, PER_FILE, PER_FILE + 1, 123_456])
def test_a_queue_may_begin_at_any_offset(make: Make, first: int) -> None:
    queue = make()
    queue.put(items(first, first + 3))
    start = first - first % PER_FILE
    assert file_names(queue)[0] == start * QUEUE_ENTRY_SIZE
    assert content(queue).startswith(PRE_BLANK * (first - start) + ENTRY.pack(100 * first, 100, 7))
    for each in (queue, make()):
        assert (each.min_offset, each.max_offset) == (first, first + 3)
        assert each.read(first, 5) == entries(first, first + 3)
        assert each.read(first - 1, 5) == []


def test_blank_entries_alone_keep_the_next_offset_and_no_position(make: Make) -> None:
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


def test_an_item_in_the_place_of_a_blank_entry_is_written(make: Make) -> None:
    queue = make()
    queue.put(items(5, 8))
    queue.put(items(3, 8))
    assert queue.min_offset == 3
    assert queue.read(3, 9) == entries(3, 8)


@pytest.mark.parametrize("kept", [0, 1, PER_FILE - 1, PER_FILE, PER_FILE + 1, 25])
def test_a_cut_forgets_exactly_what_begins_at_or_after_the_position(make: Make, kept: int) -> None:
    for position in (100 * kept, 100 * kept - 99):
        queue = make()
        queue.put(items(0, 25))
        queue.cut(position)
        assert queue.read(0, 30) == entries(0, kept)
        assert (queue.max_offset, queue.end_position) == (kept, 100 * kept)
        assert file_names(queue) == list(range(0, kept * QUEUE_ENTRY_SIZE, 200))
        assert make().read(0, 30) == entries(0, kept)
        if kept:
            assert content(queue)[kept * QUEUE_ENTRY_SIZE :].strip(b"\0") == b""
        queue.put(items(kept, 27))
        assert make().read(0, 30) == entries(0, 27)


def test_a_cut_behind_the_end_changes_nothing(make: Make) -> None:
    queue = make()
    queue.put(items(0, 5))
    queue.cut(500)
    queue.cut(499)
    assert queue.read(0, 9) == entries(0, 5)


def test_files_of_one_entry_can_be_cut(make: Make) -> None:
    queue = make(per_file=1)
    queue.put(items(0, 4))
    queue.cut(200)
    assert make(per_file=1).read(0, 9) == entries(0, 2)


def test_a_queue_cut_to_nothing_begins_at_zero_again(make: Make) -> None:
    queue = make()
    queue.put(items(0, 25))
    queue.cut(0)
    assert (queue.min_offset, queue.max_offset, queue.end_position) == (0, 0, 0)
    queue.put(items(0, 2))
    assert queue.read(0, 9) == entries(0, 2)


def test_a_queue_whose_beginning_is_deleted_keeps_its_next_offset_when_the_rest_is_cut(make: Make) -> None:
    queue = make()
    queue.put(items(0, 25))
    queue.delete_before(100 * 12)
    queue.cut(100 * 10)
    for each in (queue, make()):
        assert (each.min_offset, each.max_offset, each.end_position) == (10, 10, 0)
    queue.put(items(10, 11))
    assert make().read(10, 9) == entries(10, 11)


def test_entries_whose_records_are_gone_lie_below_the_smallest_offset(make: Make) -> None:
    queue = make()
    queue.put(items(0, 35))
    for log_begin, smallest in ((0, 0), (1, 1), (100, 1), (2000, 20), (2001, 21), (0, 21), (3499, 35), (9999, 35)):
        for _ in range(2):
            queue.correct_min(log_begin)
            assert (queue.min_offset, queue.max_offset) == (smallest, 35)
    assert queue.read(21, 3) == []
    queue.put(items(35, 36))
    assert (queue.min_offset, queue.max_offset) == (35, 36)


def test_the_smallest_offset_is_searched_in_all_files_and_over_blank_entries(make: Make) -> None:
    queue = make()
    queue.put(items(0, 3) + items(33, 36))
    queue.correct_min(201)
    assert queue.min_offset == 33


@pytest.mark.parametrize(("log_begin", "first_file"), [(900, 0), (901, 10), (1900, 10), (1901, 20), (9999, 20)])
def test_files_go_when_their_last_record_is_gone_but_never_the_last_file(
    make: Make, log_begin: int, first_file: int
) -> None:
    queue = make()
    queue.put(items(0, 25))
    assert queue.delete_before(log_begin) == first_file // PER_FILE
    assert file_names(queue)[0] == first_file * QUEUE_ENTRY_SIZE
    again = make()
    again.correct_min(log_begin)
    for each in (queue, again):
        assert each.min_offset == min(25, -(-log_begin // 100))
        assert each.max_offset == 25


def test_an_item_of_a_file_that_is_deleted_is_skipped(make: Make) -> None:
    queue = make()
    queue.put(items(0, 25))
    queue.delete_before(1500)
    queue.put(items(3, 27))
    assert queue.read(15, 20) == entries(15, 27)
    assert file_names(queue) == [200, 400]


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_full_disk_leaves_the_queue_as_it_was(make: Make, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    queue = make()
    queue.put(items(0, 10))
    with monkeypatch.context() as patch:
        refuse_space(patch, after=after)
        with pytest.raises(OSError, match="No space left"):
            queue.put(items(10, 18) + items(22, 55))
    for each in (queue, make()):
        assert each.read(0, 99) == entries(0, 10)
        assert (each.max_offset, each.end_position) == (10, 1000)
    assert file_names(queue) == [0]
    queue.put(items(10, 33))
    assert make().read(0, 99) == entries(0, 33)


@pytest.mark.parametrize("after", [0, 1])
def test_a_disk_that_is_full_at_once_leaves_no_queue(
    make: Make, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    queue = make()
    with monkeypatch.context() as patch:
        refuse_space(patch, after=after)
        with pytest.raises(OSError, match="No space left"):
            queue.put(items(105, 133))
    assert (queue.min_offset, queue.max_offset) == (0, 0)
    assert file_names(queue) == []
    queue.put(items(105, 107))
    assert queue.read(105, 9) == entries(105, 107)


def test_flushing_brings_all_to_the_disk(make: Make) -> None:
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


def test_a_destroyed_queue_leaves_nothing_and_can_be_used_again(make: Make) -> None:
    queue = make()
    queue.put(items(0, 25))
    queue.destroy()
    assert not queue.folder.exists()
    assert (queue.min_offset, queue.max_offset, queue.end_position) == (0, 0, 0)
    queue.put(items(0, 1))
    assert queue.read(0, 1) == entries(0, 1)


def damage(queue: ConsumeQueue, offset: int, data: bytes) -> None:
    """Change the files behind the queue's back."""
    path = queue.folder / f"{offset // PER_FILE * PER_FILE * QUEUE_ENTRY_SIZE:020d}"
    with path.open("r+b") as file:
        file.seek(offset % PER_FILE * QUEUE_ENTRY_SIZE)
        file.write(data)


@pytest.mark.parametrize("broken", [ENTRY.pack(300, 0, 0), ENTRY.pack(-1, 100, 0), ENTRY.pack(0, -5, 0)])
def test_reading_stops_at_an_entry_that_is_not_valid(make: Make, broken: bytes) -> None:
    queue = make()
    queue.put(items(0, 25))
    damage(queue, 12, broken)
    assert queue.read(8, 10) == entries(8, 12)
    assert queue.read(12, 1) == []
    assert queue.read(13, 2) == entries(13, 15)


@pytest.mark.parametrize("hole", [(0, 1), (3, 6), (9, 10), (10, 12), (19, 20), (22, 24), (9, 11), (0, 25)])
def test_what_a_crash_lost_is_written_again_when_the_log_is_read_again(make: Make, hole: tuple[int, int]) -> None:
    queue = make()
    queue.put(items(0, 25))
    for offset in range(*hole):
        damage(queue, offset, bytes(QUEUE_ENTRY_SIZE))
    again = make()
    again.put(items(0, 25))
    assert again.read(0, 30) == entries(0, 25)
    assert make().read(0, 30) == entries(0, 25)


def test_what_a_crash_left_behind_a_hole_never_comes_back(make: Make) -> None:
    per_file = 2000
    queue = make(per_file=per_file)
    queue.put(items(0, 1000))
    path = queue.folder / "00000000000000000000"
    with path.open("r+b") as file:
        file.seek(100 * QUEUE_ENTRY_SIZE)
        file.write(bytes(500 * QUEUE_ENTRY_SIZE))  # [100, 600) is lost, and so was the end of the log
    again = make(per_file=per_file)
    assert again.max_offset == 100
    again.put(items(100, 599))
    assert make(per_file=per_file).read(0, 1000) == entries(0, 599)
    again.put(items(599, 600))
    assert make(per_file=per_file).read(0, 1000) == entries(0, 600)


@pytest.mark.parametrize("torn", [ENTRY.pack(2500, 0, 0), ENTRY.pack(-(2**63), 0, 0), bytes(19) + b"\1"])
def test_a_torn_last_entry_is_no_entry(make: Make, torn: bytes) -> None:
    queue = make()
    queue.put(items(0, 25))
    damage(queue, 25, torn)
    assert make(read_only=True).read(0, 30) == entries(0, 25)
    again = make()
    assert (again.max_offset, again.end_position) == (25, 2500)
    assert content(again)[25 * QUEUE_ENTRY_SIZE :].strip(b"\0") == b""


def test_a_cut_finds_its_place_among_entries_that_are_not_valid(make: Make) -> None:
    for hole in range(1, 24):
        queue = make()
        queue.put(items(0, 25))
        damage(queue, hole, bytes(QUEUE_ENTRY_SIZE))
        queue.cut(1200)
        assert queue.max_offset == (hole if hole == 11 else 12)
        queue.destroy()


def test_a_file_of_zeros_at_the_end_holds_no_entry(make: Make) -> None:
    queue = make()
    queue.put(items(0, 10))
    (queue.folder / f"{200:020d}").write_bytes(bytes(200))
    again = make()
    again.cut(1000)
    assert (again.max_offset, again.end_position) == (10, 1000)
    again.put(items(10, 12))
    assert again.read(0, 20) == entries(0, 12)


def test_an_entry_behind_a_file_that_is_not_full_is_dropped(make: Make) -> None:
    queue = make()
    queue.put(items(0, 25))
    for offset in range(17, 20):
        damage(queue, offset, bytes(QUEUE_ENTRY_SIZE))
    assert make(read_only=True).max_offset == 17
    assert len(file_names(queue)) == 3
    assert make().read(0, 30) == entries(0, 17)
    assert len(file_names(queue)) == 2


def test_files_that_are_not_as_they_should_be_are_refused(make: Make) -> None:
    queue = make()
    queue.put(items(0, 5))
    with pytest.raises(WrongFileSize):
        make(per_file=PER_FILE + 1)
    queue.put(items(5, 25))
    (queue.folder / f"{200:020d}").unlink()
    with pytest.raises(MissingFile):
        make()


def times(known: Sequence[int | None]) -> Callable[[QueueEntry], int | None]:
    return lambda entry: known[entry.position // 100]


@pytest.mark.parametrize(
    ("known", "time", "lower", "upper"),
    [
        ([5, 5, 5, 9, 9], 4, 0, 0),
        ([5, 5, 5, 9, 9], 5, 0, 2),
        ([5, 5, 5, 9, 9], 7, 3, 2),
        ([5, 5, 5, 9, 9], 9, 3, 4),
        ([5, 5, 5, 9, 9], 10, 5, 4),
        ([None, None, 5, 9], 1, 2, 1),
        ([None, None, 5, 9], 5, 2, 2),
        ([None, None], 5, 2, 1),
        ([5], 5, 0, 0),
        ([], 5, 0, 0),
    ],
)
def test_a_time_is_found_with_both_bounds(
    make: Make, known: list[int | None], time: int, lower: int, upper: int
) -> None:
    queue = make(per_file=2)
    queue.put(items(0, len(known)))
    assert queue.find_offset(time, upper=False, time_at=times(known)) == lower
    assert queue.find_offset(time, upper=True, time_at=times(known)) == upper


def test_a_time_search_stays_within_the_offsets_there_are(make: Make) -> None:
    queue = make()
    queue.put(items(0, 25))
    queue.correct_min(1400)
    known = list(range(25))
    assert queue.find_offset(3, upper=False, time_at=times(known)) == 14
    assert queue.find_offset(3, upper=True, time_at=times(known)) == 14
    assert queue.find_offset(99, upper=False, time_at=times(known)) == 25
    assert queue.find_offset(99, upper=True, time_at=times(known)) == 24


def test_a_time_search_never_answers_with_a_blank_entry(make: Make) -> None:
    queue = make()
    queue.put(items(2, 5) + items(21, 24))
    known = [0] * 2 + [10, 11, 12] + [0] * 16 + [20, 21, 22]
    for time in range(9, 24):
        later = [offset for offset in (2, 3, 4, 21, 22, 23) if known[offset] >= time]
        earlier = [offset for offset in (2, 3, 4, 21, 22, 23) if known[offset] <= time]
        assert queue.find_offset(time, upper=False, time_at=times(known)) == min(later, default=24)
        assert queue.find_offset(time, upper=True, time_at=times(known)) == max(earlier, default=2)


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Lets threads take turns so often that their steps mix."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_readers_only_ever_see_whole_entries(make: Make) -> None:
    queue = make(per_file=500)
    problems: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set() and not problems:
            end = queue.max_offset
            begin = max(0, end - 50)
            seen = queue.read(begin, end - begin)
            if seen != entries(begin, end):
                problems.append(f"[{begin}, {end}): {seen}")

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for begin in range(0, 7_000, 7):
        queue.put(items(begin, begin + 7))
    done.set()
    for reader in readers:
        reader.join()
    assert problems == []


@pytest.mark.usefixtures("eager_threads")
def test_a_reader_meets_no_error_while_the_queue_is_cut_and_shortened(make: Make) -> None:
    queue = make()
    queue.put(items(0, 500))
    failures: list[BaseException] = []
    done = threading.Event()

    def read() -> None:
        try:
            while not done.is_set():
                for offset in (queue.min_offset, queue.max_offset - 15):
                    for number, entry in enumerate(queue.read(offset, 20)):
                        assert entry == entries(offset + number, offset + number + 1)[0]
        except BaseException as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for step in range(1, 40):
        queue.cut(100 * (500 - step))
        queue.put(items(500 - step, 500))
        queue.delete_before(500 * step)
    done.set()
    reader.join()
    assert failures == []


def test_a_reader_of_another_process_finds_what_was_added_when_it_loads_again(make: Make) -> None:
    owner, reader = make(), None
    owner.put(items(0, 9))
    reader = make(read_only=True)
    owner.put(items(9, 23))
    assert reader.max_offset == 9
    reader.load()
    assert reader.read(0, 30) == entries(0, 23)
    reader.correct_min(500)
    assert reader.min_offset == 5


def test_reading_a_store_changes_none_of_its_bytes(make: Make) -> None:
    queue = make()
    queue.put(items(0, 13))
    damage(queue, 15, struct.pack(">q", 77))
    before = content(queue)
    make(read_only=True).correct_min(800)
    assert content(queue) == before
