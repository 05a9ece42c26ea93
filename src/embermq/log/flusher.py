"""The thread that brings the log to the disk.

    sync      a put asks for its position and waits; one sync serves all that asked meanwhile
    async     every `interval`, if `least_pages` wait; everything every `thorough_interval`
    pooled    the same, after the write buffers were committed to their files

A failed sync is final: the kernel may have dropped the pages and call the next sync a
success. So the failure is kept, every wait ends with it, and nothing is synced again.
Waits end in time even while the disk hangs, because they wait here, not in the sync.
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
from embermq.log.sync_times import SyncTimes

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlushTimes:
    """When the flusher acts by itself; None for `interval_s`: only when it is asked."""

    interval_s: float | None = None
    least_pages: int = 0
    thorough_interval_s: float = 10.0
    commit_interval_s: float | None = None
    commit_least_pages: int = 0
    commit_thorough_interval_s: float = 0.2


class Flusher:
    """Moves `flushed` towards the log's end, and tells who waits for it."""

    def __init__(self, chain: FileChain, *, times: FlushTimes, clock: Clock) -> None:
        self.flushed = chain.flushed
        self.failure: SyncFailed | None = None
        self.sync_count = 0
        self.sync_times = SyncTimes()
        self.listeners: list[Callable[[], None]] = []  # called in this thread after every step, and when it failed
        self._chain = chain
        self._times = times
        self._clock = clock
        self._wanted = 0
        self._stopping = False
        self._changed = threading.Condition()
        self._work = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="embermq-flusher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Flush what is written and end the thread. Raises SyncFailed if that failed, now or earlier."""
        with self._work:
            self._stopping = True
            self._work.notify()
        self._thread.join()
        if self.failure:
            raise self.failure

    def fail(self, error: SyncFailed) -> None:
        """The disk failed somebody else: end every wait with it, and sync nothing more."""
        with self._changed:
            self.failure = self.failure or error
            self._changed.notify_all()
        with self._work:
            self._work.notify()

    def ask(self, position: int) -> None:
        """Have the log flushed at least to `position`, soon."""
        with self._work:
            if position > self._wanted:
                self._wanted = position
                self._work.notify()

    def wait(self, position: int, timeout_ms: int) -> None:
        """Return when everything before `position` is on disk. Raises SyncFailed or FlushTimeout."""
        if self.flushed >= position:
            return
        self.ask(position)
        with self._changed:
            done = self._changed.wait_for(lambda: self.flushed >= position or self.failure, timeout_ms / 1000)
        if self.flushed >= position:
            return
        if self.failure:
            raise self.failure
        assert not done
        raise FlushTimeout(self._chain.paths[0], position=position, waited_ms=timeout_ms)

    def wait_behind(self, limit: int, timeout_ms: int) -> bool:
        """Wait until fewer than `limit` bytes are unflushed; False when that took too long."""
        self.ask(self._chain.end)
        with self._changed:
            return bool(
                self._changed.wait_for(
                    lambda: self._chain.end - self.flushed < limit or self.failure, timeout_ms / 1000
                )
            )

    def _run(self) -> None:
        times = self._times
        committed_at = flushed_at = self._clock.monotonic()
        while not self._stopping and not self.failure:
            asked = self._wait_for_work()
            now = self._clock.monotonic()
            if times.commit_interval_s is not None:
                thorough = asked or now - committed_at >= times.commit_thorough_interval_s
                committed_at = now if thorough else committed_at
                self._guarded(self._chain.commit, 0 if thorough else times.commit_least_pages)
            thorough = asked or times.interval_s is None or now - flushed_at >= times.thorough_interval_s
            flushed_at = now if thorough else flushed_at
            self._guarded(self._chain.flush, 0 if thorough else times.least_pages)
        self._guarded(self._chain.commit, 0)
        self._guarded(self._chain.flush, 0)

    def _wait_for_work(self) -> bool:
        """Sleep until asked, or for one interval; tells whether somebody asked."""
        intervals = [each for each in (self._times.interval_s, self._times.commit_interval_s) if each is not None]
        with self._work:
            self._work.wait_for(
                lambda: self._stopping or self.failure or self._wanted > self.flushed, min(intervals, default=None)
            )
            return self._wanted > self.flushed

    def _guarded(self, step: Callable[[int], int], least_pages: int) -> None:
        """Run one commit or sync, and publish how far the log is, or that it failed."""
        if self.failure:
            return
        began, flushed = self._clock.monotonic(), self._chain.flushed
        try:
            step(least_pages)
        except FileSealed as error:
            self.failure = self.failure or SyncFailed(self._chain.paths[0], OSError(errno.EIO, str(error)))
        except SyncFailed as error:
            log.critical("sync failed path=%s cause=%s; puts are refused until restart", error.path, error.cause)
            self.failure = error
        self.sync_count += 1
        if self._chain.flushed > flushed:
            self.sync_times.count(self._clock.monotonic() - began)
        with self._changed:
            self.flushed = self._chain.flushed
            self._changed.notify_all()
        for listener in self.listeners:
            listener()
