"""Zeros ahead of the appends: only where nothing is, and never over anything."""

from __future__ import annotations

import errno
import logging
import os
import random
import threading
from pathlib import Path

import pytest

from embermq.errors import FileSealed, SyncFailed
from embermq.files.firming import LARGE_PIECE, PIECE, Firming
from embermq.files.mapped_file import MappedFile
from embermq.files.staging import ChunkPool
from tests.unit.files.mapped_files import count_syncs

SIZE = 8 * PIECE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{0:020d}"


def a_firmed_file(
    path: Path, *, is_staged: bool = False, written: int = 0, reserve_step: int = 2 * PIECE
) -> MappedFile:
    chunks = ChunkPool() if is_staged else None
    return MappedFile.open(path, SIZE, written=written, chunks=chunks, is_firmed=True, reserve_step=reserve_step)


def data_end(path: Path) -> int:
    """Where the file system knows of no data any more."""
    with path.open("rb") as file:
        end = 0
        while end < SIZE:
            try:
                begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError as error:
                assert error.errno == errno.ENXIO
                return end
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
        return end


def can_tell_holes(path: Path) -> bool:
    file = MappedFile.open(path.with_name(f"{SIZE:020d}"), SIZE)
    file.reserve(SIZE)
    try:
        return data_end(file.path) == 0
    finally:
        file.destroy()


@pytest.mark.parametrize("is_staged", [False, True])
def test_warming_writes_zeros_where_only_space_was(path: Path, is_staged: bool) -> None:
    if not can_tell_holes(path):
        pytest.skip("this file system does not tell reserved space from data")
    file = a_firmed_file(path, is_staged=is_staged)
    file.append(b"x" * 100)
    file.warm(100, 3 * PIECE)
    assert data_end(path) == 3 * PIECE
    file.append(b"y" * 100)
    file.flush()
    assert path.read_bytes() == (b"x" * 100 + b"y" * 100).ljust(SIZE, b"\0")


def test_zeros_ahead_of_a_staged_file_are_synced_and_those_of_a_mapped_one_are_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = count_syncs(monkeypatch)
    a_firmed_file(path).warm(0, PIECE)
    assert not syncs
    a_firmed_file(path.with_name(f"{SIZE:020d}"), is_staged=True).warm(0, PIECE)
    assert len(syncs) == 1


@pytest.mark.parametrize("is_staged", [False, True])
def test_zeros_never_go_over_what_is_there(path: Path, is_staged: bool) -> None:
    content = random.Random(1).randbytes(SIZE)
    path.write_bytes(content)
    file = a_firmed_file(path, is_staged=is_staged, written=100)
    file.warm(0, SIZE)
    assert path.read_bytes() == content


@pytest.mark.parametrize("is_staged", [False, True])
@pytest.mark.parametrize("reserve_step", [0, 2 * PIECE])
def test_appends_and_zeros_at_the_same_time_leave_every_byte_of_the_appends(
    path: Path, is_staged: bool, reserve_step: int
) -> None:
    chance = random.Random(2)
    content = chance.randbytes(SIZE)
    file = a_firmed_file(path, is_staged=is_staged, reserve_step=reserve_step)
    is_over = threading.Event()

    def warm() -> None:
        while not is_over.is_set():
            file.warm(file.written, min(file.written + chance.randrange(1, 2 * PIECE), SIZE))

    warming = threading.Thread(target=warm)
    warming.start()
    while not file.is_full:
        file.append(content[file.written : file.written + chance.randrange(1, 100_000)])
        if chance.random() < 0.1:
            file.flush()
    is_over.set()
    warming.join()
    file.flush()
    assert file.read(0, SIZE) == content
    assert path.read_bytes() == content


def test_an_append_that_is_ahead_of_the_zeros_writes_no_more_of_them_than_it_needs(path: Path) -> None:
    file = a_firmed_file(path)
    file.append(b"x")
    assert data_end(path) <= PIECE
    file.append(b"y" * PIECE)
    assert path.read_bytes() == (b"x" + b"y" * PIECE).ljust(SIZE, b"\0")


@pytest.mark.parametrize(("appended", "piece"), [(1, PIECE), (LARGE_PIECE, PIECE), (2 * LARGE_PIECE, LARGE_PIECE)])
def test_zeros_come_in_large_pieces_where_much_is_appended_between_two_syncs(
    path: Path, monkeypatch: pytest.MonkeyPatch, appended: int, piece: int
) -> None:
    file = MappedFile.open(path, 16 * LARGE_PIECE, is_firmed=True)
    file.append(bytes(LARGE_PIECE))
    file.flush()
    file.append(bytes(appended))
    sizes: list[int] = []
    real = os.pwrite

    def write(descriptor: int, data: memoryview, at: int) -> int:
        sizes.append(len(data))
        return real(descriptor, data, at)

    monkeypatch.setattr(os, "pwrite", write)
    file.warm(file.written, file.written + 4 * LARGE_PIECE)
    assert max(sizes) == piece


def test_where_zeros_cannot_be_written_appends_go_on_and_it_is_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = a_firmed_file(path, reserve_step=0)

    def refuse(descriptor: int, data: object, at: int) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    with caplog.at_level(logging.WARNING):
        file.append(b"1234")
        file.warm(4, 2 * PIECE)
    assert "no zeros written ahead" in caplog.text and "No space left" in caplog.text
    assert file.read(0, 4) == b"1234"


def test_zeros_that_do_not_get_to_the_disk_seal_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_firmed_file(path, is_staged=True)
    file.append(b"1234")

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(SyncFailed):
        file.warm(0, PIECE)
    monkeypatch.undo()
    with pytest.raises(FileSealed, match="Input/output error"):
        file.flush()
    assert (file.sealed, file.flushed) == (True, 0)


def test_what_is_skipped_gets_no_zeros(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SIZE)
    firming = Firming(path)
    firming.skip(2 * PIECE + 5)
    assert not firming.advance(2 * PIECE, SIZE)
    assert firming.advance(3 * PIECE, SIZE)
    firming.close()
    with path.open("rb") as file:
        assert os.lseek(file.fileno(), 0, os.SEEK_DATA) >= 2 * PIECE


def test_a_limit_is_not_passed(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SIZE)
    firming = Firming(path)
    assert firming.advance(SIZE, PIECE + 4096)
    assert (firming.end, data_end(path)) == (PIECE + 4096, PIECE + 4096)
    firming.close()
