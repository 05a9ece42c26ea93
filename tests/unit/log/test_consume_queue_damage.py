"""A consume queue after a crash: lost pages, torn entries, and what never may come back."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.format.queue_entry import ENTRY, QUEUE_ENTRY_SIZE
from tests.unit.log.queue_builders import Opener, content, entries, file_starts, items


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Opener]:
    opener = Opener(tmp_path / "queue")
    yield opener
    opener.close()


@pytest.mark.parametrize("broken", [ENTRY.pack(300, 0, 0), ENTRY.pack(-1, 100, 0), ENTRY.pack(0, -5, 0)])
def test_reading_stops_at_an_entry_that_is_not_valid(make: Opener, broken: bytes) -> None:
    queue = make()
    queue.put(items(0, 25))
    make.damage(12, broken)
    assert queue.read(8, 10) == entries(8, 12)
    assert queue.read(12, 1) == []
    assert queue.read(13, 2) == entries(13, 15)


@pytest.mark.parametrize("hole", [(0, 1), (3, 6), (9, 10), (10, 12), (19, 20), (22, 24), (9, 11), (0, 25)])
def test_what_a_crash_lost_is_written_when_the_log_is_read_again(make: Opener, hole: tuple[int, int]) -> None:
    queue = make()
    queue.put(items(0, 25))
    for offset in range(*hole):
        make.damage(offset, bytes(QUEUE_ENTRY_SIZE))
    again = make()
    again.put(items(0, 25))
    assert again.read(0, 30) == entries(0, 25)
    assert make().read(0, 30) == entries(0, 25)


def test_what_a_crash_left_behind_a_hole_never_comes_back(make: Opener) -> None:
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
def test_a_torn_last_entry_is_no_entry(make: Opener, torn: bytes) -> None:
    queue = make()
    queue.put(items(0, 25))
    make.damage(25, torn)
    assert make(read_only=True).read(0, 30) == entries(0, 25)
    again = make()
    assert (again.max_offset, again.end_position) == (25, 2500)
    assert content(again.folder)[25 * QUEUE_ENTRY_SIZE :].strip(b"\0") == b""


def test_a_cut_finds_its_place_among_entries_that_are_not_valid(make: Opener) -> None:
    for hole in range(1, 24):
        queue = make()
        queue.put(items(0, 25))
        make.damage(hole, bytes(QUEUE_ENTRY_SIZE))
        queue.cut(1200)
        assert queue.max_offset == (hole if hole == 11 else 12)
        queue.destroy()


def test_a_file_of_zeros_at_the_end_holds_no_entry(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 10))
    (queue.folder / f"{200:020d}").write_bytes(bytes(200))
    again = make()
    again.cut(1000)
    assert (again.max_offset, again.end_position) == (10, 1000)
    again.put(items(10, 12))
    assert again.read(0, 20) == entries(0, 12)


def test_an_entry_behind_a_file_that_is_not_full_is_dropped(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 25))
    for offset in range(17, 20):
        make.damage(offset, bytes(QUEUE_ENTRY_SIZE))
    assert make(read_only=True).max_offset == 17
    assert len(file_starts(queue.folder)) == 3
    assert make().read(0, 30) == entries(0, 17)
    assert len(file_starts(queue.folder)) == 2


def test_reading_a_store_changes_none_of_its_bytes(make: Opener) -> None:
    queue = make()
    queue.put(items(0, 13))
    make.damage(15, struct.pack(">q", 77))
    before = content(queue.folder)
    make(read_only=True).correct_min(800)
    assert content(queue.folder) == before
