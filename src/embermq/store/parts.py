"""What a store is made of: put together when it opens, taken apart when it closes."""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from embermq.clock import Clock
from embermq.errors import CorruptRecord, StoreMissing, StoreReadOnly
from embermq.files.file_chain import FileChain
from embermq.files.lock import DirectoryLock
from embermq.files.open_files import most_mapped_files
from embermq.files.preparer import WINDOW, Preparer
from embermq.files.space import DiskSpace
from embermq.files.staging import ChunkPool
from embermq.files.write_buffer import WriteBufferPool
from embermq.format.host import encode_host
from embermq.log.commit_log import CommitLog
from embermq.log.flusher import Flusher, FlushTimes
from embermq.log.key_index import KeyIndex
from embermq.log.light_offsets import LightOffsets
from embermq.log.queue_offsets import QueueOffsets
from embermq.log.queue_table import QueueTable
from embermq.log.recent_pages import RecentPages
from embermq.log.recovery import Report
from embermq.model.delay import parse_delay_levels
from embermq.store.checkpoint_file import CheckpointFile
from embermq.store.cold_pages import choose_hot_bytes
from embermq.store.database_queues import DatabaseQueues, no_rocksdict
from embermq.store.dispatcher import Dispatcher
from embermq.store.layout import Layout, find_layout
from embermq.store.opening import Recovered, recover
from embermq.store.queues import SIMPLE_FOLDER, Queues, QueueStore
from embermq.store.running_mark import RunningMark
from embermq.store.settings import Durability, QueueForm, StoreSettings
from embermq.store.state import refusal_of
from embermq.store.taking_over import take_over
from embermq.store.topics import Topics

log = logging.getLogger(__name__)

LOG_RESERVE_STEP = 8 << 20  # what a map can use; a new store must not take gigabytes at once
SYNC_WINDOW = 16 << 20  # zeros that are on the disk ahead of the log's end
EARLY_FLUSHES = 4  # the log is flushed before its time when a quarter of what may wait does
TOPICS_FILE = "topics.json"


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an open store."""

    layout: Layout
    lock: DirectoryLock
    topics: Topics
    preparer: Preparer | None
    commit_log: CommitLog
    mark: RunningMark
    queues: QueueStore
    index: KeyIndex | None
    offsets: QueueOffsets
    dispatcher: Dispatcher
    flusher: Flusher
    checkpoint: CheckpointFile
    recovered: Recovered
    delay_levels: tuple[int, ...]


def open_parts(path: Path, settings: StoreSettings, clock: Clock, report: Report) -> Parts:
    """Lock the directory, load and recover it, and start its threads. Lets go of everything when it fails."""
    lock = _lock(path)
    with ExitStack() as undo:
        undo.callback(lock.release)
        parts = _open_locked(path, lock, settings, clock, report, undo)
        undo.pop_all()
    return parts


def close_parts(parts: Parts, *, is_clean: bool) -> None:
    """Close everything, whatever fails on the way; the threads have ended.

    Only a clean end lets the next opening trust the checkpoint alone.
    """
    with ExitStack() as steps:  # the last one added goes first
        steps.callback(parts.lock.release)
        if is_clean:
            steps.callback(parts.mark.remove)
        steps.callback(parts.commit_log.chain.close)
        if parts.index is not None:
            steps.callback(parts.index.close)
        steps.callback(parts.queues.close)
        if parts.preparer is not None:
            steps.callback(parts.preparer.stop)


def _lock(path: Path) -> DirectoryLock:
    if not path.parent.is_dir():
        raise StoreMissing(path, f"{path.parent} is no directory; make it first")
    if path.exists() and not path.is_dir():
        raise StoreMissing(path, "it is a file, a directory is wanted")
    try:
        path.mkdir(exist_ok=True)
        lock = DirectoryLock(path)
        lock.take()
    except OSError as error:
        raise StoreReadOnly(path, error) from error
    return lock


def _open_locked(
    path: Path, lock: DirectoryLock, settings: StoreSettings, clock: Clock, report: Report, undo: ExitStack
) -> Parts:
    layout = find_layout(path, settings)
    if settings.queue_store is QueueForm.ROCKSDB:
        _take_over(layout, clock)
    topics = Topics(
        layout.config_folder / TOPICS_FILE,
        clock=clock,
        default_queues=settings.default_queues,
        auto_create=settings.auto_create_topics,
    )
    chain, preparer = _make_chain(layout, settings, clock, undo)
    chain.load()
    table = QueueTable()
    queues = undo.enter_context(closing(_make_queues(layout, topics, settings, table)))
    queues.load()
    index = _load_index(layout, settings, clock)
    if index is not None:
        undo.callback(index.close)
    checkpoint = CheckpointFile(layout.checkpoint_file)
    commit_log = _make_log(chain, settings, clock)
    delay_levels = parse_delay_levels(settings.delay_levels)
    dispatcher = Dispatcher(
        commit_log, queues, index, delay_levels=delay_levels, light_queues=settings.light_queues, position=0
    )
    mark = RunningMark(layout.abort_file)
    _silence(mark, layout)
    recovered = recover(
        layout,
        commit_log,
        dispatcher,
        checkpoint,
        verify_properties=settings.verify_property_crc,
        has_topic=topics.is_known if topics.names() else lambda _: True,
        report=report,
    )
    light = _make_light_offsets(queues, chain, dispatcher) if settings.light_queues else None
    offsets = QueueOffsets(table, light=light)
    for topic, queue, offset in queues.next_offsets(with_light=light is None):
        offsets.set_next(topic, queue, offset)
    dispatcher.publish_to(mark.publish)
    _make_mark(mark, layout)
    chain.prepare_next()
    recent = _make_recent(chain, settings, clock)
    flusher = Flusher(chain, times=_flush_times(settings), recent=recent, clock=clock)
    flusher.start()
    return Parts(
        layout, lock, topics, preparer, commit_log, mark, queues, index, offsets, dispatcher, flusher, checkpoint,
        recovered, delay_levels,
    )  # fmt: skip


def _take_over(layout: Layout, clock: Clock) -> None:
    try:
        take_over(layout.config_folder, now_ms=clock.now_ms())
    except ImportError as error:
        raise no_rocksdict(error) from error


def _make_queues(layout: Layout, topics: Topics, settings: StoreSettings, table: QueueTable) -> QueueStore:
    if settings.queue_store is QueueForm.ROCKSDB:
        return DatabaseQueues(layout.root / SIMPLE_FOLDER)
    return Queues(
        layout.root,
        layout.queue_sizes,
        kind_of=topics.kind_of,
        extended=settings.extended_queues,
        table=table,
        most_files=settings.max_open_queue_files or most_mapped_files(),
    )


def _make_light_offsets(queues: QueueStore, chain: FileChain, dispatcher: Dispatcher) -> LightOffsets:
    def find(name: str) -> int:
        found = queues.find(name, 0)
        return 0 if found is None else found.max_offset

    return LightOffsets(find, log_end=lambda: chain.end, dispatched=lambda: dispatcher.position)


def _make_log(chain: FileChain, settings: StoreSettings, clock: Clock) -> CommitLog:
    return CommitLog(
        chain,
        store_host=encode_host(settings.host()),
        clock=clock,
        property_crc=settings.property_crc,
        verify_properties=settings.verify_property_crc,
    )


def _silence(mark: RunningMark, layout: Layout) -> None:
    try:
        mark.silence()
    except OSError as error:  # then a reader may be told of damage while the store is opened
        log.error("not marked as open reason=%s", refusal_of(error, layout.abort_file))


def _make_mark(mark: RunningMark, layout: Layout) -> None:
    try:
        mark.make()
    except OSError as error:  # the store can be read; upkeep tries again before puts are taken
        log.error("not marked as open reason=%s", refusal_of(error, layout.abort_file))


def _make_chain(
    layout: Layout, settings: StoreSettings, clock: Clock, undo: ExitStack
) -> tuple[FileChain, Preparer | None]:
    preparer = pool = None
    is_sync = settings.durability is Durability.SYNC
    if settings.prepare_files:
        preparer = Preparer(window=SYNC_WINDOW if is_sync else WINDOW, lock_pages=settings.lock_pages)
        undo.callback(preparer.stop)
    if settings.durability is Durability.POOLED:
        pool = WriteBufferPool(settings.pool_buffers, layout.log_file_size)
    chain = FileChain(
        layout.log_paths,
        layout.log_file_size,
        preparer=preparer,
        pool=pool,
        chunks=ChunkPool() if is_sync else None,
        reserve_step=LOG_RESERVE_STEP,
        read_only_paths=layout.read_only_log_paths,
        is_full=lambda folder: DiskSpace.usage(folder).free < settings.reserve_bytes + layout.log_file_size,
        clock=clock,
    )
    undo.callback(chain.close)
    return chain, preparer


def _make_recent(chain: FileChain, settings: StoreSettings, clock: Clock) -> RecentPages:
    return RecentPages(
        chain,
        least=settings.recent_bytes,
        growth=settings.recent_bytes_per_s,
        most=choose_hot_bytes(settings.hot_bytes),
        clock=clock,
    )


def _load_index(layout: Layout, settings: StoreSettings, clock: Clock) -> KeyIndex | None:
    if not settings.index_enabled:
        return None
    index = KeyIndex(layout.index_folder, slots=layout.index_slots, entries=layout.index_entries, clock=clock)
    try:
        index.load()
    except CorruptRecord as damage:
        log.error(
            "index dropped, it is made again from the log folder=%s reason=%s", layout.index_folder, damage.reason
        )
        index.destroy()
        index.load()
    return index


def _flush_times(settings: StoreSettings) -> FlushTimes:
    if settings.durability is Durability.SYNC:
        return FlushTimes()
    pooled = settings.durability is Durability.POOLED
    return FlushTimes(
        interval_s=settings.flush_interval_ms / 1000,
        least_pages=settings.flush_least_pages,
        thorough_interval_s=settings.flush_thorough_interval_ms / 1000,
        most_bytes=max(settings.max_unflushed_bytes // EARLY_FLUSHES, 1),
        commit_interval_s=settings.commit_interval_ms / 1000 if pooled else None,
        commit_least_pages=settings.commit_least_pages,
        commit_thorough_interval_s=settings.commit_thorough_interval_ms / 1000,
    )
