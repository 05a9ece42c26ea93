"""Deletes what retention allows, and keeps an eye on the free space."""

from __future__ import annotations

import logging
import threading
from datetime import datetime
from pathlib import Path

from embermq.clock import Clock
from embermq.errors import CorruptRecord, DiskFull
from embermq.files.mapped_file import MappedFile
from embermq.files.space import DiskSpace
from embermq.format.record import scan_record
from embermq.log.commit_log import CommitLog
from embermq.log.key_index import KeyIndex
from embermq.log.retention import LogFile, Moment, Policy, Reason, plan_deletions
from embermq.store.archive_marks import find_archived
from embermq.store.queues import QueueStore
from embermq.store.settings import StoreSettings

log = logging.getLogger(__name__)


class Cleaner:
    """Expiry of log files, and of the queue and index files that pointed into them."""

    def __init__(
        self,
        path: Path,
        commit_log: CommitLog,
        queues: QueueStore,
        index: KeyIndex | None,
        settings: StoreSettings,
        *,
        clock: Clock,
        writing: threading.RLock,
        stopping: threading.Event,
    ) -> None:
        self._path = path
        self._commit_log = commit_log
        self._queues = queues
        self._index = index
        self._clock = clock
        self._writing = writing
        self._stopping = stopping
        self.follow(settings)

    def follow(self, settings: StoreSettings) -> None:
        """Work with these settings from the next round on."""
        self._hours = settings.delete_hours()
        self._pause_s = settings.delete_pause_ms / 1000
        self._hung_timeout_ms = settings.hung_file_timeout_ms
        self._waits_for_archive = settings.wait_for_archive
        self._policy = Policy(
            retention_ms=int(settings.retention_hours * 3_600_000),
            max_bytes=settings.max_bytes,
            delete_batch=settings.delete_batch,
            disk_max_ratio=settings.disk_max_ratio,
            disk_clean_ratio=settings.disk_clean_ratio,
        )

    def clean(self, *, asked: bool = False) -> int:
        """One round; returns how many log files went. Slow on purpose: it pauses after each."""
        chain = self._commit_log.chain
        chain.retry_hung(self._hung_timeout_ms, self._clock.now_ms())
        going = plan_deletions(self._log_files(), self._policy, self._moment(asked=asked))
        if not going:
            return 0
        with self._writing:  # first, so that no reader is sent to what is about to go
            self._queues.correct_min(going[-1][0].start + going[-1][0].size)
        deleted = self._delete(going)
        with self._writing:
            self._queues.delete_before(chain.begin)
            if self._index is not None:
                self._index.delete_before(chain.begin)
        return deleted

    def _delete(self, going: list[tuple[LogFile, Reason]]) -> int:
        deleted = 0
        for file, reason in going:
            if deleted and self._stopping.wait(self._pause_s):
                break
            with self._writing:
                if not self._commit_log.chain.delete_before(file.start + file.size):
                    break
            log.info("deleted log file start=%d reason=%s", file.start, reason)
            deleted += 1
        return deleted

    def _log_files(self) -> list[LogFile]:
        files = self._commit_log.chain.files
        if not files:
            return []
        later = [first_store_time(file) for file in files[1:]] + [None]
        return [LogFile(file.start, file.size, newest) for file, newest in zip(files, later, strict=True)]

    def _moment(self, *, asked: bool) -> Moment:
        now_ms = self._clock.now_ms()
        return Moment(
            now_ms=now_ms,
            in_window=datetime.fromtimestamp(now_ms / 1000).hour in self._hours,
            asked=asked,
            disk_ratio=min(DiskSpace.usage(path).ratio for path in self._commit_log.chain.paths),
            archived=find_archived(self._path) if self._waits_for_archive else None,
        )


def first_store_time(file: MappedFile) -> int | None:
    """When a file's first message was stored: no message of the file before it is newer."""
    try:
        first = scan_record(file.view, 0, file.start, check_body=False) if file.readable else None
    except CorruptRecord:
        return None
    return first.store_time if first else None


def find_shortage(paths: tuple[Path, ...], reserve: int, full_ratio: float) -> DiskFull | None:
    """The reason to refuse puts, when no path has room left."""
    shortage = None
    for path in paths:
        usage = DiskSpace.usage(path)
        if usage.free < reserve:
            shortage = DiskFull(path, free=usage.free, limit=f"reserve_bytes={reserve}")
        elif usage.ratio > full_ratio:
            shortage = DiskFull(path, free=usage.free, limit=f"disk_full_ratio={full_ratio}")
        else:
            return None
    return shortage
