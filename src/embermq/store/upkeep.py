"""What an open store does besides reading and writing: checkpoints, space, expiry, catching up."""

from __future__ import annotations

import logging

from embermq.clock import Clock
from embermq.errors import FlushTimeout, StoreUnwritable, SyncFailed
from embermq.format.checkpoint import Checkpoint, Progress
from embermq.log.key_index import FOREVER_MS
from embermq.store.cleaner import Cleaner, find_shortage
from embermq.store.cold_pages import INTERVAL_S, ColdPages
from embermq.store.housekeeper import Duty
from embermq.store.parts import Parts
from embermq.store.settings import StoreSettings
from embermq.store.state import refusal_of
from embermq.store.writer import Writer

log = logging.getLogger(__name__)

SPACE_CHECK_S = 0.5
CATCH_UP_S = 0.2


class Upkeep:
    """The duties of the housekeeper, and the same on demand."""

    def __init__(self, parts: Parts, writer: Writer, cleaner: Cleaner, settings: StoreSettings, clock: Clock) -> None:
        self._parts = parts
        self._writer = writer
        self._cleaner = cleaner
        self._checkpoint_s = settings.checkpoint_interval_ms / 1000
        self._checkpoint_bytes = settings.checkpoint_bytes
        self._clean_s = settings.clean_interval_ms / 1000
        self._sync_timeout_ms = settings.sync_timeout_ms
        self._clock = clock
        self._checkpoint_at = clock.monotonic()
        self._cold = ColdPages(parts.commit_log.chain, settings.hot_bytes)
        self.follow(settings)

    def follow(self, settings: StoreSettings) -> None:
        """Watch the space, and clean, with these settings from now on."""
        self._reserve = settings.reserve_bytes
        self._full_ratio = settings.disk_full_ratio
        self._cleaner.follow(settings)

    def duties(self) -> list[Duty]:
        return [
            Duty("space", SPACE_CHECK_S, self.watch_space),
            Duty("catch up", CATCH_UP_S, self.catch_up),
            Duty("rates", 1.0, lambda: self._writer.statistics.sample(self._clock.monotonic())),
            Duty("checkpoint", min(1.0, self._checkpoint_s), self._checkpoint_when_due),
            Duty("cold pages", INTERVAL_S, self._cold.give_back),
            Duty("retention", self._clean_s, self.clean),
        ]

    def checkpoint(self) -> bool:
        """Bring log, queues and index to the disk and remember how far they are; False if that did not work."""
        parts = self._parts
        if parts.flusher.failure or self._writer.gate.is_closed:
            return False
        with self._writer.lock:
            position, time = parts.dispatcher.position, parts.dispatcher.last_store_time
            queue_count, entry_count = len(parts.queues), parts.queues.entry_count
            index_files, index_entries = (parts.index.file_count, parts.index.entry_count) if parts.index else (0, 0)
            newest_index_time = parts.index.newest_begin_time if parts.index else FOREVER_MS
        previous = parts.checkpoint.checkpoint
        time = max(time, previous.log_time)
        # After a crash RocketMQ drops the newest index file and reads the log from this time on to fill it again.
        queue_time = min(time, newest_index_time)
        try:
            parts.flusher.wait(position, self._sync_timeout_ms)
            parts.queues.flush()
            if parts.index:
                parts.index.flush()
        except FlushTimeout as error:
            log.warning("no checkpoint for now reason=%s", error)
            return False
        except SyncFailed as error:
            log.critical("sync failed path=%s cause=%s; puts are refused until restart", error.path, error.cause)
            self._writer.gate.close(error)
            return False
        # Last, because it promises that all the rest is on disk. It is written whole each time, so one that
        # fails does not harm the next.
        parts.checkpoint.save(
            Checkpoint(time, queue_time, time, previous.master_flushed_position, previous.confirmed_position),
            Progress(position, queue_count, entry_count, index_files, index_entries, time, queue_time, time),
        )
        self._checkpoint_at = self._clock.monotonic()
        return True

    def watch_space(self) -> None:
        """Refuse puts while space is short, and allow them as soon as it is not."""
        shortage = find_shortage(self._parts.commit_log.chain.paths, self._reserve, self._full_ratio) or self._mark()
        if shortage is not None:
            if self._writer.gate.refusal is None:
                log.error("refusing puts reason=%s", shortage)
            self._writer.gate.refuse(shortage)
        elif self._writer.gate.allow():
            log.info("space is back; puts are allowed again")

    def _mark(self) -> StoreUnwritable | None:
        """See to it that the store is marked as open before a put changes it; the reason if that fails."""
        mark = self._parts.mark
        try:
            if not mark.is_made:
                mark.make()
        except OSError as error:
            return refusal_of(error, self._parts.layout.abort_file)
        return None

    def catch_up(self) -> None:
        """Dispatch what became visible while nobody put."""
        if self._parts.dispatcher.position < self._writer.visible_end():
            self._writer.dispatch()

    def clean(self, *, asked: bool = False) -> int:
        """Delete what retention allows; returns how many log files went. None go while the disk cannot be trusted."""
        if not self._secure():
            return 0
        deleted = self._cleaner.clean(asked=asked)
        if deleted:
            self.checkpoint()
        return deleted

    def clean_queues(self) -> int:
        """Delete queue files that only point to what the log no longer has; returns how many went."""
        with self._writer.lock:
            return self._parts.queues.delete_before(self._parts.commit_log.chain.begin)

    def clean_unknown_topics(self) -> list[str]:
        """Forget the queues of topics that are in no table; returns the topics."""
        parts = self._parts
        with self._writer.lock:
            unknown = sorted({topic for topic, _, _ in parts.queues.items() if not parts.topics.is_known(topic)})
            for topic in unknown:
                parts.queues.delete_topic(topic)
                parts.offsets.forget(topic)
        if unknown:
            self.checkpoint()
        return unknown

    def _secure(self) -> bool:
        """Have in queues and index, and on disk, what only the files tell that may go: all but the last."""
        parts = self._parts
        files, progress = parts.commit_log.chain.files, parts.checkpoint.progress
        if len(files) < 2 or (progress is not None and progress.position >= files[-1].start):
            return True
        try:
            parts.flusher.wait(files[-1].start, self._sync_timeout_ms)
        except (FlushTimeout, SyncFailed) as error:
            log.warning("no log file is deleted for now reason=%s", error)
            return False
        self.catch_up()
        return self.checkpoint()

    def _checkpoint_when_due(self) -> None:
        progress = self._parts.checkpoint.progress
        since = self._parts.dispatcher.position - (progress.position if progress else 0)
        elapsed = self._clock.monotonic() - self._checkpoint_at
        if since >= self._checkpoint_bytes or (since and elapsed >= self._checkpoint_s):
            self.checkpoint()
