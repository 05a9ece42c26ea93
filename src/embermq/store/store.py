"""A store: one directory, used as a database of messages.

    put ─→ Intake ─→ Writer ─→ CommitLog ─→ Flusher ─→ Dispatcher ─→ queues, index
    get ─→ queue  ─→ CommitLog                     query ─→ index ─→ CommitLog

Any number of threads may use it. Readers take no lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from embermq.clock import Clock, SystemClock
from embermq.errors import NotSupported, OutOfRange, SettingsError, StoreClosed, SyncFailed, TopicNotFound
from embermq.files.space import DiskSpace
from embermq.format.batch_entry import BatchEntry
from embermq.format.message_id import decode_message_id
from embermq.format.queue_entry import QueueEntry
from embermq.format.record import Draft, DraftFields, Record
from embermq.format.tables import TopicTable
from embermq.log.queue_table import QueueTable
from embermq.log.recovery import Report
from embermq.model.message import Message, Receipt, StoredMessage, milliseconds_of
from embermq.model.message_batch import MessageBatch
from embermq.model.subscription import TagFilter
from embermq.model.topic import TopicConfig
from embermq.store.batch_puts import BatchPuts
from embermq.store.cleaner import Cleaner, first_store_time
from embermq.store.dispatcher import BitsOf, Listener
from embermq.store.gathering import FoundBytes, Gather, read_bytes
from embermq.store.housekeeper import Housekeeper
from embermq.store.intake import Intake, Limits, with_last_separator
from embermq.store.key_search import find_by_key
from embermq.store.outline import Outline, make_outline
from embermq.store.parts import close_parts, open_parts
from embermq.store.reading import Accept, Batch, Found, Wanted, read_queue, to_batch, to_message
from embermq.store.settings import CHANGEABLE, Durability, QueueForm, StoreSettings
from embermq.store.state import StoreState
from embermq.store.upkeep import Upkeep
from embermq.store.writer import Submitted, Writer

if TYPE_CHECKING:
    from embermq.files.file_chain import FileChain
    from embermq.log.quick_append import QuickAppend, Taken
    from embermq.log.table_append import DraftTable, Piece, TableAppended
    from embermq.store.queues import AnyQueue

DEFAULT_READ_BYTES = 4 * 1024 * 1024
END_OF_TIME_MS = 2**63 - 1


def open_store(
    path: str | os.PathLike[str],
    *,
    clock: Clock | None = None,
    report: Report = lambda done, total: None,
    **settings: object,
) -> Store:
    """Open the store in directory `path`, made if it is new, as its only owner.

    `settings` are those of StoreSettings; `report` is told the bytes done and in all
    while a long recovery runs.
    """
    return Store(Path(path), StoreSettings.make(settings), clock=clock or SystemClock(), report=report)


class Store:
    """The messages of one directory. Close it, or use it in a `with` block."""

    def __init__(self, path: Path, settings: StoreSettings, *, clock: Clock, report: Report) -> None:
        self.path = path
        self.settings = settings
        self._clock = clock
        self._gather: Gather | None = None  # a compiled one, see use_kernels
        self._stopping = threading.Event()
        self._parts = parts = open_parts(path, settings, clock, report)
        self._writer = Writer(
            path,
            parts.commit_log,
            parts.offsets,
            parts.flusher,
            parts.dispatcher,
            durability=settings.durability,
            sync_timeout_ms=settings.sync_timeout_ms,
            max_unflushed=settings.max_unflushed_bytes,
            busy_wait_ms=settings.busy_wait_ms,
            delay_levels=parts.delay_levels,
            clock=clock,
        )
        born_host = parts.commit_log.store_host
        self._intake = Intake(Limits.of(settings), topic=parts.topics.for_put, born_host=born_host)
        self._batch_puts = BatchPuts(parts, self._intake, self._writer, clock=clock)
        cleaner = Cleaner(
            path,
            parts.commit_log,
            parts.queues,
            parts.index,
            settings,
            clock=clock,
            writing=self._writer.lock,
            stopping=self._stopping,
        )
        self._upkeep = Upkeep(parts, self._writer, cleaner, settings, clock)
        try:
            if not self._upkeep.checkpoint():
                self._writer.check()
            self._upkeep.watch_space()
        except BaseException:
            with suppress(SyncFailed):
                parts.flusher.stop()
            close_parts(parts, is_clean=False)
            raise
        self._housekeeper = Housekeeper(self._upkeep.duties(), clock)
        self._housekeeper.start()

    def put(self, message: Message, *, queue: int | None = None) -> Receipt:
        """Store one message; `queue` overrides the message's own. What holds on return is the store's durability.

        Raises a RequestError for a message that cannot be stored, and a StoreUnwritable
        while the store takes none.
        """
        return self.put_many((message if queue is None else replace(message, queue=queue),))[0]

    def put_many(self, messages: Iterable[Message]) -> Sequence[Receipt]:
        """Store messages in one batch, with one flush: all of them or, when an error is raised, none.

        A MessageBatch is put by kernels, many times as fast, where they are loaded: see `embermq.load_kernels`.
        """
        if isinstance(messages, MessageBatch) and self._batch_puts.can_put(messages, self.settings):
            self._check_open()
            return self._batch_puts.put(messages)
        batch = list(messages)
        if not batch:
            return []
        born_time = self._clock.now_ms()
        self._check_open()
        return self._writer.put(lambda: self._intake.drafts(batch, born_time))

    def put_drafts(self, make: Callable[[], Sequence[Draft]], *, together: bool = False) -> Sequence[Receipt]:
        """Store the drafts that `make` returns; it runs where no other put does. For brokers."""
        self._check_open()
        return self._writer.put(lambda: [with_last_separator(draft) for draft in make()], together=together)

    def submit(self, drafts: Sequence[DraftFields], *, together: bool = False) -> Submitted:
        """Write drafts to the log and return at once; properties end with their separator. For event loops.

        It is put once `settle` returns its end or more; `on_progress` tells when to look. Hold back while `is_behind`.
        Raises a StoreUnwritable.
        """
        self._check_open()
        return self._writer.submit(drafts, together=together)

    def submit_table(self, table: DraftTable) -> TableAppended:
        """The same for messages that lie in memory, by kernels. For event loops."""
        self._check_open()
        return self._writer.submit_table(table)

    def offer_log(self, source: DraftTable, run: Callable[[QuickAppend], Taken]) -> list[Piece] | None:
        """Have `run` store messages by a kernel; see Writer. None also when the store is closed."""
        return self._writer.offer_log(source, run)

    def store_host(self) -> bytes:
        """Our address, as records have it."""
        return self._parts.commit_log.store_host

    def queue_table(self) -> QueueTable:
        """The numbers of queues that kernels use, too."""
        return self._parts.offsets.table

    def is_behind(self, *, wait_ms: int = 0) -> bool:
        """Whether so much waits for the disk that puts had better wait, too; after `wait_ms`, if it takes so long."""
        return self._writer.is_behind(wait_ms=wait_ms)

    def settle(self) -> int:
        """Make visible what may be seen; returns the log position before which every put is done."""
        if self._parts.dispatcher.position < self._writer.visible_end():
            self._writer.dispatch()
        is_sync = self.settings.durability is Durability.SYNC
        return self._parts.flusher.flushed if is_sync else self._parts.commit_log.chain.end

    @property
    def flushed(self) -> int:
        """The log position before which everything is on disk."""
        return self._parts.flusher.flushed

    def wait_for_disk(self, position: int) -> None:
        """Return when the disk has the log up to `position`. Raises FlushTimeout or SyncFailed."""
        self._parts.flusher.wait(position, self.settings.sync_timeout_ms)

    @property
    def failure(self) -> SyncFailed | None:
        """What the disk did, after which no put is ever done again; None as long as it is well."""
        return self._parts.flusher.failure

    def on_progress(self, call: Callable[[], None]) -> None:
        """Have `call` called, in the flusher's thread, whenever the disk has got something or failed."""
        self._parts.flusher.listeners.append(call)

    def get(
        self,
        topic: str,
        *,
        queue: int,
        offset: int,
        limit: int = 32,
        max_bytes: int = DEFAULT_READ_BYTES,
        tags: str | None = None,
    ) -> Batch:
        """Messages of a queue from `offset` on. The batch tells where to go on, and why it is empty if it is."""
        wanted = TagFilter.parse(tags) if tags is not None else None
        accept = wanted.accepts_code if wanted is not None else None
        found = self.read(topic, queue=queue, offset=offset, limit=limit, max_bytes=max_bytes, accept=accept)
        batch = to_batch(found, self._parts.commit_log, topic=topic, queue=queue)
        if wanted is None:
            return batch
        # Two tags may share a hash: only the text decides.
        return replace(batch, messages=[message for message in batch if wanted.accepts(message.tags)])

    def read(
        self, topic: str, *, queue: int, offset: int, limit: int, max_bytes: int,
        accept: Accept | None = None, wanted: Wanted | None = None,
    ) -> Found:  # fmt: skip
        """The same as bytes in mapped memory; `accept` is asked with each tags code. For brokers."""
        self._check_open()
        found, commit_log = self._parts.queues.find(topic, queue), self._parts.commit_log
        return read_queue(found, commit_log, offset, limit=limit, max_bytes=max_bytes, accept=accept, wanted=wanted)

    def read_bytes(
        self, topic: str, *, queue: int, offset: int, limit: int, max_bytes: int,
        accept: Accept | None = None, wanted: Wanted | None = None,
    ) -> FoundBytes:  # fmt: skip
        """The same in as few pieces as it lies in; those that can be written to are good until the next read."""
        self._check_open()
        found, commit_log = self._parts.queues.find(topic, queue), self._parts.commit_log
        return read_bytes(
            found, commit_log, offset, limit=limit, max_bytes=max_bytes, accept=accept, wanted=wanted,
            gather=self._gather,
        )  # fmt: skip

    def add_filter_bits(self, bits_of: BitsOf) -> None:
        """Have `bits_of` asked, in any thread, for the filter bits of messages of topics with extended queues."""
        self._parts.dispatcher.bits_of = bits_of

    def find_queue(self, topic: str, queue: int) -> AnyQueue | None:
        """A queue as it is kept; None if there is none."""
        return self._parts.queues.find(topic, queue)

    def log_files(self) -> FileChain:
        return self._parts.commit_log.chain

    def use_kernels(self) -> None:
        """Have kernels do what `read_bytes` and `submit` do from now on, for one thread then; they must be loaded."""
        from embermq.store.gather_compiled import CompiledGather

        self._gather = CompiledGather()
        self._writer.use_kernels()

    @property
    def dispatched(self) -> int:
        """The log position before which every message is visible."""
        return self._parts.dispatcher.position

    def outline(self) -> Outline:
        """How far the log may be read, and which messages each queue has. For brokers."""
        self._check_open()
        return make_outline(self._parts, self._writer.lock)

    def query(
        self, topic: str, key: str, *, since: datetime | None = None, until: datetime | None = None, limit: int = 32
    ) -> list[StoredMessage]:
        """The newest `limit` messages of `topic` with this key, or with it as unique key; oldest first."""
        begin = milliseconds_of(since) if since else 0
        end = milliseconds_of(until) if until else END_OF_TIME_MS
        return [to_message(record) for record in self.query_records(topic, key, begin, end, limit=limit)]

    def query_records(self, topic: str, key: str, begin_ms: int, end_ms: int, *, limit: int) -> list[Record]:
        """The same as records, of the time from `begin_ms` to `end_ms`. For brokers."""
        self._check_open()
        index, commit_log = self._parts.index, self._parts.commit_log
        return find_by_key(index, commit_log, topic, key, begin_ms, end_ms, limit=limit) if index is not None else []

    def read_record(self, position: int) -> Record:
        """The record at a log position, checked whole. Raises OutOfRange or CorruptRecord. For brokers."""
        self._check_open()
        return self._parts.commit_log.read(position)

    def select_record(self, position: int, size: int) -> memoryview:
        """The bytes of a record, in mapped memory. Raises OutOfRange. For brokers."""
        return self._parts.commit_log.select(position, size)

    def index_end(self) -> tuple[int, int]:
        """Where the newest record that the key index knows begins, and when it was stored; (0, 0) without one."""
        index = self._parts.index
        return (index.end_position, index.end_time) if index is not None and index.entry_count else (0, 0)

    def entries(self, topic: str, *, queue: int, offset: int, limit: int) -> list[QueueEntry | BatchEntry]:
        """The entries of a queue from `offset` on; none if there is no such queue. For brokers."""
        self._check_open()
        found = self._parts.queues.find(topic, queue)
        if found is None or not found.min_offset <= offset < found.max_offset:
            return []
        return list(found.read(offset, limit))

    def find(self, message_id: str) -> StoredMessage | None:
        """The message with this offset id; None if it is not, or no longer, here."""
        self._check_open()
        _, position = decode_message_id(message_id)
        try:
            return to_message(self._parts.commit_log.read(position))
        except OutOfRange:
            return None

    def find_offset(self, topic: str, *, queue: int, time: datetime, upper: bool = False) -> int:
        """The first offset stored at or after `time`; with `upper` the last one at or before it."""
        self._check_open()
        found = self._parts.queues.find(topic, queue)
        if found is None:
            return 0
        commit_log = self._parts.commit_log
        return found.find_offset(
            milliseconds_of(time),
            upper=upper,
            time_at=lambda entry: commit_log.find_store_time(entry.position, entry.size),
        )

    def store_time(self, topic: str, *, queue: int, offset: int) -> int | None:
        """When the message at an offset was stored, in ms; None if there is none. For brokers."""
        entries = self.entries(topic, queue=queue, offset=offset, limit=1)
        return self._parts.commit_log.find_store_time(entries[0].position, entries[0].size) if entries else None

    def first_store_time(self) -> int | None:
        """When the oldest message of the log was stored, in ms; None if there is none."""
        files = self._parts.commit_log.chain.files
        return first_store_time(files[0]) if files else None

    def free_buffers(self) -> int | None:
        """Write buffers that wait for a log file; None where durability is not pooled."""
        return self._parts.commit_log.chain.free_buffers

    def uncommitted_bytes(self) -> int:
        """What is in write buffers only."""
        chain = self._parts.commit_log.chain
        return max(chain.end - chain.readable_end, 0)

    def offsets(self, topic: str, *, queue: int) -> tuple[int, int]:
        """The first offset of a queue and its next one."""
        found = self._parts.queues.find(topic, queue)
        return (found.min_offset, found.max_offset) if found else (0, 0)

    def queues(self, topic: str) -> list[int]:
        """The queues of `topic` that hold or held a message."""
        return self._parts.queues.numbers_of(topic)

    def topics(self) -> list[str]:
        return self._parts.topics.names()

    def find_topic(self, name: str) -> TopicConfig | None:
        return self._parts.topics.find(name)

    def topic_table(self) -> TopicTable:
        """All topics and the version of their table, as of this moment."""
        return self._parts.topics.table

    def save_topic(self, *configs: TopicConfig) -> None:
        """Make topics or change their settings; they are on disk when this returns."""
        with self._writer.lock:
            self._check_open()
            if self.settings.queue_store is QueueForm.ROCKSDB and any(each.queue_type == "BatchCQ" for each in configs):
                raise NotSupported("queues in a RocksDB are never of type BatchCQ; keep them in files, or leave it out")
            self._parts.topics.save(*configs)

    def delete_topic(self, name: str) -> None:
        """Forget a topic and its queues; its records go when their log files do."""
        with self._writer.lock:
            self._check_open()
            if self._parts.topics.find(name) is None:
                raise TopicNotFound(name)
            # The topic last: queues without a topic would stay for ever, a topic without queues gets them back.
            self._parts.queues.delete_topic(name)
            self._parts.offsets.forget(name)
            self._parts.topics.delete(name)
        self._upkeep.checkpoint()

    def listen(self, listener: Listener) -> None:
        """Have `listener` called, where no other put runs, with every batch that becomes visible."""
        with self._writer.lock:
            self._parts.dispatcher.listeners.append(listener)

    def change(self, **settings: object) -> None:
        """Change some of CHANGEABLE while the store is open. Raises SettingsError; then nothing is changed."""
        self._check_open()
        for name in settings:
            if name not in CHANGEABLE:
                raise SettingsError(f"{name} cannot be changed while the store is open; set it before the next start")
        changed = replace(self.settings, **settings)  # type: ignore[arg-type]
        self.settings = changed
        self._intake.limits = Limits.of(changed)
        self._writer.busy_wait_ms = changed.busy_wait_ms
        self._upkeep.follow(changed)

    def clean(self) -> int:
        """Delete expired log files now, whatever the hour; returns how many went."""
        self._check_open()
        return self._upkeep.clean(asked=True)

    def clean_queues(self) -> int:
        """Delete queue files that only point to what the log no longer has; returns how many went."""
        self._check_open()
        return self._upkeep.clean_queues()

    def clean_unknown_topics(self) -> list[str]:
        """Forget the queues of topics that are in no table; returns the topics."""
        self._check_open()
        return self._upkeep.clean_unknown_topics()

    def checkpoint(self) -> None:
        """Bring queues and index to the disk now, so that the next opening reads less. Raises SyncFailed."""
        self._check_open()
        if not self._upkeep.checkpoint():
            self._writer.check()

    def state(self) -> StoreState:
        """All figures of this moment."""
        parts = self._parts
        chain, index, progress = parts.commit_log.chain, parts.index, parts.checkpoint.progress
        usage = DiskSpace.usage(chain.paths[0])
        refusal = parts.flusher.failure or self._writer.gate.refusal
        is_open = not self._stopping.is_set()
        return StoreState(
            path=str(self.path),
            durability=str(self.settings.durability),
            readable=is_open,
            writable=refusal is None and is_open,
            refusal=str(refusal) if refusal else None,
            refusal_kind=type(refusal).__name__ if refusal else None,
            log_begin=chain.begin,
            log_written=chain.end,
            log_flushed=parts.flusher.flushed,
            dispatched=parts.dispatcher.position,
            flush_behind=max(chain.end - parts.flusher.flushed, 0),
            dispatch_behind=max(chain.end - parts.dispatcher.position, 0),
            log_files=len(chain.files),
            hung_files=len(chain.hung),
            topics=len(parts.topics.names()),
            queues=len(parts.queues),
            index_files=index.file_count if index else 0,
            index_entries=index.entry_count if index else 0,
            disk_free=usage.free,
            disk_total=usage.total,
            syncs=parts.flusher.sync_count,
            sync_times=parts.flusher.sync_times.summary(),
            checkpoint_position=progress.position if progress else 0,
            puts=self._writer.statistics.snapshot(self._clock.monotonic()),
            recovered=parts.recovered,
        )

    def close(self) -> None:
        """Flush, dispatch and checkpoint everything, and let the directory go. A second call does nothing.

        Raises SyncFailed when the disk failed; the next opening then recovers as after a crash.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._housekeeper.stop()
        is_clean = False
        with self._writer.lock:
            self._writer.close()
            try:
                self._parts.flusher.stop()
                self._writer.dispatch()
                is_all_there = self._parts.dispatcher.position == self._parts.commit_log.chain.end
                is_clean = self._upkeep.checkpoint() and is_all_there
            finally:
                close_parts(self._parts, is_clean=is_clean)
        if self._writer.gate.is_closed:
            self._writer.gate.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._stopping.is_set():
            raise StoreClosed(self.path)
