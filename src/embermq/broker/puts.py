"""Puts without waiting: what the event loop hands to the store, and who is told when it is done.

    submit ─→ in the log ──────────────────────→ async, pooled: done
                         └→ sync: waits here ─→ the flusher's thread says how far the disk is ─→ done

While the disk is too far behind, submissions are held back, in order, and refused when that
takes too long. All of it runs in the event loop, so there is one writer and no lock is waited for.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from embermq.clock import Clock
from embermq.errors import FlushTimeout, StoreBusy, StoreUnwritable
from embermq.format.record import DraftFields
from embermq.store.settings import Durability
from embermq.store.store import Store
from embermq.store.writer import Submitted

if TYPE_CHECKING:
    from embermq.log.table_append import DraftTable, TableAppended

log = logging.getLogger(__name__)

Done = Callable[["Submitted | None", "Exception | None"], None]
Finish = Callable[["Exception | None"], None]
CHECK_S = 0.1
MOMENT_MS = 5


class _Waiting(NamedTuple):
    end: int
    finish: Finish
    deadline: float


class _Held(NamedTuple):
    drafts: Sequence[DraftFields]
    together: bool
    done: Done
    deadline: float


class Puts:
    """The one way of a broker into its store."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._is_sync = store.settings.durability is Durability.SYNC
        self._waiting: deque[_Waiting] = deque()
        self._held: deque[_Held] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_called = threading.Event()  # a settling is on its way to the loop
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many submissions wait for the disk."""
        return len(self._waiting) + len(self._held)

    def start(self) -> None:
        """Begin to listen to the disk; call it in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._store.on_progress(self._call_settle)

    async def stop(self) -> None:
        """Wait until everything that was submitted has been answered."""
        while self._waiting or self._held:
            self.settle()
            self._check_times()
            await asyncio.sleep(0.001)
        if self._timer is not None:
            self._timer.cancel()

    def submit(self, drafts: Sequence[DraftFields], done: Done, *, together: bool = False) -> None:
        """Store drafts, whose properties end with their separator; `done` is told where they are, or what failed.

        A FlushTimeout comes with both: they are stored, but the disk has not confirmed it.
        """
        if self._held or self._store.is_behind():
            self._held.append(
                _Held(drafts, together, done, self._clock.monotonic() + self._store.settings.busy_wait_ms / 1000)
            )
            self._watch()
        else:
            self._write(drafts, done, together=together)

    @property
    def is_sync(self) -> bool:
        """Whether what is submitted has to wait for the disk."""
        return self._is_sync

    @property
    def is_free(self) -> bool:
        """Whether a submission would go to the log at once."""
        return not self._held and not self._store.is_behind() and self._store.failure is None

    def wait_until_free(self) -> bool:
        """Whether a submission would go to the log at once, now or in a moment.

        A disk that is nearly there is waited for: to take what comes in pieces, and hold it back, would take longer.
        """
        return not self._held and not self._store.is_behind(wait_ms=MOMENT_MS) and self._store.failure is None

    def await_disk(self, end: int, finish: Finish) -> None:
        """Have `finish` called when everything before log position `end` is as safe as it has to be.

        It is told None, or what came instead: a FlushTimeout, or the failure of the disk.
        """
        if self._is_sync:
            deadline = self._clock.monotonic() + self._store.settings.sync_timeout_ms / 1000
            self._waiting.append(_Waiting(end, finish, deadline))
            self._watch()
        else:
            finish(None)

    async def put(self, drafts: Sequence[DraftFields], *, together: bool = False) -> Submitted:
        """Store drafts and wait. One that the disk did not confirm in time counts as stored."""
        result: asyncio.Future[Submitted] = asyncio.get_running_loop().create_future()

        def done(submitted: Submitted | None, error: Exception | None) -> None:
            if result.done():
                return
            if submitted is not None and (error is None or isinstance(error, FlushTimeout)):
                result.set_result(submitted)
            else:
                result.set_exception(error or AssertionError("neither stored nor refused"))

        self.submit(drafts, done, together=together)
        return await result

    async def put_table(self, table: DraftTable) -> TableAppended:
        """The same for messages that lie in memory, by kernels; only while it `is_free`.

        What is not stored, and why, is told, not raised.
        """
        appended = self._store.submit_table(table)
        if appended.pieces and self._is_sync:
            result: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def finish(error: Exception | None) -> None:
                if not result.done():
                    if error is None or isinstance(error, FlushTimeout):
                        result.set_result(None)
                    else:
                        result.set_exception(error)

            self.await_disk(appended.pieces[-1].end, finish)
            await result
        return appended

    def settle(self) -> None:
        """Answer those whose messages the disk has."""
        self._is_called.clear()
        end = self._store.settle()
        while self._waiting and self._waiting[0].end <= end:
            self._waiting.popleft().finish(None)
        while self._held and not self._store.is_behind():
            held = self._held.popleft()
            self._write(held.drafts, held.done, together=held.together)
        if self._store.failure is not None:
            self._fail(self._store.failure)

    def _write(self, drafts: Sequence[DraftFields], done: Done, *, together: bool) -> None:
        try:
            submitted = self._store.submit(drafts, together=together)
        except Exception as error:
            done(None, error)
            return

        def finish(error: Exception | None) -> None:
            is_stored = error is None or isinstance(error, FlushTimeout)
            done(submitted if is_stored else None, error)

        self.await_disk(submitted.end, finish)

    def _fail(self, error: StoreUnwritable) -> None:
        """The disk failed: nothing that waits for it will ever be known to be there."""
        waiting, held = list(self._waiting), list(self._held)
        self._waiting.clear()
        self._held.clear()
        for each in waiting:
            each.finish(error)
        for submission in held:
            submission.done(None, error)

    def _call_settle(self) -> None:
        """In the flusher's thread: have `settle` called in the loop, once however often this is called meanwhile."""
        if self._loop is not None and not self._is_called.is_set():
            self._is_called.set()
            try:
                self._loop.call_soon_threadsafe(self.settle)
            except RuntimeError:  # the loop is closed, and everything answered
                log.debug("flushed after the event loop was closed")

    def _watch(self) -> None:
        """Look from time to time whether somebody waits too long."""
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(CHECK_S, self._check_times)

    def _check_times(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        path, settings = self._store.path, self._store.settings
        while self._waiting and self._waiting[0].deadline <= now:
            waiting = self._waiting.popleft()
            waiting.finish(FlushTimeout(path, position=waiting.end, waited_ms=settings.sync_timeout_ms))
        while self._held and self._held[0].deadline <= now:
            limit, waited = settings.max_unflushed_bytes, settings.busy_wait_ms
            self._held.popleft().done(None, StoreBusy(path, behind=limit, limit=limit, waited_ms=waited))
        if self._waiting or self._held:
            self._watch()
