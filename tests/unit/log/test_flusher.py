"""Group commit, flushing by the clock, and what a failing disk means."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from embermq.clock import SystemClock
from embermq.errors import FileSealed, FlushTimeout, SyncFailed
from embermq.files.file_chain import FileChain
from embermq.files.staging import ChunkPool
from embermq.log.flusher import Flusher, FlushTimes
from embermq.log.recent_pages import RecentPages
from tests.builders import wait_until

SIZE = 8192


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[FileChain]:
    chain = FileChain(tmp_path / "log", SIZE)
    yield chain
    chain.close()


@pytest.fixture
def sync(monkeypatch: pytest.MonkeyPatch) -> SlowSync:
    slow = SlowSync()
    monkeypatch.setattr(os, "fdatasync", slow)
    return slow


class SlowSync:
    """A disk that syncs when it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.gate = threading.Event()
        self.gate.set()
        self.error: OSError | None = None
        self._sync = os.fdatasync

    def __call__(self, descriptor: int) -> None:
        self.calls += 1
        assert self.gate.wait(30)
        if self.error:
            raise self.error
        self._sync(descriptor)


def a_flusher(chain: FileChain, times: FlushTimes | None = None) -> Flusher:
    clock = SystemClock()
    recent = RecentPages(chain, least=SIZE, growth=0, most=SIZE, clock=clock)
    flusher = Flusher(chain, times=times or FlushTimes(), recent=recent, clock=clock)
    flusher.start()
    return flusher


def test_a_wait_ends_when_its_position_is_on_disk(chain: FileChain) -> None:
    flusher = a_flusher(chain)
    chain.append_file().append(b"x" * 100)
    flusher.wait(100, 5_000)
    assert flusher.flushed == chain.flushed == 100
    flusher.stop()


def test_one_sync_serves_all_that_came_while_the_last_one_ran(chain: FileChain, sync: SlowSync) -> None:
    chain.append_file()
    flusher = a_flusher(chain)
    before = sync.calls
    sync.gate.clear()
    waiters = []
    for number in range(20):
        chain.append_file().append(b"x" * 10)
        waiters.append(threading.Thread(target=flusher.wait, args=((number + 1) * 10, 10_000)))
        waiters[-1].start()
        if number == 0:
            wait_until(lambda: sync.calls == before + 1)
    sync.gate.set()
    for waiter in waiters:
        waiter.join()
    assert sync.calls - before <= 3, "the first alone, the rest together"
    flusher.stop()


def test_a_wait_ends_in_time_while_the_disk_hangs(chain: FileChain, sync: SlowSync) -> None:
    chain.append_file()
    flusher = a_flusher(chain)
    sync.gate.clear()
    chain.append_file().append(b"x")
    with pytest.raises(FlushTimeout, match="position 1 was not on disk after 50 ms"):
        flusher.wait(1, 50)
    sync.gate.set()
    flusher.stop()
    assert flusher.flushed == 1


def test_a_failed_sync_ends_every_wait_and_is_never_tried_again(chain: FileChain, sync: SlowSync) -> None:
    chain.append_file()
    flusher = a_flusher(chain)
    sync.error = OSError(errno.EIO, "Input/output error")
    chain.append_file().append(b"x" * 10)
    for _ in range(2):
        with pytest.raises(SyncFailed, match="Input/output error"):
            flusher.wait(10, 5_000)
    calls, sync.error = sync.calls, None
    with pytest.raises(SyncFailed):
        flusher.wait(10, 5_000)
    with pytest.raises(SyncFailed):
        flusher.stop()
    assert sync.calls == calls
    assert flusher.flushed == 0
    with pytest.raises(FileSealed):
        chain.append_file().append(b"y")


def test_async_flushes_by_itself_once_enough_pages_wait(chain: FileChain) -> None:
    flusher = a_flusher(chain, FlushTimes(interval_s=0.01, least_pages=1, thorough_interval_s=1000))
    chain.append_file().append(b"x" * 4096)
    wait_until(lambda: flusher.flushed == 4096)
    flusher.stop()


def test_async_leaves_less_than_a_page_for_the_thorough_flush(chain: FileChain, sync: SlowSync) -> None:
    chain.append_file()
    before = sync.calls
    flusher = a_flusher(chain, FlushTimes(interval_s=0.01, least_pages=1, thorough_interval_s=1000))
    chain.append_file().append(b"x" * 4095)
    rounds = flusher.sync_count
    wait_until(lambda: flusher.sync_count > rounds + 3)
    assert sync.calls == before
    flusher.stop()
    assert sync.calls == before + 1, "stopping flushes everything"


def test_the_thorough_flush_takes_everything(chain: FileChain) -> None:
    flusher = a_flusher(chain, FlushTimes(interval_s=0.01, least_pages=100, thorough_interval_s=0.03))
    chain.append_file().append(b"x")
    wait_until(lambda: flusher.flushed == 1)
    flusher.stop()


def test_a_log_that_grows_fast_is_flushed_before_its_time(chain: FileChain, sync: SlowSync) -> None:
    chain.append_file()
    before = sync.calls
    flusher = a_flusher(chain, FlushTimes(interval_s=1000, most_bytes=1000))
    chain.append_file().append(b"x" * 999)
    flusher.note_end(999)
    chain.append_file().append(b"x")
    flusher.note_end(1000)
    wait_until(lambda: flusher.flushed == 1000)
    assert sync.calls == before + 1, "one byte less was left alone"
    flusher.stop()


def test_waiting_for_the_disk_to_come_closer_ends_in_time(chain: FileChain, sync: SlowSync) -> None:
    chain.append_file()
    flusher = a_flusher(chain)
    sync.gate.clear()
    chain.append_file().append(b"x" * 100)
    assert flusher.wait_behind(100, 50) is False
    sync.gate.set()
    assert flusher.wait_behind(100, 5_000) is True
    flusher.stop()


def test_listeners_are_told_of_every_step_forward_and_of_nothing_else(chain: FileChain) -> None:
    chain.append_file()
    flusher = a_flusher(chain, FlushTimes(interval_s=0.01, thorough_interval_s=0.01))
    told: list[int] = []
    flusher.listeners.append(lambda: told.append(flusher.flushed))
    for number in range(1, 4):
        chain.append_file().append(b"x")
        flusher.wait(number, 5_000)
    rounds = flusher.sync_count
    wait_until(lambda: flusher.sync_count > rounds + 3)
    flusher.stop()
    assert told == [1, 2, 3]


def test_a_failure_elsewhere_ends_every_wait_and_is_told(chain: FileChain, sync: SlowSync) -> None:
    chain.append_file()
    flusher = a_flusher(chain)
    told = threading.Event()
    flusher.listeners.append(told.set)
    sync.gate.clear()
    chain.append_file().append(b"x")
    errors: list[Exception] = []

    def wait() -> None:
        try:
            flusher.wait(1, 20_000)
        except SyncFailed as error:
            errors.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    wait_until(lambda: flusher._waiting)
    failure = SyncFailed(chain.paths[0], OSError(errno.EIO, "Input/output error"))
    flusher.fail(failure)
    waiter.join(10)
    assert errors == [failure]
    sync.gate.set()
    assert told.wait(10)
    with pytest.raises(SyncFailed):
        flusher.stop()


def test_many_threads_that_ask_at_once_are_all_answered(tmp_path: Path) -> None:
    chain = FileChain(tmp_path / "log", 1 << 20, chunks=ChunkPool())
    flusher = a_flusher(chain)
    appending = threading.Lock()
    missed: list[int] = []

    def put() -> None:
        for _ in range(20):
            with appending:
                chain.append_file().append(b"x" * 100)
                end = chain.end
            flusher.wait(end, 20_000)
            if chain.flushed < end or flusher.flushed < end:
                missed.append(end)

    threads = [threading.Thread(target=put) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not missed
    flusher.stop()
    assert flusher.sync_count < 8 * 20, "some shared a sync"
    chain.close()
