"""Checks a whole store: every record, every queue entry, every key.

    files ─→ log, record by record ─→ queues: does its entry fit it? ─→ entries without a record
                                   └→ index:  are its keys next?     └→ keys too many or too few

Nothing is changed, and nothing but a file that cannot be found is fatal: whatever the bytes
are, there is a verdict. One thing that is broken is reported once: entries that lead to a
damaged record are no further damage.

What a crash leaves is not damage, because opening the store repairs it: after one, and while
an owner works on the store, queues and index are compared only up to the checkpoint, or up
to where RocketMQ had dispatched.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from embermq.errors import EmberError
from embermq.files.lock import is_locked
from embermq.format.checkpoint import CHECKPOINT_SIZE, Progress, decode_progress
from embermq.log.queue_kind import QueueKind
from embermq.log.recovery import Report
from embermq.store.layout import ABORT_FILE, CHECKPOINT_FILE, CONFIG_FOLDER, INDEX_FOLDER, LOG_FOLDER
from embermq.store.parts import TOPICS_FILE
from embermq.store.reader import StoreReader
from embermq.store.verify_compacted import CompactedCheck
from embermq.store.verify_damage import Damage, DamageKind, DamageList, Hidden
from embermq.store.verify_files import Views, check_segments, find_segments, usual_size
from embermq.store.verify_index import IndexCheck
from embermq.store.verify_log import EVERYTHING, Judgement, LogWalk
from embermq.store.verify_queues import FindKind, QueuesCheck

__all__ = ["Damage", "DamageKind", "Hidden", "StoreCheck", "Verdict", "verify_store"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What `verify_store` found."""

    records: int  # that are whole
    bytes: int  # of the log, from its first record to its end
    damage: list[Damage]
    is_clean: bool  # the last owner closed the store

    @property
    def sound(self) -> bool:
        return not self.damage


def verify_store(reader: StoreReader, report: Report = lambda done, total: None) -> Verdict:
    """Check every record, queue entry and key; `report` is told the bytes of the log done and in all."""
    check = StoreCheck(reader, report)
    index = check.open_index()
    for batch in check.log.iter_batches():
        check.queues.check(batch)
        index.check(batch)
    return check.finish(index)


class StoreCheck:
    """The parts of a check.

    Those who check only records from position `begin` on, as a part of a check of all, have another list for damage of
    the log than for all the rest, which whoever puts the parts together finds by himself.
    """

    def __init__(self, reader: StoreReader, report: Report, *, begin: int | None = None) -> None:
        self.root = root = reader.path
        self.damage = DamageList(root)
        self.views = Views(self.damage)
        # First of all, because an owner who works on the store keeps what it promises.
        self.progress = _read_progress(root / CHECKPOINT_FILE)
        of_log = self.damage if begin is None else DamageList(root)
        self.log = _open_log(reader, self.views, self.damage, of_log, report)
        kind_of = _find_kinds(reader, self.damage)
        self.queues = QueuesCheck(
            root, self.log, self.views, self.damage, kind_of=kind_of, progress=self.progress, begin=begin
        )
        self.is_clean, self._in_use = not (root / ABORT_FILE).exists(), is_locked(root)

    @cached_property
    def judgement(self) -> Judgement:
        """What must be in queues and index."""
        if self.is_clean and not self._in_use:
            return Judgement(EVERYTHING, False)
        return Judgement(self.progress.position if self.progress else self.queues.last_position, self._in_use)

    def open_index(self, damage: DamageList | None = None) -> IndexCheck:
        """The check of the index, which reports to `damage` or with all the rest."""
        damage = self.damage if damage is None else damage
        return IndexCheck(self.root / INDEX_FOLDER, self.log, self.views, damage, self.judgement, self.progress)

    def finish(self, index: IndexCheck) -> Verdict:
        """All records were looked up: find what is missing, and what is too much."""
        log, progress = self.log, self.progress
        if not self._in_use:
            log.report_tail()
        self.queues.finish(self.judgement)
        index.finish()
        CompactedCheck(self.root, self.views, self.damage, self.judgement).run()
        if progress is not None and progress.position > log.end:
            detail = f"it says that the log was safe up to {progress.position}; it ends at {log.end}"
            self.damage.add(self.root / CHECKPOINT_FILE, 0, DamageKind.CHECKPOINT, detail)
        return Verdict(log.records, log.end - log.begin, self.damage.items(), self.is_clean)


def _open_log(reader: StoreReader, views: Views, damage: DamageList, of_log: DamageList, report: Report) -> LogWalk:
    settings = reader.settings
    folders = [*(settings.log_paths or [reader.path / LOG_FOLDER]), *settings.read_only_log_paths]
    segments = find_segments(map(Path, folders), damage)
    size = settings.log_file_size or usual_size([segments])
    missing = check_segments(segments, size, damage)
    return LogWalk(segments, size, views, of_log, report, missing)


def _read_progress(path: Path) -> Progress | None:
    try:
        return decode_progress(path.read_bytes()[:CHECKPOINT_SIZE].ljust(CHECKPOINT_SIZE, b"\0"))
    except OSError:
        return None


def _find_kinds(reader: StoreReader, damage: DamageList) -> FindKind:
    """What kind of queue each topic calls for, as far as the table of topics can be read."""
    try:
        topics = reader.load_topics()
    except (EmberError, ValueError, OSError) as error:
        damage.add(reader.path / CONFIG_FOLDER / TOPICS_FILE, 0, DamageKind.FILE, f"it cannot be read: {error}")
        return lambda topic: None

    def kind_of(topic: str) -> QueueKind | None:
        return topics.kind_of(topic) if topics.find(topic) else None

    return kind_of
