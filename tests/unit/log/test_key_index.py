"""The key index over several files, compared with a plain dict."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord, ForeignFile, WrongFileSize
from embermq.format.index_entry import index_file_size
from embermq.log.index_keys import keys_of
from embermq.log.key_index import MAX_FOUND, KeyIndex
from embermq.log.placed import Placed
from embermq.model.properties import format_properties
from tests.builders import ManualClock, a_placed

TIME = 1_700_000_000_000
SLOTS, ENTRIES = 3, 8

Make = Callable[..., KeyIndex]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[KeyIndex] = []

    def load(*, slots: int = SLOTS, entries: int = ENTRIES, clock: ManualClock | None = None) -> KeyIndex:
        index = KeyIndex(tmp_path / "index", slots=slots, entries=entries, clock=clock or ManualClock(TIME))
        made.append(index)
        index.load()
        return index

    yield load
    for index in made:
        index.close()


def a_record(position: int, *keys: str, topic: str = "orders", time_ms: int = TIME) -> Placed:
    properties = format_properties({"TAGS": "a", **({"KEYS": " ".join(keys)} if keys else {})})
    return a_placed(position=position, topic=topic, store_time=time_ms, properties=properties)


def some_records(count: int, *, begin: int = 0) -> list[Placed]:
    return [a_record(100 * number, f"own-{number}", "shared", time_ms=TIME + number) for number in range(begin, count)]


def names(index: KeyIndex) -> list[str]:
    return sorted(path.name for path in index.folder.iterdir())


def test_an_index_of_nothing_finds_nothing_and_makes_no_folder(make: Make) -> None:
    index = make()
    assert index.find("orders", "a") == []
    assert (index.file_count, index.entry_count, index.end_position, index.is_dirty) == (0, 0, -1, False)
    index.put([a_record(0)])
    assert not index.folder.exists()


def test_a_record_is_found_by_each_of_its_keys_under_its_own_topic(make: Make) -> None:
    index = make()
    index.put([a_record(10, "a", "b"), a_record(20, "b", topic="other")])
    assert (index.find("orders", "a"), index.find("orders", "b")) == ([10], [10])
    assert index.find("other", "b") == [20]
    assert index.find("other", "a") == []


def test_keys_go_on_in_a_new_file_when_one_is_full_even_those_of_one_record(make: Make) -> None:
    index = make()
    index.put(some_records(10))
    assert (index.file_count, index.entry_count) == (3, 20)
    assert index.find("orders", "shared") == [900, 800, 700, 600, 500, 400, 300, 200, 100, 0]
    assert all(index.find("orders", f"own-{number}") == [100 * number] for number in range(10))


def test_a_record_with_more_keys_than_a_file_holds_fills_several(make: Make) -> None:
    index = make()
    keys = [f"key-{number}" for number in range(30)]
    index.put([a_record(0, "first"), a_record(100, *keys), a_record(200, "last")])
    assert index.file_count == 5
    assert all(index.find("orders", key) == [100] for key in keys)
    assert (index.find("orders", "first"), index.find("orders", "last")) == ([0], [200])


def test_a_record_at_or_before_the_newest_is_not_filed_again(make: Make) -> None:
    index = make()
    records = some_records(10)
    index.put(records[:5])
    assert index.end_position == 400
    index.put(records[3:6])
    index.put(records)
    assert index.entry_count == 20
    assert index.end_position == 900


def test_the_record_at_position_zero_is_filed_once(make: Make) -> None:
    index = make()
    index.put([a_record(0, "a")])
    index.put([a_record(0, "a")])
    assert index.find("orders", "a") == [0]
    assert index.end_position == 0


@pytest.mark.parametrize(("limit", "count"), [(-1, 0), (0, 0), (1, 1), (63, 63), (64, 64), (65, 64), (2**31 - 1, 64)])
def test_at_most_64_positions_are_found_at_once(make: Make, limit: int, count: int) -> None:
    index = make(entries=40)
    index.put(some_records(100))
    assert MAX_FOUND == 64
    assert index.find("orders", "shared", limit=limit) == [9900 - 100 * number for number in range(count)]


def test_whoever_wants_all_positions_iterates(make: Make) -> None:
    index = make(entries=40)
    index.put(some_records(100))
    assert list(index.iter_positions("orders", "shared")) == [100 * number for number in reversed(range(100))]


def test_a_time_is_looked_up_over_file_bounds(make: Make) -> None:
    index = make()
    index.put([a_record(100 * number, "a", time_ms=TIME + 1000 * number) for number in range(40)])
    assert index.file_count == 6
    found = index.find("orders", "a", begin_ms=TIME + 5_000, end_ms=TIME + 16_999)
    assert found == [100 * number for number in range(16, 4, -1)]


def test_files_are_named_after_the_local_time(make: Make) -> None:
    index = make(clock=ManualClock(1_700_000_000_123))
    index.put(some_records(1))
    assert names(index) == [time.strftime("%Y%m%d%H%M%S123", time.localtime(1_700_000_000))]


def test_names_ascend_even_within_a_millisecond_and_when_the_clock_goes_back(make: Make) -> None:
    clock = ManualClock(TIME)
    index = make(clock=clock)
    index.put(some_records(10))
    clock.advance(hours=-1)
    index.put(some_records(20, begin=10))
    numbers = [int(name) for name in names(index)]
    assert len(numbers) == 6
    assert numbers == list(range(numbers[0], numbers[0] + 6))


def test_what_was_put_is_there_after_loading_again(make: Make) -> None:
    records = some_records(10)
    index = make()
    index.put(records)
    index.close()
    again = make()
    assert (again.file_count, again.entry_count, again.end_position) == (3, 20, 900)
    assert not again.is_dirty
    again.put([*records, a_record(1000, "shared")])
    assert again.find("orders", "shared", limit=2) == [1000, 900]
    assert again.entry_count == 21


def test_flushing_covers_every_file(make: Make) -> None:
    index = make()
    index.put(some_records(10))
    assert index.is_dirty
    index.flush()
    assert not index.is_dirty


def test_without_disk_space_nothing_is_filed_and_the_next_try_files_all(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make()
    index.put(some_records(1))
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", fail_after(1))
        with pytest.raises(OSError, match="No space left"):
            index.put(some_records(12))
    assert (index.entry_count, index.end_position) == (2, 0)
    assert index.find("orders", "shared") == [0]
    index.put(some_records(12))
    assert index.find("orders", "shared") == [100 * number for number in reversed(range(12))]
    assert (index.file_count, index.entry_count) == (4, 24)


def fail_after(count: int) -> Callable[[int, int, int], None]:
    """A reservation that works so many times, then finds the disk full."""
    works, left = os.posix_fallocate, [None] * count

    def reserve(descriptor: int, offset: int, size: int) -> None:
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left.pop()
        works(descriptor, offset, size)

    return reserve


def test_an_empty_file_at_the_end_tells_where_the_index_ended(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    index = make()
    index.put([a_record(100 * number, "a") for number in range(7)])
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", fail_after(1))
        with suppress(OSError):
            index.put(some_records(20, begin=7))
    assert (index.file_count, index.entry_count) == (2, 7)
    (index.folder / names(index)[0]).unlink()
    again = make()
    assert (again.file_count, again.entry_count, again.end_position) == (1, 0, 600)


@pytest.mark.parametrize(
    ("log_begin", "deleted"), [(0, 0), (300, 0), (301, 1), (600, 1), (601, 2), (900, 2), (10**9, 2)]
)
def test_files_before_the_log_go_but_never_the_last(make: Make, log_begin: int, deleted: int) -> None:
    index = make()
    index.put(some_records(10))  # the files end with the records at 300, 600 and 900
    assert index.delete_before(log_begin) == deleted
    assert index.file_count == len(names(index)) == 3 - deleted
    assert index.find("orders", "own-9") == [900]


def test_a_read_only_index_changes_nothing_on_disk(make: Make) -> None:
    index = make()
    index.put(some_records(10))
    last = index.folder / "29991231235959999"
    last.touch()
    reader = KeyIndex(index.folder, slots=SLOTS, entries=ENTRIES, clock=ManualClock(), read_only=True)
    reader.load()
    assert reader.find("orders", "own-3") == [300]
    index.put(some_records(11))
    assert reader.find("orders", "own-10") == [1000]
    reader.close()
    assert last.exists()


def test_a_last_file_whose_making_was_cut_short_is_removed(make: Make) -> None:
    index = make()
    index.put(some_records(10))
    (index.folder / "29991231235959998").touch()
    (index.folder / "29991231235959999").touch()
    again = make()
    assert again.file_count == len(names(again)) == 3


@pytest.mark.parametrize("name", ["readme.txt", "123", "2023111422132012x", "202311142213201234"])
def test_a_file_of_another_name_is_refused(make: Make, name: str) -> None:
    index = make()
    index.put(some_records(1))
    (index.folder / name).write_bytes(b"")
    with pytest.raises(ForeignFile, match=name):
        make()


def test_a_folder_among_the_files_is_passed_over(make: Make) -> None:
    index = make()
    index.put(some_records(1))
    (index.folder / "lost+found").mkdir()
    assert make().file_count == 1


@pytest.mark.parametrize("size", [0, 1, index_file_size(SLOTS, ENTRIES) + 1])
def test_a_damaged_file_is_refused_and_can_be_destroyed_unloaded(make: Make, size: int) -> None:
    index = make()
    index.put(some_records(10))
    (index.folder / names(index)[1]).write_bytes(bytes(size))
    damaged = KeyIndex(index.folder, slots=SLOTS, entries=ENTRIES, clock=ManualClock())
    with pytest.raises(WrongFileSize if size else CorruptRecord):
        damaged.load()
    assert damaged.file_count == 0
    damaged.destroy()
    assert names(index) == []
    damaged.put(some_records(2))
    assert damaged.find("orders", "own-1") == [100]
    damaged.close()


def test_destroying_spares_what_is_no_index_file(make: Make) -> None:
    index = make()
    index.put(some_records(10))
    (index.folder / "readme.txt").write_bytes(b"")
    index.destroy()
    assert names(index) == ["readme.txt"]
    assert index.find("orders", "own-1") == []


def test_records_put_before_are_always_found_while_others_are_put_and_deleted(make: Make) -> None:
    index = make(slots=5, entries=64)
    index.put([a_record(number, f"own-{number}") for number in range(1_000, 1_040)])
    missing: list[str] = []
    stop = threading.Event()

    def look_up() -> None:
        while not stop.is_set():
            for number in range(1_030, 1_040):
                if index.find("orders", f"own-{number}") != [number]:
                    missing.append(f"own-{number}")

    reader = threading.Thread(target=look_up)
    reader.start()
    for number in range(2_000, 3_000, 10):
        index.put([a_record(at, f"own-{at}") for at in range(number, number + 10)])
        index.delete_before(1_000)
    stop.set()
    reader.join()
    assert missing == []


class Shape(NamedTuple):
    slots: int
    entries: int


SHAPES = st.builds(Shape, slots=st.integers(1, 9), entries=st.integers(2, 20))
KEYS = st.sampled_from(["a", "b", "c", "Aa", "BB", "键", "😀", "a-longer-key-than-the-others" * 3])


@given(
    shape=SHAPES,
    batches=st.lists(st.lists(st.lists(KEYS, max_size=5), max_size=8), max_size=8),
    reopen=st.sets(st.integers(0, 7)),
)
def test_an_index_of_any_shape_finds_what_a_dict_would(
    tmp_path_factory: pytest.TempPathFactory, shape: Shape, batches: list[list[list[str]]], reopen: set[int]
) -> None:
    index = KeyIndex(tmp_path_factory.mktemp("index"), **shape._asdict(), clock=ManualClock(TIME))
    model: defaultdict[str, list[int]] = defaultdict(list)
    position = count = 0
    for number, batch in enumerate(batches):
        records = [a_record(position + 100 * at, *keys) for at, keys in enumerate(batch)]
        position += 100 * len(batch)
        index.put(records)
        for record in records:
            for key in keys_of(record.properties):
                count += 1
                model["Aa" if key == "BB" else key].append(record.position)  # they have one hash
        if number in reopen:
            index.close()
            index.load()
        assert index.entry_count == count
        for key, positions in model.items():
            assert list(index.iter_positions("orders", key)) == positions[::-1]
    index.destroy()
