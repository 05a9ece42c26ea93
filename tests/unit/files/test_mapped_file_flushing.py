"""One mapped file: what is on disk, and cutting it."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from embermq.errors import FileSealed, SyncFailed
from tests.unit.files.mapped_files import NAME, SIZE, a_file, count_syncs, fail_syncs


def test_flushed_follows_written_when_the_sync_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = count_syncs(monkeypatch)
    file = a_file(tmp_path)
    file.append(b"1234")
    assert file.flushed == 0
    assert file.flush() == file.flushed == 4
    assert file.flush() == 4
    assert len(syncs) == 1  # nothing pending, nothing synced


@pytest.mark.parametrize(("flushed", "written", "least_pages", "moves"), [
    (0, 4095, 1, False),
    (0, 4096, 1, True),
    (4095, 4096, 1, True),  # counted in pages touched, not in bytes
    (1, 4 * 4096 - 1, 4, False),
    (1, 4 * 4096, 4, True),
    (0, 1, 0, True),
    (SIZE - 1, SIZE, 9, True),  # a full file waits for nothing
    (SIZE - 2, SIZE - 1, 9, False),
])  # fmt: skip
def test_a_flush_waits_for_enough_pages_unless_the_file_is_full(
    tmp_path: Path, flushed: int, written: int, least_pages: int, moves: bool
) -> None:
    file = a_file(tmp_path)
    file.append(bytes(flushed))
    file.flush()
    file.append(bytes(written - flushed))
    assert file.flush(least_pages) == (written if moves else flushed)


def test_what_is_appended_during_a_sync_is_not_called_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        file.append(b"56")
        file.write_at(0, b"!")
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync)
    assert file.flush() == 4
    assert (file.written, file.is_dirty) == (6, True)


def test_a_failed_sync_moves_nothing_and_seals_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_file(tmp_path)
    file.append(b"12")
    file.flush()
    file.append(b"34")
    fail_syncs(monkeypatch)
    with pytest.raises(SyncFailed) as caught:
        file.flush()
    assert caught.value.cause.errno == errno.EIO
    assert (file.flushed, file.written, file.sealed) == (2, 4, True)


def test_a_sealed_file_can_be_read_but_is_never_synced_or_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    fail_syncs(monkeypatch)
    with pytest.raises(SyncFailed):
        file.flush()
    monkeypatch.undo()
    syncs = count_syncs(monkeypatch)
    for act in (file.flush, file.sync, lambda: file.append(b"5"), lambda: file.write_at(0, b"5"), file.fill):
        with pytest.raises(FileSealed):
            act()
    assert (syncs, file.flushed, file.written) == ([], 0, 4)
    assert file.read(0, 4) == b"1234"


def test_a_sync_that_failed_for_an_overwrite_does_not_pass_the_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = a_file(tmp_path)
    file.write_at(0, b"header")
    fail_syncs(monkeypatch)
    with pytest.raises(SyncFailed):
        file.flush()
    with pytest.raises(FileSealed):
        file.flush()


def test_of_two_flushes_at_once_none_succeeds_when_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel tells of a failed write once; a second sync would be told that all is well."""
    file = a_file(tmp_path)
    file.append(b"1234")
    first, second, answer = threading.Event(), threading.Event(), threading.Event()

    def sync(descriptor: int) -> None:
        if first.is_set():
            second.set()
            return
        first.set()
        assert answer.wait(10)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", sync)
    errors: list[Exception] = []

    def flush() -> None:
        try:
            file.flush()
        except (SyncFailed, FileSealed) as error:
            errors.append(error)

    threads = [threading.Thread(target=flush) for _ in range(2)]
    threads[0].start()
    assert first.wait(10)
    threads[1].start()
    assert not second.wait(0.1)
    answer.set()
    for thread in threads:
        thread.join(10)
    assert (len(errors), second.is_set(), file.flushed) == (2, False, 0)


def test_a_file_that_is_going_away_is_not_called_flushed(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"1234")
    with file.hold():
        assert not file.destroy()
        assert file.flush() == 0


def test_truncating_lowers_every_position_and_zeroes_the_rest_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = count_syncs(monkeypatch)
    file = a_file(tmp_path)
    file.append(b"x" * 50_000)
    file.flush()
    file.truncate(10)
    assert (file.written, file.committed, file.flushed) == (10, 10, 10)
    assert (tmp_path / NAME).read_bytes() == b"x" * 10 + bytes(SIZE - 10)
    assert len(syncs) == 2  # the zeros are on disk before anything new is written after them


def test_truncating_at_the_end_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs = count_syncs(monkeypatch)
    file = a_file(tmp_path)
    file.append(b"1234")
    file.truncate(4)
    file.truncate(5)
    assert (file.written, file.flushed, syncs) == (4, 0, [])


def test_truncating_clears_bytes_beyond_an_end_that_recovery_set(tmp_path: Path) -> None:
    content = b"whole" + b"torn".rjust(5000, b"\0")
    (tmp_path / NAME).write_bytes(content.ljust(SIZE, b"\0"))
    file = a_file(tmp_path, written=SIZE)
    file.set_end(5)
    assert (tmp_path / NAME).read_bytes().rstrip(b"\0") == content
    file.truncate(5)
    assert (tmp_path / NAME).read_bytes().rstrip(b"\0") == b"whole"


def test_truncating_clears_what_was_there_before_the_file_was_opened(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"wholetorn".ljust(SIZE, b"\0"))
    a_file(tmp_path, written=5).truncate(5)
    assert (tmp_path / NAME).read_bytes().rstrip(b"\0") == b"whole"


def test_truncating_clears_appends_that_a_set_end_took_back(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"wholetorn")
    file.set_end(5)
    file.truncate(5)
    assert (tmp_path / NAME).read_bytes().rstrip(b"\0") == b"whole"


def test_truncating_a_sparse_file_takes_no_space(tmp_path: Path) -> None:
    with (tmp_path / NAME).open("wb") as sparse:
        sparse.write(b"1234")
        sparse.truncate(8 << 20)
    file = a_file(tmp_path, size=8 << 20, written=8 << 20)
    file.truncate(2)
    assert (tmp_path / NAME).stat().st_blocks * 512 < 1 << 20
    assert (tmp_path / NAME).read_bytes() == b"12".ljust(8 << 20, b"\0")


def test_appends_go_on_after_a_cut(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    file.append(b"123456")
    file.truncate(2)
    assert file.append(b"ab") == SIZE * 3 + 2
    assert (tmp_path / NAME).read_bytes().rstrip(b"\0") == b"12ab"
