"""The thread that brings the log to the disk.

    sync      a put asks for its position and waits; one sync serves all that asked meanwhile
    async     every `interval`, if `least_pages` wait; everything every `thorough_interval`, and before that when
              `most_bytes` wait, so that a log that grows fast does not come near the limit where puts have to wait
    pooled    the same, after the write buffers were committed to their files

A failed sync is final: the kernel may have dropped the pages and call the next sync a
success. So the failure is kept, every wait ends with it, and nothing is synced again.
Waits end in time even while the disk hangs, because they wait here, not in the sync.

What is on the disk need not stay in memory for ever: see recent_pages.py.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from embermq.clock import Clock
from embermq.errors import FileSealed, FlushTimeout, SyncFailed
from embermq.files.file_chain import FileChain
from embermq.log.recent_pages import RecentPages
from embermq.log.sync_times import SyncTimes

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlushTimes:
    """When the flusher acts by itself; None for `interval_s`: only when it is asked."""

    interval_s: float | None = None
    least_pages: int = 0
    thorough_interval_s: float = 10.0
    most_bytes: int | None = None
    commit_interval_s: float | None = None
    commit_least_pages: int = 0
    commit_thorough_interval_s: float = 0.2


class Flusher:
    """Moves `flushed` towards the log's end, and tells who waits for it."""

    def __init__(self, chain: FileChain, *, times: FlushTimes, recent: RecentPages, clock: Clock) -> None:
        self.flushed = chain.flushed
        self.failure: SyncFailed | None = None
        self.sync_count = 0
        self.sync_times = SyncTimes()
        self.listeners: list[Callable[[], None]] = []  # called in this thread after every step forward and a failure
        self._chain = chain
        self._committed = chain.committed
        self._times = times
        self._recent = recent
        self._clock = clock
        self._stopping = False
        # A lock that is released by whoever wants something, and taken by the thread before it looks what. A sync
        # begins 29 us after it is asked for, 39 us where all share one core; with a condition it was 53 and 45 us.
        self._bell = threading.Lock()
        self._bell.acquire()
        self._changed = threading.Condition()
        self._waiting = 0  # how many wait for it
        self._asked_at = 0  # where the log ended when so much waited that a flush was asked for
        self._thread = threading.Thread(target=self._run, name="embermq-flusher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Flush what is written and end the thread. Raises SyncFailed if that failed, now or earlier."""
        self._stopping = True
        self._ring()
        self._thread.join()
        if self.failure:
            raise self.failure

    def fail(self, error: SyncFailed) -> None:
        """The disk failed somebody else: end every wait with it, and sync nothing more."""
        self.failure = self.failure or error
        self._tell_waiting()
        self._ring()

    def ask(self, position: int) -> None:
        """Have the log flushed at least to `position`, soon. Everything before it is written."""
        if position > self.flushed:
            self._ring()

    def note_end(self, end: int) -> None:
        """The log has grown to `end`. Only for the one that appends."""
        most = self._times.most_bytes
        if most is not None and end - max(self.flushed, self._asked_at) >= most:
            self._asked_at = end
            self._ring()

    def wait(self, position: int, timeout_ms: int) -> None:
        """Return when everything before `position` is on disk. Raises SyncFailed or FlushTimeout."""
        if self.flushed >= position:
            return
        self.ask(position)
        done = self._wait_for(lambda: self.flushed >= position, timeout_ms)
        if self.flushed >= position:
            return
        if self.failure:
            raise self.failure
        assert not done
        raise FlushTimeout(self._chain.paths[0], position=position, waited_ms=timeout_ms)

    def wait_behind(self, limit: int, timeout_ms: int) -> bool:
        """Wait until fewer than `limit` bytes are unflushed; False when that took too long."""
        self.ask(self._chain.end)
        return self._wait_for(lambda: self._chain.end - self.flushed < limit, timeout_ms)

    def _ring(self) -> None:
        try:
            self._bell.release()
        except RuntimeError:  # it was rung already, and is not heard yet
            return

    def _wait_for(self, is_done: Callable[[], bool], timeout_ms: int) -> bool:
        with self._changed:
            self._waiting += 1  # before the first look: who moves on looks at this after the move
            try:
                return self._changed.wait_for(lambda: is_done() or self.failure is not None, timeout_ms / 1000)
            finally:
                self._waiting -= 1

    def _tell_waiting(self) -> None:
        if self._waiting:
            with self._changed:
                self._changed.notify_all()

    def _run(self) -> None:
        times = self._times
        intervals = [each for each in (times.interval_s, times.commit_interval_s) if each is not None]
        interval = min(intervals, default=-1.0)  # without an end
        committed_at = flushed_at = self._clock.monotonic()
        while not self._stopping and not self.failure:
            asked = self._bell.acquire(timeout=interval)
            now = self._clock.monotonic()
            if times.commit_interval_s is not None:
                thorough = asked or now - committed_at >= times.commit_thorough_interval_s
                committed_at = now if thorough else committed_at
                self._step(self._chain.commit, 0 if thorough else times.commit_least_pages)
            thorough = asked or now - flushed_at >= times.thorough_interval_s
            flushed_at = now if thorough else flushed_at
            self._step(self._chain.flush, 0 if thorough else times.least_pages)
            self._recent.give_back(self.flushed)
        self._step(self._chain.commit, 0)
        self._step(self._chain.flush, 0)
        if self.failure:
            self._tell()

    def _step(self, step: Callable[[int], int], least_pages: int) -> None:
        """Run one commit or sync, and publish how far the log is, or that it failed."""
        if self.failure:
            return
        began = self._clock.monotonic()
        try:
            step(least_pages)
        except FileSealed as error:
            self.failure = SyncFailed(self._chain.paths[0], OSError(errno.EIO, str(error)))
        except SyncFailed as error:
            self.failure = error
            log.critical("sync failed path=%s cause=%s; puts are refused until restart", error.path, error.cause)
        self.sync_count += 1
        flushed, committed = self._chain.flushed, self._chain.committed
        if flushed > self.flushed:
            self.sync_times.count(self._clock.monotonic() - began)
        if flushed != self.flushed or committed != self._committed:
            self.flushed, self._committed = flushed, committed
            self._tell()

    def _tell(self) -> None:
        self._tell_waiting()
        for listener in self.listeners:
            listener()
