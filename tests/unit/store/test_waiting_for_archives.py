"""A store that is told to wait deletes nothing that is not archived."""

from __future__ import annotations

from pathlib import Path

from embermq import open_store
from embermq.store.archive_marks import ArchiveMark, find_archived, write_mark
from tests.builders import SMALL_SIZES, ManualClock, some_messages

FIRST, SECOND = "1" * 32, "2" * 32


def mark(store: Path, archive: str, position: int) -> None:
    write_mark(store, ArchiveMark(archive, position, "somewhere"))


def test_only_whole_files_before_every_mark_are_deleted(tmp_path: Path) -> None:
    clock, size = ManualClock(), SMALL_SIZES["log_file_size"]
    with open_store(tmp_path, clock=clock, wait_for_archive=True, delete_pause_ms=0, **SMALL_SIZES) as store:
        store.put_many(some_messages(3_000))
        clock.advance(hours=100)
        store.put_many(some_messages(10))
        assert store.log_files().begin == 0
        assert store.clean() == 0  # nothing is archived
        mark(tmp_path, FIRST, 3 * size)
        mark(tmp_path, SECOND, 2 * size - 1)
        assert store.clean() == 1
        assert store.log_files().begin == size
        mark(tmp_path, SECOND, 2 * size)
        assert store.clean() == 1
        store.change(wait_for_archive=False)
        assert store.clean() > 0


def test_more_than_max_bytes_waits_too(tmp_path: Path) -> None:
    size = SMALL_SIZES["log_file_size"]
    with open_store(tmp_path, wait_for_archive=True, max_bytes=2 * size, delete_pause_ms=0, **SMALL_SIZES) as store:
        store.put_many(some_messages(3_000))
        assert store.clean() == 0
        mark(tmp_path, FIRST, 2 * size)
        assert store.clean() == 2


def test_a_mark_that_cannot_be_read_keeps_everything(tmp_path: Path) -> None:
    assert find_archived(tmp_path) == 0
    mark(tmp_path, FIRST, 1_000)
    assert find_archived(tmp_path) == 1_000
    (tmp_path / "archived" / f"{SECOND}.json").write_text("{")
    assert find_archived(tmp_path) == 0
