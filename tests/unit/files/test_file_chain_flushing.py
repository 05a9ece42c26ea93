"""Files end to end: what is on disk, write buffers, and cutting."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from embermq.errors import FileSealed, SyncFailed
from embermq.files.file_chain import FileChain
from embermq.files.mapped_file import MappedFile
from embermq.files.paths import file_name
from embermq.files.write_buffer import WriteBufferPool
from tests.unit.files.file_chains import SIZE, a_chain, content, names, write


def test_a_flush_goes_through_every_file_that_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = a_chain(tmp_path, 3 * SIZE + 1)
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    assert chain.flushed == 0
    assert chain.flush() == chain.flushed == 3 * SIZE + 1
    assert len(synced) == 4
    write(chain, b"x")
    assert chain.flush() == 3 * SIZE + 2
    assert len(synced) == 5
    assert chain.flush() == 3 * SIZE + 2
    assert len(synced) == 5


def test_least_pages_hold_back_the_last_file_only(tmp_path: Path) -> None:
    chain = a_chain(tmp_path, 2 * SIZE + 4095)
    assert chain.flush(least_pages=1) == 2 * SIZE
    write(chain, b"x")
    assert chain.flush(least_pages=1) == 2 * SIZE + 4096


def test_a_failed_sync_holds_back_everything_after_it_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = a_chain(tmp_path, SIZE)
    chain.flush()
    write(chain, content(SIZE))
    real, fails = os.fdatasync, [True]

    def sync(descriptor: int) -> None:
        if fails.pop() if fails else False:
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", sync)
    with pytest.raises(SyncFailed):
        chain.flush()
    with pytest.raises(FileSealed):
        chain.flush()
    with pytest.raises(FileSealed):
        chain.append_file()  # no rolling past it either
    assert chain.flushed == SIZE


def test_a_new_file_is_made_durable_with_its_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    chain = a_chain(tmp_path / "topic" / "0", 1)
    assert synced == [str(tmp_path), str(tmp_path / "topic"), str(tmp_path / "topic" / "0")]
    write(chain, content(SIZE))
    chain.delete_before(SIZE)
    assert synced[3:] == [str(tmp_path / "topic" / "0")] * 2


def test_a_file_that_finds_no_space_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = a_chain(tmp_path, SIZE)

    def no_space(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_space)
    with pytest.raises(OSError, match="No space"):
        chain.append_file()
    assert (chain.end, names(tmp_path)) == (SIZE, [0])
    monkeypatch.undo()
    assert chain.append_file().start == SIZE


def test_files_made_ready_cannot_run_out_of_space_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = a_chain(tmp_path, 1)
    chain.ensure_next([1, 1])
    assert names(tmp_path) == [0, SIZE, 2 * SIZE]
    assert [file.start for file in chain.files] == [0]

    def no_space(descriptor: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", no_space)
    write(chain, content(3 * SIZE - 1))
    with pytest.raises(OSError, match="No space"):
        chain.ensure_next([1])
    assert (chain.end, names(tmp_path)) == (3 * SIZE, [0, SIZE, 2 * SIZE])


@pytest.mark.parametrize("act", [FileChain.close, lambda chain: chain.truncate(1)])
def test_files_made_ready_and_not_used_are_deleted(tmp_path: Path, act: Callable[[FileChain], None]) -> None:
    chain = a_chain(tmp_path, 1)
    chain.ensure_next([1, 1])
    act(chain)
    assert names(tmp_path) == [0]


def test_a_pooled_chain_shows_what_is_committed_and_reuses_its_buffers(tmp_path: Path) -> None:
    pool = WriteBufferPool(2, SIZE)
    chain, data = FileChain(tmp_path, SIZE, pool=pool), content(5 * SIZE + 10)
    write(chain, data)
    assert chain.end == 5 * SIZE + 10
    assert chain.readable_end <= 5 * SIZE
    assert chain.select(5 * SIZE, 10) is None
    assert chain.commit() == chain.readable_end == 5 * SIZE + 10
    assert chain.flush() == 5 * SIZE + 10
    assert b"".join(chain.select_rest(start) or b"" for start in range(0, len(data), SIZE)) == data
    assert pool.free == 1
    chain.close()
    assert pool.free == 2


def test_nothing_is_flushed_that_is_not_committed(tmp_path: Path) -> None:
    chain = FileChain(tmp_path, SIZE, pool=WriteBufferPool(4, SIZE))
    write(chain, content(2 * SIZE + 10))
    assert (chain.flush(), chain.flushed) == (0, 0)


def test_without_a_free_buffer_appends_go_straight_to_the_file_and_in_order(tmp_path: Path) -> None:
    pool = WriteBufferPool(1, SIZE)
    other = pool.borrow()
    chain = FileChain(tmp_path, SIZE, pool=pool)
    write(chain, b"direct")
    assert other is not None
    assert chain.readable_end == chain.end == 6
    other.give_back()
    write(chain, content(SIZE))
    assert (chain.readable_end, chain.end) == (SIZE, SIZE + 6)


def test_the_end_found_by_recovery_removes_later_files_and_changes_no_byte(tmp_path: Path) -> None:
    a_chain(tmp_path, SIZE + 10).close()
    for later in (2 * SIZE, 3 * SIZE):
        (tmp_path / file_name(later)).write_bytes(bytes(SIZE))
    before = (tmp_path / file_name(SIZE)).read_bytes()
    chain = a_chain(tmp_path)
    chain.set_end(SIZE + 5)
    assert (chain.end, names(tmp_path)) == (SIZE + 5, [0, SIZE])
    assert (tmp_path / file_name(SIZE)).read_bytes() == before


@pytest.mark.parametrize(("position", "files", "end"), [
    (2 * SIZE + 5, [0, SIZE, 2 * SIZE], 2 * SIZE + 5),
    (2 * SIZE, [0, SIZE, 2 * SIZE], 2 * SIZE),
    (2 * SIZE - 1, [0, SIZE], 2 * SIZE - 1),
    (0, [0], 0),
    (9 * SIZE, [0, SIZE, 2 * SIZE], 2 * SIZE + 10),
])  # fmt: skip
def test_a_cut_deletes_later_files_and_zeroes_the_rest(
    tmp_path: Path, position: int, files: list[int], end: int
) -> None:
    chain = a_chain(tmp_path, 2 * SIZE + 10)
    chain.truncate(position)
    assert (chain.end, names(tmp_path)) == (end, files)
    on_disk = b"".join((tmp_path / file_name(start)).read_bytes() for start in files)
    assert on_disk == content(2 * SIZE + 10)[:end].ljust(len(on_disk), b"\0")


def test_a_cut_before_the_beginning_leaves_an_empty_chain(tmp_path: Path) -> None:
    chain = a_chain(tmp_path, 3 * SIZE)
    chain.delete_before(2 * SIZE)
    chain.truncate(SIZE)
    assert (chain.files, names(tmp_path)) == ((), [])


def test_a_cut_takes_files_away_from_under_their_holders(tmp_path: Path) -> None:
    chain = a_chain(tmp_path, 2 * SIZE)
    with chain.files[1].hold() as held:
        view = held.select(0, 4)
        chain.truncate(10)
        assert names(tmp_path) == [0]
        assert view == content(2 * SIZE)[SIZE : SIZE + 4]


def test_files_are_cut_from_the_newest_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chain = a_chain(tmp_path, 4 * SIZE)
    left: list[list[int]] = []
    real = MappedFile.destroy

    def destroy(file: MappedFile, *, force: bool = False, now_ms: int | None = None) -> bool:
        gone = real(file, force=force, now_ms=now_ms)
        left.append(names(tmp_path))
        return gone

    monkeypatch.setattr(MappedFile, "destroy", destroy)
    chain.truncate(0)
    assert left == [[0, SIZE, 2 * SIZE], [0, SIZE], [0]]
