"""Appends that wait in memory for the sync that writes them."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from embermq.errors import FileSealed, OutOfRange, SyncFailed
from embermq.files import staging, writing
from embermq.files.mapped_file import MappedFile
from embermq.files.staging import CHUNK_SIZE, ChunkPool
from tests.unit.files.mapped_files import count_syncs

SIZE = 1 << 22
NAME = f"{0:020d}"


def a_staged_file(folder: Path, *, written: int = 0, size: int = SIZE) -> MappedFile:
    return MappedFile.open(folder / NAME, size, written=written, chunks=ChunkPool())


class Writes:
    """Stands in for pwritev: says what was called for, and can write less or fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[int, int, int]] = []  # position, bytes, flags
        self.most = 1 << 30
        self.errors: dict[int, OSError] = {}  # by the number of the call
        self._real = os.pwritev
        monkeypatch.setattr(os, "pwritev", self._write)

    def _write(self, descriptor: int, pieces: Sequence[memoryview], at: int, flags: int = 0) -> int:
        data = b"".join(pieces)
        self.calls.append((at, len(data), flags))
        error = self.errors.get(len(self.calls))
        if error is not None:
            raise error
        return self._real(descriptor, [data[: self.most]], at, flags)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Writes:
    return Writes(monkeypatch)


def test_nothing_is_in_the_file_before_a_flush_and_all_is_on_disk_after_it(tmp_path: Path) -> None:
    file = a_staged_file(tmp_path)
    assert file.append(b"12345678") == 0
    assert (file.written, file.committed, file.flushed, file.is_dirty) == (8, 0, 0, True)
    with pytest.raises(OutOfRange):
        file.read(0, 4)
    assert (tmp_path / NAME).read_bytes() == bytes(SIZE)
    assert file.commit() == 0
    assert file.flush() == 8
    assert (file.committed, file.flushed, file.is_dirty) == (8, 8, False)
    assert file.read(0, 8) == b"12345678"
    assert (tmp_path / NAME).read_bytes() == b"12345678".ljust(SIZE, b"\0")


def test_the_head_comes_last_and_the_disk_is_waited_for_once(tmp_path: Path, writes: Writes) -> None:
    file = a_staged_file(tmp_path)
    file.append(b"a" * 100)
    file.append(b"b" * 100)
    file.flush()
    assert writes.calls == [(8, 192, 0), (0, 200, os.RWF_DSYNC)]


def test_what_fits_into_the_head_is_written_once(tmp_path: Path, writes: Writes) -> None:
    file = a_staged_file(tmp_path)
    file.append(b"12345678")
    file.flush()
    assert writes.calls == [(0, 8, os.RWF_DSYNC)]


def test_a_system_without_such_writes_gets_a_sync_behind_them(
    tmp_path: Path, writes: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs = count_syncs(monkeypatch)
    file = a_staged_file(tmp_path)
    file.append(b"a" * 100)
    writes.errors[2] = OSError(errno.EOPNOTSUPP, "Operation not supported")
    assert file.flush() == 100
    assert (len(syncs), file.read(0, 100)) == (1, b"a" * 100)
    monkeypatch.setattr(writing, "_DSYNC", None)
    file.append(b"b" * 100)
    assert file.flush() == 200
    assert (len(syncs), [flags for *_, flags in writes.calls[-2:]]) == (2, [0, 0])


@pytest.mark.parametrize("most", [1, 7, 8, 9, 4096, 100_000])
def test_short_writes_are_gone_on_with(tmp_path: Path, writes: Writes, most: int) -> None:
    content = random.Random(most).randbytes(min(3000 * most, 300_000))
    file = a_staged_file(tmp_path)
    for at in range(0, len(content), 777):
        file.append(content[at : at + 777])
    writes.most = most
    assert file.flush() == len(content)
    assert (tmp_path / NAME).read_bytes() == content.ljust(SIZE, b"\0")


def test_a_write_that_writes_nothing_is_an_error_and_no_endless_loop(tmp_path: Path, writes: Writes) -> None:
    file = a_staged_file(tmp_path)
    file.append(b"1234")
    writes.most = 0
    with pytest.raises(SyncFailed, match="nothing was written"):
        file.flush()


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_write_is_final(tmp_path: Path, writes: Writes, call: int, number: int) -> None:
    file = a_staged_file(tmp_path)
    file.append(b"a" * 100)
    file.flush()
    file.append(b"b" * 100)
    writes.errors[2 + call] = OSError(number, os.strerror(number))
    with pytest.raises(SyncFailed) as caught:
        file.flush()
    assert caught.value.cause.errno == number
    assert (file.flushed, file.committed, file.written, file.sealed) == (100, 100, 200, True)
    for act in (file.flush, lambda: file.append(b"c"), file.fill):
        with pytest.raises(FileSealed, match=os.strerror(number)):
            act()
    assert len(writes.calls) == 2 + call, "nothing is tried a second time"
    assert file.read(0, 100) == b"a" * 100


def test_what_is_appended_during_a_flush_waits_for_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = a_staged_file(tmp_path)
    real = os.pwritev

    def write(descriptor: int, pieces: Sequence[memoryview], at: int, flags: int = 0) -> int:
        file.append(b"later")
        return real(descriptor, pieces, at, flags)

    file.append(b"x" * 8)
    monkeypatch.setattr(os, "pwritev", write)
    assert file.flush() == 8
    monkeypatch.undo()
    assert (file.written, file.committed, file.is_dirty) == (13, 8, True)
    assert file.flush() == 13
    assert file.read(0, 13) == b"xxxxxxxxlater"


def test_chunks_are_used_again_and_only_as_many_as_wait(tmp_path: Path) -> None:
    pool = ChunkPool()
    file = MappedFile.open(tmp_path / NAME, 64 * CHUNK_SIZE, chunks=pool)
    borrowed: list[int] = []
    real = pool.borrow

    def borrow(size: int) -> object:
        borrowed.append(size)
        return real(size)

    pool.borrow = borrow  # type: ignore[method-assign, assignment]
    for _ in range(100):
        file.append(b"x" * 100_000)
        file.flush()
    assert len(borrowed) == 1
    for _ in range(3):
        file.append(b"x" * (CHUNK_SIZE // 2 + 1))
    assert len(borrowed) == 3, "no append lies in two chunks"
    file.flush()
    file.append(b"x" * (CHUNK_SIZE + 1))
    file.flush()
    assert file.read(0, file.written).strip(b"x") == b""


def test_what_one_turn_of_a_server_brings_finds_its_memory_again(tmp_path: Path) -> None:
    file = MappedFile.open(tmp_path / NAME, 16 * CHUNK_SIZE, chunks=ChunkPool())
    turn = 3 << 19  # 1 MiB that was received, with the heads of its records
    used = set()
    for _ in range(6):
        used.add(file.address(file.written + turn) + file.written)
        file.append(b"x" * turn)
        file.flush()
    assert len(used) == 1


def test_more_than_one_write_takes_is_written_in_several(
    tmp_path: Path, writes: Writes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "CHUNK_SIZE", 1000)
    monkeypatch.setattr(staging, "_MOST_PIECES", 3)
    monkeypatch.setattr(staging, "_LARGEST_STEP", 2500)
    content = random.Random(3).randbytes(20_000)
    file = a_staged_file(tmp_path)
    for at in range(0, len(content), 400):
        file.append(content[at : at + 400])
    assert file.flush() == len(content)
    assert max(size for _, size, _ in writes.calls) <= 2500
    assert all(at % 400 == 0 for at, _, flags in writes.calls if flags), "each begins with an append"
    assert file.read(0, len(content)) == content


def test_a_filled_file_is_flushed_to_its_end_and_gives_its_memory_back(tmp_path: Path) -> None:
    pool = ChunkPool()
    file = MappedFile.open(tmp_path / NAME, SIZE, chunks=pool)
    file.append(b"x" * 100)
    file.fill(b"the end", head=7)
    assert (file.is_full, file.committed) == (True, 0)
    assert file.flush() == SIZE
    assert (tmp_path / NAME).read_bytes() == (b"x" * 100 + b"the end").ljust(SIZE, b"\0")
    assert len(pool._free) == 1


def test_what_is_written_at_its_address_is_appended_when_the_file_is_told(tmp_path: Path) -> None:
    file = a_staged_file(tmp_path)
    file.append(b"12345")
    for text in (b"abc", b"defg"):
        ctypes.memmove(file.address(file.written + 100_000) + file.written, text, len(text))
        file.took(len(text))
        assert file.flush() == file.written
    assert file.read(0, file.written) == b"12345abcdefg"


def test_a_file_that_was_written_before_goes_on_at_its_end(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"whole".ljust(SIZE, b"\0"))
    file = a_staged_file(tmp_path, written=SIZE)
    file.set_end(5)
    assert (file.written, file.committed, file.flushed) == (5, 5, 5)
    file.append(b"more")
    file.flush()
    assert (tmp_path / NAME).read_bytes() == b"wholemore".ljust(SIZE, b"\0")


@pytest.mark.parametrize("end", [0, 3, 8, 11, 16, 20])
@pytest.mark.parametrize("is_filled", [False, True])
def test_truncating_reaches_what_waits(tmp_path: Path, end: int, is_filled: bool) -> None:
    file = a_staged_file(tmp_path)
    file.append(b"12345678")
    file.flush()
    file.append(b"abcdefgh")
    if is_filled:
        file.fill()
    file.truncate(end)
    kept = b"12345678abcdefgh"[:end]
    written = end if is_filled else min(end, 16)
    assert (file.written, file.committed, file.flushed) == (written, written, written)
    file.append(b"next")
    file.flush()
    assert (tmp_path / NAME).read_bytes() == (kept.ljust(written, b"\0") + b"next").ljust(SIZE, b"\0")


def test_a_file_that_is_going_away_is_not_called_flushed(tmp_path: Path) -> None:
    file = a_staged_file(tmp_path)
    file.append(b"1234")
    with file.hold():
        assert not file.destroy()
        assert file.flush() == 0


def test_one_thread_appends_while_another_flushes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CHUNK_SIZE", 1 << 14)
    chance, size = random.Random(4), 1 << 19
    content = chance.randbytes(size)
    file = a_staged_file(tmp_path, size=size)
    is_over = threading.Event()

    def flush() -> None:
        while not is_over.is_set():
            end = file.flush()
            assert (tmp_path / NAME).read_bytes()[:end] == content[:end]

    flushing = threading.Thread(target=flush)
    flushing.start()
    while not file.is_full:
        file.append(content[file.written : file.written + chance.randrange(1, 5_000)])
    is_over.set()
    flushing.join()
    assert file.flush() == size
    assert (tmp_path / NAME).read_bytes() == content
