from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from embermq.errors import FileSealed, OutOfRange, SyncFailed
from embermq.files.mapped_file import MappedFile
from embermq.files.write_buffer import WriteBufferPool

SIZE = 1 << 16
NAME = f"{0:020d}"


def a_buffered_file(folder: Path, pool: WriteBufferPool) -> MappedFile:
    return MappedFile.open(folder / NAME, SIZE, buffer=pool.borrow())


def test_a_pool_lends_as_many_buffers_as_it_has() -> None:
    pool = WriteBufferPool(2, SIZE)
    first, second = pool.borrow(), pool.borrow()
    assert first is not None and second is not None and first is not second
    assert (pool.free, pool.borrow(timeout=0)) == (0, None)
    first.give_back()
    assert (pool.free, pool.borrow()) == (1, first)


def test_a_borrower_gets_the_buffer_that_comes_back_while_it_waits() -> None:
    pool = WriteBufferPool(1, SIZE)
    buffer = pool.borrow()
    assert buffer is not None
    threading.Timer(0, buffer.give_back).start()
    assert pool.borrow(timeout=10) is buffer


def test_a_buffer_that_comes_back_is_empty() -> None:
    pool = WriteBufferPool(1, SIZE)
    buffer = pool.borrow()
    assert buffer is not None
    buffer.memory[:] = b"x" * SIZE
    buffer.give_back()
    again = pool.borrow()
    assert again is not None and again.memory[:] == bytes(SIZE)


def test_readers_see_only_what_is_committed(tmp_path: Path) -> None:
    file = a_buffered_file(tmp_path, WriteBufferPool(1, SIZE))
    assert file.append(b"1234") == 0
    assert (file.written, file.committed, file.readable) == (4, 0, 0)
    with pytest.raises(OutOfRange):
        file.read(0, 4)
    assert (tmp_path / NAME).read_bytes() == bytes(SIZE)

    assert file.commit() == 4
    file.append(b"56")
    assert (file.written, file.committed, file.readable) == (6, 4, 4)
    assert file.read(0, 4) == b"1234"
    assert (tmp_path / NAME).read_bytes() == b"1234".ljust(SIZE, b"\0")


def test_a_flush_covers_only_what_is_committed(tmp_path: Path) -> None:
    file = a_buffered_file(tmp_path, WriteBufferPool(1, SIZE))
    file.append(b"1234")
    assert file.flush() == 0
    file.commit()
    file.append(b"56")
    assert file.flush() == 4


@pytest.mark.parametrize(("written", "least_pages", "moves"), [
    (4095, 1, False), (4096, 1, True), (1, 0, True), (SIZE - 1, 99, False), (SIZE, 99, True),
])  # fmt: skip
def test_a_commit_waits_for_enough_pages_unless_the_file_is_full(
    tmp_path: Path, written: int, least_pages: int, moves: bool
) -> None:
    file = a_buffered_file(tmp_path, WriteBufferPool(1, SIZE))
    file.append(bytes(written))
    assert file.commit(least_pages) == (written if moves else 0)


def test_the_buffer_goes_back_when_the_file_is_full_and_committed(tmp_path: Path) -> None:
    pool = WriteBufferPool(1, SIZE)
    file = a_buffered_file(tmp_path, pool)
    file.append(b"x" * (SIZE - 1))
    file.commit()
    assert pool.free == 0
    file.append(b"y")
    assert pool.free == 0
    file.commit()
    assert (pool.free, file.readable) == (1, SIZE)
    assert file.read(SIZE - 2, 2) == b"xy"


def test_a_closed_file_gives_its_buffer_back(tmp_path: Path) -> None:
    pool = WriteBufferPool(1, SIZE)
    file = a_buffered_file(tmp_path, pool)
    file.append(b"1")
    file.close()
    assert pool.free == 1


def test_truncating_reaches_the_buffer_too(tmp_path: Path) -> None:
    file = a_buffered_file(tmp_path, WriteBufferPool(1, SIZE))
    file.append(b"123456")
    file.commit()
    file.append(b"789")
    file.truncate(7)
    assert (file.written, file.committed) == (7, 6)
    file.truncate(4)
    assert (file.written, file.committed) == (4, 4)
    file.fill()
    file.commit()
    assert (tmp_path / NAME).read_bytes() == b"1234".ljust(SIZE, b"\0")


def test_a_commit_in_pieces_arrives_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_buffered_file(tmp_path, WriteBufferPool(1, SIZE))
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: real(descriptor, data[:1000], at))
    content = os.urandom(10_500)
    file.append(content)
    assert file.commit() == len(content)
    assert file.read(0, len(content)) == content


def test_a_commit_that_fails_seals_the_file_and_moves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_buffered_file(tmp_path, WriteBufferPool(1, SIZE))
    file.append(b"1234")

    def fail(descriptor: int, data: memoryview, at: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(SyncFailed):
        file.commit()
    assert (file.committed, file.sealed) == (0, True)
    with pytest.raises(FileSealed):
        file.commit()
