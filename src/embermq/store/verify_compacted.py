"""Checks the files of compacted topics: the only place of messages that the log has let go.

    compactionLog/TOPIC/QUEUE/NAME ─→ a log of one file ─┐
    compactionCq/TOPIC/QUEUE/NAME  ─→ its entries ───────┴→ compared as log and queues are

Offsets have gaps between them, and a file may end before its time. What a crash leaves is no damage: the newest pair of
a queue is judged up to its last entry, and halves while files are swapped are not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from embermq.format.batch_entry import BATCH_ENTRY_SIZE, END_MARK
from embermq.format.compacted import COMPACTED_LOG_FOLDER, COMPACTED_QUEUE_FOLDER, COMPACTION_FOLDER, pair_folders
from embermq.log.placed import Placed
from embermq.store.verify_damage import DamageKind, DamageList, Hidden, Ranges
from embermq.store.verify_entries import BatchEntries
from embermq.store.verify_files import Segment, Views, find_nonzero, is_position
from embermq.store.verify_log import EVERYTHING, Judgement, LogWalk, Piece
from embermq.store.verify_queues import QueuesCheck, iter_folders

_SWAPPING_FOLDER: Final = "compacting"  # is there while files are made and swapped


class CompactedEntries(BatchEntries):
    """The entries of one pair of files: each has one message, and offsets rise with gaps between them."""

    has_gaps = True

    @property
    def used(self) -> int:
        """The number behind the last entry, without the mark that closes a file."""
        used = super().used
        return used - 1 if used and self.read(used - 1) == END_MARK else used

    def hidden(self, first: int, last: int) -> list[Hidden]:
        begin, end = self.read(first), self.read(last)
        if begin is None or end is None or not (begin.is_valid and end.is_valid):
            return super().hidden(first, last)
        return [Hidden(self.topic, self.queue, begin.base_offset, end.base_offset + 1)]

    def is_below(self, item: Placed) -> bool:
        return False  # nothing expires in here

    def is_of_former_life(self, item: Placed) -> bool:
        return False

    def _follows(self, index: int) -> bool:
        before, entry = self.read(index - 1), self.read(index)
        return before is None or entry is None or not before.is_valid or before.base_offset < entry.base_offset


class CompactedCheck:
    """All compacted queues of a store."""

    def __init__(self, root: Path, views: Views, damage: DamageList, judgement: Judgement) -> None:
        self._folder = root / COMPACTION_FOLDER
        self._views = views
        self._damage = damage
        self._judgement = judgement

    def run(self) -> None:
        """Report what is wrong with them."""
        queues = {
            (topic, queue)
            for name in (COMPACTED_LOG_FOLDER, COMPACTED_QUEUE_FOLDER)
            for topic, queue, _ in iter_folders(self._folder / name)
        }
        for topic, queue in sorted(queues):
            self._check_queue(topic, queue)

    def _check_queue(self, topic: str, queue: int) -> None:
        log_folder, queue_folder = pair_folders(self._folder, topic, queue)
        logs, queues = _names_in(log_folder), _names_in(queue_folder)
        if not (log_folder / _SWAPPING_FOLDER).exists():
            for name in sorted(logs ^ queues):
                here, there = (log_folder, queue_folder) if name in logs else (queue_folder, log_folder)
                self._report_half(topic, queue, here / name, there / name)
        names = sorted(logs & queues)
        for name in names:
            walk = self._open_log(log_folder / name, self._damage)
            entries = self._open_entries(topic, queue, queue_folder / name, log_begin=walk.begin)
            judgement = self._judgement
            is_settled = judgement.is_settled or (name != names[-1] and not judgement.in_use)
            self._compare(walk, entries, is_settled=is_settled)

    def _report_half(self, topic: str, queue: int, half: Path, other: Path) -> None:
        """A file that was made just before a crash is empty, and nothing is lost with its other half."""
        if find_nonzero(self._views.of(half), half, 0) is None:
            return
        folder = half.parent.parent.parent.name
        if folder == COMPACTED_QUEUE_FOLDER:
            entries = self._open_entries(topic, queue, half, log_begin=0)
            hides = entries.hidden(0, entries.used - 1)
        else:
            walk = self._open_log(half, DamageList(self._folder))
            found = [item for batch in walk.iter_batches() for piece in batch.pieces for item in _ends_of(piece)]
            hides = [Hidden(topic, queue, found[0].offset, found[-1].offset + 1)] if found else []
        self._damage.add(other, 0, DamageKind.FILE, f"it is missing, though {folder} has one of this name", hides=hides)

    def _open_log(self, path: Path, damage: DamageList) -> LogWalk:
        size = len(self._views.of(path))
        return LogWalk([Segment(path, int(path.name), size)], size, self._views, damage, _tell_nobody, Ranges())

    def _open_entries(self, topic: str, queue: int, path: Path, *, log_begin: int) -> CompactedEntries:
        size = len(self._views.of(path))
        whole = size - size % BATCH_ENTRY_SIZE
        return CompactedEntries(
            path.parent, topic, queue, [Segment(path, 0, size)], whole, self._views, log_begin=log_begin
        )

    def _compare(self, walk: LogWalk, entries: CompactedEntries, *, is_settled: bool) -> None:
        check = QueuesCheck(self._folder, walk, self._views, self._damage, kind_of=lambda _: None, progress=None)
        check.add(entries)
        for batch in walk.iter_batches():
            check.check(batch)
        if is_settled:
            walk.report_tail()
        check.finish(Judgement(EVERYTHING, False) if is_settled else Judgement(_last_position(entries), True))


def _last_position(entries: CompactedEntries) -> int:
    last = entries.read(entries.used - 1)
    return last.position if last is not None and last.is_valid else 0


def _names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("[0-9]*") if is_position(path.name) and path.is_file()}


def _ends_of(piece: Piece) -> list[Placed]:
    """The first and the last record of a piece."""
    return [Placed(*piece[number]) for number in (0, len(piece) - 1)]


def _tell_nobody(done: int, total: int) -> None:
    """The log is what progress is of."""
