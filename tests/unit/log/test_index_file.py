"""One index file: its bytes, its chains, its limits."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embermq.errors import CorruptRecord, FileSealed, SyncFailed, WrongFileSize
from embermq.format.index_entry import ENTRY, HEADER, SLOT, IndexEntry, IndexHeader, entry_at, slot_at
from embermq.log.index_file import MAX_SECONDS, UNUSED, IndexFile, detect_shape
from embermq.log.index_keys import Row, hash_texts
from embermq.model.hashing import key_hash

TIME = 1_700_000_000_123
FOREVER = 2**63 - 1
NAME = "20231114221320123"

TINY = bytes.fromhex(
    "0000018bcfe5687b0000018bcfe5687b00000000000000000000000000000000"
    "0000000200000004 00000002 00000003 00000000 00000000"
    "0000000000000000000000000000000000000000"
    "15066144 0000000000000000 00000000 00000000"
    "0029e6a8 0000000000000000 00000000 00000001"
    "0029e6a9 0000000000000000 00000000 00000000"
    "0000000000000000000000000000000000000000"
)

Make = Callable[..., IndexFile]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[IndexFile] = []

    def create(slots: int = 4, entries: int = 5, after: IndexHeader = UNUSED) -> IndexFile:
        made.append(IndexFile.create(tmp_path / NAME, slots=slots, entries=entries, after=after))
        return made[-1]

    yield create
    for file in made:
        file.close()


def rows(*keys: str, position: int = 0, time: int = TIME) -> list[Row]:
    return [(key_hash("TopicTest", key), (position, time)) for key in keys]


def find(file: IndexFile, key: str, *, begin_ms: int = 0, end_ms: int = FOREVER) -> list[int]:
    return list(file.iter_positions(key_hash("TopicTest", key), begin_ms=begin_ms, end_ms=end_ms))


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_the_bytes_are_those_of_the_format(make: Make) -> None:
    file = make()
    unique = 0x15066144
    file.put([(unique, (0, TIME)), *rows("k1", "k2")])
    assert file.path.read_bytes() == TINY


def test_one_put_after_the_other_gives_the_same_bytes_as_all_at_once(make: Make) -> None:
    file = make()
    for row in [(0x15066144, (0, TIME)), *rows("k1", "k2")]:
        file.put([row])
    assert file.path.read_bytes() == TINY


def test_entry_zero_is_never_used_so_400_entries_hold_399_keys(make: Make) -> None:
    file = make(slots=100, entries=400)
    file.put([row for number in range(399) for row in rows(str(number), position=number)])
    assert (file.room, file.entry_count) == (0, 399)
    assert find(file, "60") == [60]


def test_a_new_file_is_sparse_but_its_slots_are_not(make: Make) -> None:
    slots, entries = 1 << 20, 64 << 20
    file = make(slots=slots, entries=entries)
    status = file.path.stat()
    assert status.st_size == 40 + 4 * slots + 20 * entries
    assert 4 * slots <= status.st_blocks * 512 < status.st_size / 10


def test_a_file_that_follows_another_says_where_that_one_ended(make: Make) -> None:
    file = make(after=IndexHeader(5, 77_000, 10, 90, 3, 5))
    assert file.header == IndexHeader(77_000, 77_000, 90, 90, 0, 1)
    assert HEADER.unpack_from(file.path.read_bytes())[5] == 0
    assert find(file, "k1") == []


def test_the_first_entry_counts_from_itself_and_not_from_the_file_before(make: Make) -> None:
    file = make(after=IndexHeader(5_000, 77_000, 10, 90, 3, 5))
    file.put(rows("k1", position=100, time=99_999))
    assert file.read_entry(1).seconds == 0
    assert (file.header.begin_time, file.header.begin_position) == (99_999, 100)


@pytest.mark.parametrize(
    ("later_ms", "seconds"),
    [(-5_000, 0), (-1, 0), (999, 0), (1_000, 1), (MAX_SECONDS * 1000, MAX_SECONDS), (2**42, MAX_SECONDS)],
)
def test_times_are_kept_in_whole_seconds_that_fit_their_field(make: Make, later_ms: int, seconds: int) -> None:
    file = make()
    file.put(rows("k1"))
    file.put(rows("k2", time=TIME + later_ms))
    assert file.read_entry(2).seconds == seconds


def test_newer_records_are_found_first(make: Make) -> None:
    file = make()
    for position in (10, 20, 30):
        file.put(rows("k1", position=position))
    assert find(file, "k1") == [30, 20, 10]


def test_records_of_another_key_in_the_same_chain_are_not_found(make: Make) -> None:
    file = make(slots=1)
    file.put(rows("k1", position=10) + rows("k2", position=20) + rows("k1", position=30))
    assert (find(file, "k1"), find(file, "k2"), find(file, "k3")) == ([30, 10], [20], [])
    assert file.header.used_slots == 1


def test_keys_with_equal_hashes_are_found_together(make: Make) -> None:
    file = make()
    file.put(rows("Aa", position=10) + rows("BB", position=20))
    assert find(file, "Aa") == find(file, "BB") == [20, 10]


@pytest.mark.parametrize(
    ("begin", "end", "found"),
    [
        (0, FOREVER, [30, 20, 10]),
        (TIME, TIME + 4_000, [30, 20, 10]),
        (TIME + 1, FOREVER, [30, 20]),
        (TIME + 2_000, TIME + 2_000, [20]),
        (TIME + 2_001, TIME + 3_999, []),
        (0, TIME - 1, []),
        (TIME + 4_001, FOREVER, []),
    ],
)
def test_only_records_of_the_time_asked_for_are_found(make: Make, begin: int, end: int, found: list[int]) -> None:
    file = make()
    for number in range(3):
        file.put(rows("k1", position=10 + 10 * number, time=TIME + 2_000 * number))
    assert find(file, "k1", begin_ms=begin, end_ms=end) == found


@pytest.mark.parametrize("previous", [3, 4, 5, 2**31 - 1, -1])
def test_a_chain_that_leads_forward_or_out_of_the_file_ends(make: Make, previous: int) -> None:
    file = make(slots=1)
    file.put(rows("k1", position=10) + rows("k1", position=20) + rows("k1", position=30))
    overwrite(file.path, entry_at(1, 3), ENTRY.pack(key_hash("TopicTest", "k1"), 30, 0, previous))
    assert find(file, "k1") == [30]


@pytest.mark.parametrize("number", [0, -1, 5, 2**31 - 1])
def test_a_slot_that_leads_nowhere_finds_nothing(make: Make, number: int) -> None:
    file = make(slots=1)
    file.put(rows("k1"))
    overwrite(file.path, slot_at(0), SLOT.pack(number))
    assert find(file, "k1") == []


def test_a_slot_that_leads_nowhere_starts_a_new_chain(make: Make) -> None:
    file = make(slots=1)
    file.put(rows("k1", position=10))
    overwrite(file.path, slot_at(0), SLOT.pack(2))
    file.put(rows("k1", position=20))
    assert file.read_entry(2) == IndexEntry(key_hash("TopicTest", "k1"), 20, 0, 0)


def test_a_reader_that_began_before_a_deletion_may_finish(make: Make) -> None:
    file = make()
    file.put(rows("k1", position=10) + rows("k1", position=20))
    positions = file.iter_positions(key_hash("TopicTest", "k1"), begin_ms=0, end_ms=FOREVER)
    assert next(positions) == 20
    file.mapped.destroy(force=True)
    assert list(positions) == [10]
    assert find(file, "k1") == []
    assert not file.path.exists()


def test_a_file_opened_for_reading_sees_what_another_user_puts(make: Make) -> None:
    file = make()
    reader = IndexFile.open(file.path, slots=4, entries=5, read_only=True)
    file.put(rows("k1", position=10))
    assert find(reader, "k1") == [10]
    reader.close()


def test_flushing_cleans_and_putting_makes_dirty(make: Make) -> None:
    file = make()
    assert not file.is_dirty
    file.put(rows("k1"))
    assert file.is_dirty
    file.flush()
    assert not file.is_dirty


def test_after_a_failed_sync_no_later_flush_succeeds(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make()
    file.put(rows("k1"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", failing(errno.EIO))
        with pytest.raises(SyncFailed):
            file.flush()
    with pytest.raises(FileSealed):
        file.flush()
    with pytest.raises(FileSealed):
        file.put(rows("k2"))


def test_without_disk_space_a_file_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "posix_fallocate", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        IndexFile.create(tmp_path / NAME, slots=4, entries=5)
    assert list(tmp_path.iterdir()) == []


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("size", [1, len(TINY) - 1, len(TINY) + 1])
def test_a_file_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / NAME).write_bytes(bytes(size))
    with pytest.raises(WrongFileSize):
        IndexFile.open(tmp_path / NAME, slots=4, entries=5)


@pytest.mark.parametrize(
    "header",
    [
        IndexHeader(next_entry=6),
        IndexHeader(begin_position=1),
        IndexHeader(begin_position=-1),
        IndexHeader(used_slots=-1),
    ],
)
def test_a_header_that_no_index_file_has_is_refused(tmp_path: Path, header: IndexHeader) -> None:
    (tmp_path / NAME).write_bytes(HEADER.pack(*header) + TINY[HEADER.size :])
    with pytest.raises(CorruptRecord, match=NAME):
        IndexFile.open(tmp_path / NAME, slots=4, entries=5)


@pytest.mark.parametrize("next_entry", [0, 1, 5])
def test_a_header_at_the_bounds_is_accepted(tmp_path: Path, next_entry: int) -> None:
    (tmp_path / NAME).write_bytes(HEADER.pack(0, 0, 0, 0, 0, next_entry) + TINY[HEADER.size :])
    file = IndexFile.open(tmp_path / NAME, slots=4, entries=5)
    assert file.header.next_entry == max(next_entry, 1)
    file.close()


@pytest.mark.parametrize(("slots", "entries"), [(1, 4), (50, 200), (7, 28)])
def test_the_usual_shape_is_detected_even_of_an_empty_file(make: Make, slots: int, entries: int) -> None:
    assert detect_shape(make(slots=slots, entries=entries).path) == (slots, entries)


@pytest.mark.parametrize(("slots", "entries"), [(4, 5), (1, 50), (100, 30), (50, 50), (54, 3), (1000, 2)])
@pytest.mark.parametrize("base", [0, 5_000_000_000])
def test_another_shape_is_detected_by_its_chains(make: Make, slots: int, entries: int, base: int) -> None:
    file = make(slots=slots, entries=entries)
    hashes = hash_texts([b"key-%d" % number for number in range(entries - 1)])
    file.put([(value, (base + 10 * number, TIME)) for number, value in enumerate(hashes)])
    assert detect_shape(file.path) == (slots, entries)


def test_a_torn_file_counts_as_of_the_usual_shape(make: Make) -> None:
    file = make(slots=50, entries=200)
    file.put(rows("k1", position=10) + rows("k2", position=20))
    overwrite(file.path, entry_at(50, 1), bytes(2 * ENTRY.size))
    assert detect_shape(file.path) == (50, 200)


@pytest.mark.parametrize("size", [0, 39, 40, 41, 100])
def test_a_file_of_no_shape_at_all_is_refused(tmp_path: Path, size: int) -> None:
    (tmp_path / NAME).write_bytes(bytes(size))
    with pytest.raises(CorruptRecord, match=NAME):
        detect_shape(tmp_path / NAME)
