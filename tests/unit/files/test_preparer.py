from __future__ import annotations

import ctypes
import errno
import logging
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embermq.errors import StoreClosed, SyncFailed
from embermq.files import memory, new_files
from embermq.files.file_chain import FileChain
from embermq.files.mapped_file import MappedFile
from embermq.files.paths import file_name
from embermq.files.preparer import Preparer, make_file

SIZE = 1 << 20
Wait = Callable[[Callable[[], object]], None]


@pytest.fixture
def preparer() -> Iterator[Preparer]:
    made = Preparer(window=1 << 18)
    yield made
    made.stop()


class Gate:
    """Stands in for posix_fallocate: holds every call until it is opened, and can fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.made: list[int] = []
        self.opened = threading.Event()
        self.failure: OSError | None = None
        self._real = os.posix_fallocate
        monkeypatch.setattr(os, "posix_fallocate", self._reserve)

    def _reserve(self, descriptor: int, offset: int, size: int) -> None:
        self.calls += 1
        self.made.append(int(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))))
        assert self.opened.wait(10)
        if self.failure is not None:
            raise self.failure
        self._real(descriptor, offset, size)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def resident_pages(file: MappedFile) -> list[bool]:
    """Which pages of the file are in memory."""
    count = file.size // mmap.PAGESIZE
    found = (ctypes.c_ubyte * count)()
    anchor = ctypes.c_char.from_buffer(file._map)
    libc = ctypes.CDLL(None)
    assert libc.mincore(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(file.size), found) == 0
    return [bool(page & 1) for page in found]


def names(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir())


def test_a_file_that_was_asked_for_is_whole_and_empty(tmp_path: Path, preparer: Preparer) -> None:
    path = tmp_path / "log" / file_name(SIZE)
    assert preparer.prepare(path, SIZE)
    file = preparer.take(path, timeout=10)
    assert (file.path, file.start, file.size, file.written) == (path, SIZE, SIZE, 0)
    assert path.stat().st_blocks * 512 >= SIZE
    file.append(b"mine")


def test_a_file_is_made_without_anyone_waiting_for_it(tmp_path: Path, preparer: Preparer, wait_until: Wait) -> None:
    preparer.prepare(tmp_path / file_name(0), SIZE)
    wait_until(lambda: names(tmp_path) == [0])


def test_file_and_directory_are_synced_before_the_file_is_handed_out(
    tmp_path: Path, preparer: Preparer, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def sync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "fdatasync", sync)
    path = tmp_path / file_name(0)
    preparer.prepare(path, SIZE)
    preparer.take(path, timeout=10)
    assert set(synced) == {str(path), str(tmp_path)}


def test_asking_twice_makes_one_file(tmp_path: Path, preparer: Preparer, gate: Gate) -> None:
    path = tmp_path / file_name(0)
    assert preparer.prepare(path, SIZE)
    assert preparer.prepare(path, SIZE)
    gate.opened.set()
    preparer.take(path, timeout=10)
    assert gate.calls == 1


def test_no_more_files_are_asked_for_than_the_limit(tmp_path: Path) -> None:
    preparer = Preparer(window=0, limit=2)
    try:
        asked = [preparer.prepare(tmp_path / file_name(start), SIZE) for start in (0, SIZE, 2 * SIZE)]
        assert asked == [True, True, False]
        preparer.take(tmp_path / file_name(0), timeout=10)
        assert preparer.prepare(tmp_path / file_name(2 * SIZE), SIZE)
    finally:
        preparer.stop()


def test_a_wait_that_is_too_long_ends_and_can_be_taken_up_again(tmp_path: Path, preparer: Preparer, gate: Gate) -> None:
    path = tmp_path / file_name(0)
    preparer.prepare(path, SIZE)
    with pytest.raises(TimeoutError):
        preparer.take(path, timeout=0)
    gate.opened.set()
    assert preparer.take(path, timeout=10).path == path


def test_a_failure_is_kept_for_the_taker_and_tried_again_when_asked(
    tmp_path: Path, preparer: Preparer, gate: Gate
) -> None:
    path = tmp_path / file_name(0)
    gate.failure = OSError(errno.ENOSPC, "No space left on device")
    gate.opened.set()
    preparer.prepare(path, SIZE)
    for _ in range(2):
        with pytest.raises(OSError, match="No space") as caught:
            preparer.take(path, timeout=10)
        assert caught.value.errno == errno.ENOSPC
    assert (gate.calls, names(tmp_path)) == (1, [])
    gate.failure = None
    preparer.prepare(path, SIZE)
    assert preparer.take(path, timeout=10).path == path


def test_a_sync_that_fails_is_a_failure_to_make_the_file(
    tmp_path: Path, preparer: Preparer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", fail)
    preparer.prepare(tmp_path / file_name(0), SIZE)
    with pytest.raises(SyncFailed):
        preparer.take(tmp_path / file_name(0), timeout=10)
    assert names(tmp_path) == []


def test_no_file_is_made_after_one_that_failed(
    tmp_path: Path, preparer: Preparer, gate: Gate, wait_until: Wait
) -> None:
    """A later file without the one before it would be a gap after a crash."""
    first, second, third = (tmp_path / file_name(start) for start in (0, SIZE, 2 * SIZE))
    gate.failure = OSError(errno.ENOSPC, "No space left on device")
    preparer.prepare(first, SIZE)
    preparer.prepare(second, SIZE)
    gate.opened.set()
    with pytest.raises(OSError, match="No space"):
        preparer.take(first, timeout=10)
    gate.failure = None
    preparer.prepare(third, SIZE)
    assert preparer._next_job() is None  # whenever the thread looks
    assert (gate.calls, names(tmp_path)) == (1, [])
    preparer.prepare(first, SIZE)
    wait_until(lambda: names(tmp_path) == [0, SIZE, 2 * SIZE])


def test_a_file_somebody_waits_for_is_made_before_others(
    tmp_path: Path, preparer: Preparer, gate: Gate, wait_until: Wait
) -> None:
    paths = [tmp_path / file_name(start) for start in (0, SIZE, 2 * SIZE)]
    for path in paths:
        preparer.prepare(path, SIZE)
    wait_until(lambda: gate.made == [0])
    last = preparer._jobs[paths[2]]
    taker = threading.Thread(target=preparer.take, args=[paths[2], 10])
    taker.start()
    wait_until(lambda: last.is_urgent)
    gate.opened.set()
    taker.join(10)
    wait_until(lambda: len(gate.made) == 3)
    assert gate.made == [0, 2 * SIZE, SIZE]


def test_a_file_that_exists_is_not_taken_for_a_new_one(tmp_path: Path, preparer: Preparer) -> None:
    path = tmp_path / file_name(0)
    path.write_bytes(b"precious".ljust(SIZE, b"\0"))
    preparer.prepare(path, SIZE)
    with pytest.raises(FileExistsError):
        preparer.take(path, timeout=10)
    assert path.read_bytes().startswith(b"precious")


def test_a_discarded_file_is_deleted_made_or_not(tmp_path: Path, preparer: Preparer, wait_until: Wait) -> None:
    made, asked = tmp_path / file_name(0), tmp_path / file_name(SIZE)
    preparer.prepare(made, SIZE)
    wait_until(made.exists)
    preparer.prepare(asked, SIZE)
    preparer.discard(asked)
    preparer.discard(made)
    preparer.discard(tmp_path / "never asked for")
    assert names(tmp_path) == []


def test_discarding_waits_for_a_file_that_is_being_made(
    tmp_path: Path, preparer: Preparer, gate: Gate, wait_until: Wait
) -> None:
    path = tmp_path / file_name(0)
    preparer.prepare(path, SIZE)
    wait_until(lambda: gate.calls == 1)
    discarding = threading.Thread(target=preparer.discard, args=[path])
    discarding.start()
    assert path.exists()
    gate.opened.set()
    discarding.join(10)
    assert not path.exists()


def test_stopping_deletes_what_nobody_took_and_ends_the_threads(tmp_path: Path) -> None:
    preparer = Preparer(window=0)
    for start in (0, SIZE, 2 * SIZE):
        preparer.prepare(tmp_path / file_name(start), SIZE)
    file = preparer.take(tmp_path / file_name(0), timeout=10)
    file.append(b"kept")
    preparer.stop()
    preparer.stop()
    assert names(tmp_path) == [0]
    assert not any(thread in threading.enumerate() for thread in preparer._threads)
    assert not preparer.prepare(tmp_path / file_name(SIZE), SIZE)


def test_whoever_waits_is_told_when_the_preparer_stops(tmp_path: Path, gate: Gate, wait_until: Wait) -> None:
    preparer = Preparer(window=0)
    first, second = tmp_path / file_name(0), tmp_path / file_name(SIZE)
    preparer.prepare(first, SIZE)
    preparer.prepare(second, SIZE)
    wait_until(lambda: gate.calls == 1)
    errors: list[Exception] = []

    def take() -> None:
        try:
            preparer.take(second, timeout=10)
        except StoreClosed as error:
            errors.append(error)

    taker = threading.Thread(target=take)
    taker.start()
    stopper = threading.Thread(target=preparer.stop)
    stopper.start()
    taker.join(10)
    gate.opened.set()
    stopper.join(10)
    assert (len(errors), names(tmp_path)) == (1, [])


# Warm pages


def can_populate(folder: Path) -> bool:
    file = make_file(folder / file_name(99 * SIZE), SIZE)
    try:
        return memory.populate(file._map, 0, mmap.PAGESIZE)
    finally:
        file.destroy()


def test_the_first_window_of_a_new_file_is_warm(tmp_path: Path, preparer: Preparer, wait_until: Wait) -> None:
    if not can_populate(tmp_path):
        pytest.skip("this kernel cannot populate pages")
    path = tmp_path / file_name(0)
    preparer.prepare(path, SIZE)
    file = preparer.take(path, timeout=10)
    window = (1 << 18) // mmap.PAGESIZE
    wait_until(lambda: all(resident_pages(file)[:window]))
    assert file.path.read_bytes() == bytes(SIZE)


def test_pages_are_warmed_ahead_of_the_appends(tmp_path: Path, preparer: Preparer, wait_until: Wait) -> None:
    if not can_populate(tmp_path):
        pytest.skip("this kernel cannot populate pages")
    file = make_file(tmp_path / file_name(0), SIZE)
    file.append(b"1234")
    preparer.warm_ahead(file, SIZE // 2)
    wait_until(lambda: all(resident_pages(file)[: SIZE // 2 // mmap.PAGESIZE]))
    preparer.warm_ahead(file, 2 * SIZE)
    wait_until(lambda: all(resident_pages(file)))
    assert file.path.read_bytes() == b"1234".ljust(SIZE, b"\0")


def test_what_is_warm_is_not_asked_for_again(tmp_path: Path, preparer: Preparer) -> None:
    file = make_file(tmp_path / file_name(0), SIZE, is_firmed=True)
    file.warm(0, SIZE)
    preparer.warm_ahead(file, SIZE)
    assert not preparer._warming


def test_pages_are_warmed_while_a_file_is_being_made(
    tmp_path: Path, preparer: Preparer, gate: Gate, wait_until: Wait
) -> None:
    gate.opened.set()
    file = make_file(tmp_path / file_name(0), SIZE, is_firmed=True)
    gate.opened.clear()
    preparer.prepare(tmp_path / file_name(SIZE), SIZE)
    wait_until(lambda: len(gate.made) == 2)
    preparer.warm_ahead(file, SIZE)
    wait_until(lambda: not preparer._warming)
    assert file._firming is not None
    assert file._firming.end == SIZE
    assert not preparer._jobs[tmp_path / file_name(SIZE)].is_done
    gate.opened.set()


def test_warming_a_file_that_was_deleted_is_no_error(tmp_path: Path, preparer: Preparer, wait_until: Wait) -> None:
    gone = make_file(tmp_path / file_name(0), SIZE)
    gone.destroy()
    preparer.warm_ahead(gone, SIZE)
    wait_until(lambda: not preparer._warming)
    preparer.prepare(tmp_path / file_name(SIZE), SIZE)
    preparer.take(tmp_path / file_name(SIZE), timeout=10)


def test_memory_that_cannot_be_locked_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(mapping: mmap.mmap) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(memory, "lock", refuse)
    preparer = Preparer(window=0, lock_pages=True)
    try:
        preparer.prepare(tmp_path / file_name(0), SIZE)
        with caplog.at_level(logging.WARNING):
            preparer.take(tmp_path / file_name(0), timeout=10)
        assert "pages not locked" in caplog.text
    finally:
        preparer.stop()


# With a chain


def test_a_chain_has_its_next_two_files_made_ahead(tmp_path: Path, preparer: Preparer, wait_until: Wait) -> None:
    chain = FileChain(tmp_path, SIZE, preparer=preparer)
    chain.append_file()
    wait_until(lambda: names(tmp_path) == [0, SIZE, 2 * SIZE])
    chain.append_file().fill()
    assert chain.append_file().start == SIZE
    wait_until(lambda: names(tmp_path) == [0, SIZE, 2 * SIZE, 3 * SIZE])
    chain.close()
    assert names(tmp_path) == [0, SIZE]


def test_files_can_be_asked_for_before_the_first_append(tmp_path: Path, preparer: Preparer, wait_until: Wait) -> None:
    chain = FileChain(tmp_path, SIZE, preparer=preparer)
    chain.prepare_next()
    wait_until(lambda: names(tmp_path) == [0, SIZE])
    chain.append_file(5 * SIZE)
    wait_until(lambda: names(tmp_path) == [5 * SIZE, 6 * SIZE, 7 * SIZE])
    chain.close()


def test_a_cut_chain_leaves_no_prepared_file_behind_a_gap(tmp_path: Path, preparer: Preparer) -> None:
    chain = FileChain(tmp_path, SIZE, preparer=preparer)
    for _ in range(3):
        chain.append_file().fill()
    chain.truncate(10)
    assert names(tmp_path) == [0]
    chain.append_file().fill()
    assert chain.append_file().start == SIZE
    chain.close()


def test_a_chain_makes_the_file_itself_when_the_preparer_has_enough_to_do(tmp_path: Path) -> None:
    preparer = Preparer(window=0, limit=0)
    try:
        chain = FileChain(tmp_path, SIZE, preparer=preparer)
        assert chain.append_file().start == 0
        assert names(tmp_path) == [0]
    finally:
        preparer.stop()


def test_a_file_that_came_too_late_is_not_left_behind(
    tmp_path: Path, preparer: Preparer, gate: Gate, monkeypatch: pytest.MonkeyPatch, wait_until: Wait
) -> None:
    monkeypatch.setattr(new_files, "TAKE_TIMEOUT", 0)
    chain = FileChain(tmp_path, SIZE, preparer=preparer)
    with pytest.raises(TimeoutError):
        chain.append_file()
    wait_until(lambda: gate.calls == 1)
    gate.opened.set()
    chain.close()
    assert names(tmp_path) == []


def test_space_that_was_short_ahead_of_time_and_is_there_now_is_no_error(
    tmp_path: Path, preparer: Preparer, gate: Gate, wait_until: Wait
) -> None:
    gate.opened.set()
    chain = FileChain(tmp_path, SIZE, preparer=preparer, ahead=1)
    chain.append_file().fill()
    chain.ensure_next([1])
    gate.failure = OSError(errno.ENOSPC, "No space left on device")
    calls = gate.calls
    chain.append_file().fill()
    wait_until(lambda: gate.calls > calls)
    with pytest.raises(OSError, match="No space"):
        chain.append_file()
    assert (chain.end, names(tmp_path)) == (2 * SIZE, [0, SIZE])
    gate.failure = None
    assert chain.append_file().start == 2 * SIZE
    chain.close()
