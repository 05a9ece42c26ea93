"""The way of a batch of drafts into the log, onto the disk and before the readers' eyes.

One lock makes all callers one writer. They leave it before they wait for the disk, so
that one sync serves all of them, and take it again to dispatch what became visible.

    with the lock       offsets → records in the log → (async: dispatch)
    without             sync: wait until the disk has them
    with the lock       sync: dispatch

`submit` is the first step alone, for an event loop that must not wait; it learns from the
flusher when the disk has them.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from embermq.clock import Clock
from embermq.errors import FileSealed, StoreBusy, StoreClosed, StoreUnwritable, SyncFailed
from embermq.format.record import DraftFields
from embermq.log.commit_log import Appended, CommitLog
from embermq.log.dispatching import tags_codes
from embermq.log.flusher import Flusher
from embermq.log.placed import Placed, PlacedBatch
from embermq.log.queue_offsets import Assignment, QueueOffsets
from embermq.model.message import Receipts
from embermq.store.dispatcher import Dispatcher
from embermq.store.settings import Durability
from embermq.store.state import WriteGate, refusal_of
from embermq.store.statistics import Statistics

if TYPE_CHECKING:
    from embermq.log.queue_table import QueueTable
    from embermq.log.quick_append import QuickAppend, Taken
    from embermq.log.table_append import DraftTable, Piece, TableAppended
    from embermq.store.draft_tables import DraftTables

    AppendTable = Callable[[CommitLog, QueueTable, DraftTable], TableAppended]

log = logging.getLogger(__name__)

LEAST_TABLE: Final = 8  # drafts; fewer are not worth a table


class Submitted(NamedTuple):
    """Where drafts went, each by its index, and where the log ends behind them."""

    offsets: Sequence[int]
    positions: Sequence[int]
    sizes: Sequence[int]
    end: int
    store_time: int


class _Written(NamedTuple):
    appended: Appended
    items: Sequence[Placed]
    offsets: Sequence[int]


class Writer:
    """Puts batches. Safe for any number of threads."""

    def __init__(
        self,
        path: Path,
        commit_log: CommitLog,
        offsets: QueueOffsets,
        flusher: Flusher,
        dispatcher: Dispatcher,
        *,
        durability: Durability,
        sync_timeout_ms: int,
        max_unflushed: int,
        busy_wait_ms: int,
        delay_levels: Sequence[int],
        clock: Clock,
    ) -> None:
        self.lock = threading.RLock()
        self.gate = WriteGate()
        self.statistics = Statistics()
        self._path = path
        self._commit_log = commit_log
        self._offsets = offsets
        self._flusher = flusher
        self._dispatcher = dispatcher
        self._durability = durability
        self._sync_timeout_ms = sync_timeout_ms
        self._max_unflushed = max_unflushed
        self.busy_wait_ms = busy_wait_ms
        self._delay_levels = delay_levels
        self._clock = clock
        self._is_closed = False
        self._host_hex = commit_log.store_host.hex().upper()
        self._tables: DraftTables | None = None  # where kernels write drafts, too
        self._table_code: tuple[QuickAppend, AppendTable] | None = None

    def put(self, make: Callable[[], Sequence[DraftFields]], *, together: bool = False) -> Receipts:
        """Store what `make` returns; it is called with the lock held, once puts are allowed."""
        began = self._clock.monotonic()
        try:
            self._admit()
            appended, items, _ = self._write(make, together=together)
            if self._durability is Durability.SYNC:
                self._wait_for_disk(appended.end)
        except Exception:
            self.statistics.refused += 1
            raise
        self.statistics.count_put(len(items), appended.end - appended.begin, self._clock.monotonic() - began)
        return Receipts(items, appended.store_time, self._host_hex)

    def submit(self, drafts: Sequence[DraftFields], *, together: bool = False) -> Submitted:
        """Write drafts to the log and return at once; see `is_behind` before."""
        began = self._clock.monotonic()
        if self._tables is not None and not together and len(drafts) >= LEAST_TABLE:
            table = self._tables.make(drafts)
            if table is not None:
                return self._submit_whole(table)
        try:
            self.check()
            written = self._write(lambda: drafts, together=together)
        except Exception:
            self.statistics.refused += 1
            raise
        appended = written.appended
        if self._durability is Durability.SYNC:
            self._flusher.ask(appended.end)
        size = appended.end - appended.begin
        self.statistics.count_put(len(appended.positions), size, self._clock.monotonic() - began)
        return Submitted(written.offsets, appended.positions, appended.sizes, appended.end, appended.store_time)

    def use_kernels(self) -> None:
        """Have kernels write what is submitted as drafts from now on; they must be loaded."""
        from embermq.store.draft_tables import DraftTables

        log_files = self._commit_log.chain
        self._tables = DraftTables(self._offsets.table, self._commit_log.store_host, log_files.file_size)

    def _submit_whole(self, table: DraftTable) -> Submitted:
        """Write all of a table to the log or, when an error is raised, nothing."""
        from embermq.kernels.columns import DRAFT_OFFSET, RECORD_POSITION, RECORD_SIZE

        with self.lock:
            try:
                self.check()
                self._check_not_closed()
                self._reserve_table(table)
            except Exception:
                self.statistics.refused += 1
                raise
            appended = self.submit_table(table)
        if appended.error is not None:
            raise appended.error
        records = appended.records
        offsets, positions, sizes = table.drafts[:, DRAFT_OFFSET], records[:, RECORD_POSITION], records[:, RECORD_SIZE]
        end = appended.pieces[-1].end
        return Submitted(offsets.tolist(), positions.tolist(), sizes.tolist(), end, appended.store_time)

    def put_table(self, topic: str, make: Callable[[], DraftTable]) -> Receipts:
        """The same as `put` for messages of one topic that lie in memory."""
        from embermq.log.table_append import TablePlaces

        began = self._clock.monotonic()
        try:
            self._admit()
            with self.lock:
                self._check_not_closed()
                table = make()
                self._reserve_table(table)
                appended = self._append_table(table)
                if appended.error is not None:
                    raise appended.error
            end = appended.pieces[-1].end
            if self._durability is Durability.SYNC:
                self._wait_for_disk(end)
        except Exception:
            self.statistics.refused += 1
            raise
        size = end - appended.pieces[0].begin
        self.statistics.count_put(len(table), size, self._clock.monotonic() - began)
        return Receipts(TablePlaces(topic, appended.records), appended.store_time, self._host_hex)

    def submit_table(self, table: DraftTable) -> TableAppended:
        """The same for messages that lie in memory. What is not stored, and why, is told, not raised."""
        began = self._clock.monotonic()
        try:
            self.check()
            with self.lock:
                self._check_not_closed()
                appended = self._append_table(table)
        except Exception:
            self.statistics.refused += len(table)
            raise
        self.statistics.refused += len(table) - len(appended.records)
        if appended.pieces:
            begin, end = appended.pieces[0].begin, appended.pieces[-1].end
            if self._durability is Durability.SYNC:
                self._flusher.ask(end)
            self.statistics.count_put(len(appended.records), end - begin, self._clock.monotonic() - began)
        return appended

    def offer_log(self, source: DraftTable, run: Callable[[QuickAppend], Taken]) -> list[Piece] | None:
        """Have `run` store messages by a kernel, visible at once; what it stored, in the order of the log.

        None, with nothing run, where messages must be submitted, be it only to hear why they are refused.
        """
        if self._durability is not Durability.ASYNC or self._flusher.failure or self.gate.refusal:
            return None
        quick, _ = self._table_code or self._load_table_code()
        dispatcher, began = self._dispatcher, self._clock.monotonic()
        with self.lock:
            is_current = dispatcher.position == self._commit_log.chain.end and not dispatcher.is_waiting
            if self._is_closed or not is_current:
                return None
            with dispatcher.queues.open_chains.lock:  # kernels write into files of queues
                if not quick.offer(source):
                    return None
                taken = run(quick)
            pieces = quick.taken(taken)
            if taken.done:
                assert pieces[0].batch is not None
                dispatcher.passed(pieces[0].end, pieces[0].batch)
            if taken.stored > taken.done:
                left = pieces[-1]
                if left.batch is not None:
                    dispatcher.expect(left.begin, left.end, left.batch)
                self.dispatch()
        if pieces:
            self._flusher.note_end(pieces[-1].end)
            size = pieces[-1].end - pieces[0].begin
            self.statistics.count_put(taken.stored, size, self._clock.monotonic() - began)
        return pieces

    def is_behind(self, *, wait_ms: int = 0) -> bool:
        """Whether so much waits for the disk that puts had better wait, too; after `wait_ms`, if it takes so long."""
        if self._commit_log.chain.end - self._flusher.flushed < self._max_unflushed:
            return False
        return not (wait_ms and self._flusher.wait_behind(self._max_unflushed, wait_ms))

    def _write(self, make: Callable[[], Sequence[DraftFields]], *, together: bool) -> _Written:
        with self.lock:
            self._check_not_closed()
            written = self._append(make(), together=together)
            if self._durability is Durability.ASYNC:
                self.dispatch()
        return written

    def close(self) -> None:
        """Take no more puts, not even of those that wait for the lock, which the caller holds."""
        self._is_closed = True

    def check(self) -> None:
        """Raise the reason why puts are refused, if there is one."""
        if self._flusher.failure:
            raise self._flusher.failure
        self.gate.check()

    def visible_end(self) -> int:
        """How far readers may see: what is on disk in sync mode, what is in the files otherwise."""
        if self._durability is Durability.SYNC:
            return self._flusher.flushed
        return self._commit_log.chain.readable_end

    def dispatch(self) -> None:
        """Dispatch what is visible. A full disk stops it for now: the messages are safe in the log."""
        with self.lock:
            try:
                self._dispatcher.dispatch(self.visible_end())
            except OSError as error:
                refusal = self._refuse(error)
                log.error("dispatch stopped position=%d reason=%s", self._dispatcher.position, refusal)

    def _admit(self) -> None:
        """Let a put pass, hold it back while the disk is behind, or refuse it."""
        self.check()
        chain, flusher = self._commit_log.chain, self._flusher
        if chain.end - flusher.flushed < self._max_unflushed:
            return
        in_time = flusher.wait_behind(self._max_unflushed, self.busy_wait_ms)
        self.check()
        if not in_time:
            behind = chain.end - flusher.flushed
            raise StoreBusy(self._path, behind=behind, limit=self._max_unflushed, waited_ms=self.busy_wait_ms)

    def _append(self, drafts: Sequence[DraftFields], *, together: bool) -> _Written:
        assignment = self._offsets.assign(drafts)
        try:
            appended = self._commit_log.append(assignment.drafts, assignment.offsets, together=together)
        except Exception as error:
            self._raise_refusal(error)
        self._flusher.note_end(appended.end)
        self._offsets.confirm(assignment)
        items = self._place(assignment, appended)
        self._dispatcher.expect(appended.begin, appended.end, items)
        return _Written(appended, items, assignment.offsets)

    def _reserve_table(self, table: DraftTable) -> None:
        from embermq.log.table_append import reserve_table

        try:
            reserve_table(self._commit_log, table)
        except Exception as error:
            self._raise_refusal(error)

    def _load_table_code(self) -> tuple[QuickAppend, AppendTable]:
        """What is only there where kernels are; kept, because an import costs as much as a few messages."""
        from embermq.log.quick_append import QuickAppend
        from embermq.log.table_append import append_table

        quick = QuickAppend(self._commit_log, self._offsets.table, self._dispatcher.index)
        self._table_code = quick, append_table
        return self._table_code

    def _append_table(self, table: DraftTable) -> TableAppended:
        """Write a table to the log and, in `async` mode, dispatch it."""
        quick, append_table = self._table_code or self._load_table_code()
        dispatcher, is_async = self._dispatcher, self._durability is Durability.ASYNC
        is_visible = is_async and dispatcher.position == self._commit_log.chain.end and not dispatcher.is_waiting
        with self._dispatcher.queues.open_chains.lock:  # kernels write into files of queues
            appended = quick.append(table, is_visible=is_visible)
        is_dispatched = is_visible and appended is not None and quick.is_dispatched()
        if appended is None:
            appended = append_table(self._commit_log, self._offsets.table, table)
        for piece in appended.pieces:
            if is_dispatched and piece.batch is not None:
                dispatcher.passed(piece.end, piece.batch)
            elif piece.batch is not None:
                dispatcher.expect(piece.begin, piece.end, piece.batch)
        if is_async and not is_dispatched:
            self.dispatch()
        if appended.pieces:
            self._flusher.note_end(appended.pieces[-1].end)
        if appended.error is not None:
            return appended._replace(error=self._refusal_of(appended.error))
        return appended

    def _place(self, assignment: Assignment, appended: Appended) -> Sequence[Placed]:
        """What the dispatcher need not decode again."""
        drafts, offsets, counts, *_ = assignment
        _, _, positions, sizes, store_time = appended
        codes = tags_codes(drafts, store_time, self._delay_levels)
        if assignment.is_plain:
            return PlacedBatch(drafts, offsets, positions, sizes, codes, store_time)
        return [
            Placed(draft[0].decode(), draft[1], offset, position, size, code, store_time, draft[5], draft[3], count)
            for draft, offset, count, position, size, code in zip(
                drafts, offsets, counts, positions, sizes, codes, strict=True
            )
        ]

    def _wait_for_disk(self, end: int) -> None:
        self._flusher.wait(end, self._sync_timeout_ms)
        if self._dispatcher.position < end:
            self.dispatch()

    def _raise_refusal(self, error: Exception) -> NoReturn:
        """Raise what a put is refused with after this."""
        refusal = self._refusal_of(error)
        if refusal is error:
            raise error
        raise refusal from error

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise StoreClosed(self._path)

    def _refusal_of(self, error: Exception) -> Exception:
        """What a failed append is answered with; some of what can fail closes the store for writing."""
        if isinstance(error, SyncFailed):  # of a write buffer that had to be committed first
            self._flusher.fail(error)
        elif isinstance(error, FileSealed):
            return self._flusher.failure or SyncFailed(self._path, OSError(errno.EIO, str(error)))
        return self._refuse(error) if isinstance(error, OSError) else error

    def _refuse(self, error: OSError) -> StoreUnwritable:
        """Refuse puts from now on, because the disk did not give what was asked for."""
        refusal = refusal_of(error, Path(error.filename or self._commit_log.chain.paths[0]))
        self.gate.refuse(refusal)
        return refusal
