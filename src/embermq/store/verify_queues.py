"""Compares the entries of all queues with the records they should lead to, both ways.

The log is walked once. Each record is looked up in its queue, where its entry is known by
the offset; so all that is kept in memory of a sound queue is one range of offsets. What did
not fit is looked at again in the end, when it is known which other record claims the place.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from embermq.log.dispatching import NOT_QUEUED, light_copies
from embermq.log.placed import Placed
from embermq.log.queue_kind import QueueKind
from embermq.model.properties import INNER_MULTI_DISPATCH
from embermq.store.queues import BATCH_FOLDER, EXTENDED_FOLDER, SIMPLE_FOLDER
from embermq.store.verify_damage import DamageKind, DamageList
from embermq.store.verify_entries import NO_INDEX, BatchEntries, Entries, SimpleEntries
from embermq.store.verify_files import Segment, Views, check_segments, find_segments, usual_size
from embermq.store.verify_log import LogWalk

_MULTI_DISPATCH = INNER_MULTI_DISPATCH.encode()
_by_queue = itemgetter(0, 1)  # topic and queue of a Placed

QueueFolder = tuple[str, int, Path]  # topic, queue, and where its files are
FindKind = Callable[[str], QueueKind | None]  # what a topic calls for; None if it is not configured


class Judgement(NamedTuple):
    """What must be in queues and index, and what may be there."""

    until: int  # records that begin before it must be in their queue
    in_use: bool  # the log grows meanwhile, so entries may lead behind its end


class _Checked:
    """One queue and what did not fit."""

    __slots__ = ("entries", "unmatched_indexes", "unmatched_positions")

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.unmatched_indexes = array("q")
        self.unmatched_positions = array("q")


class QueuesCheck:
    """All queues of a store."""

    def __init__(
        self, root: Path, log: LogWalk, views: Views, damage: DamageList, *, kind_of: FindKind, judge_missing: bool
    ) -> None:
        self.last_position = -1  # of the last record whose entry was found
        self._log = log
        self._views = views
        self._damage = damage
        self._kind_of = kind_of
        self._judge_missing = judge_missing  # whether a topic without queue directories is damage
        self._queues: dict[tuple[str, int], _Checked] = {}
        self._open_simple(root)
        self._open_batch(root)

    @property
    def count(self) -> int:
        """How many queues have a directory."""
        return sum(checked.entries.has_folder for checked in self._queues.values())

    @property
    def entry_count(self) -> int:
        """The sum of all next offsets."""
        return sum(checked.entries.next_offset for checked in self._queues.values())

    def check(self, items: list[Placed]) -> None:
        """Look the records up in their queues. They come in the order of the log."""
        groups: dict[tuple[str, int], list[Placed]] = {}
        for item in items:
            if not item.sys_flag & NOT_QUEUED:
                groups.setdefault(_by_queue(item), []).append(item)
        for key, group in groups.items():
            checked = self._queues.get(key) or self._add_missing(*key)
            self._match(checked, group)
        for item in items:
            if _MULTI_DISPATCH in item.properties and not item.sys_flag & NOT_QUEUED:
                self._check_copies(item)

    def finish(self, judgement: Judgement) -> None:
        """All records were looked up: report what is missing, and what is too much."""
        for _, checked in sorted(self._queues.items()):
            self._report_unmatched(checked, judgement)
            self._report_unconfirmed(checked.entries, judgement)

    def _open_simple(self, root: Path) -> None:
        folders, size = self._find_folders(root / SIMPLE_FOLDER, QueueKind.SIMPLE)
        extended = {}
        for topic, queue, folder in _iter_folders(root / EXTENDED_FOLDER):
            extended[topic, queue] = find_segments([folder], self._damage)
        extended_size = usual_size(extended.values())
        for segments in extended.values():
            check_segments(segments, extended_size, self._damage)
        for topic, queue, folder, segments in folders:
            check_segments(segments, size, self._damage)
            more = extended.get((topic, queue), [])
            entries = SimpleEntries(folder, topic, queue, segments, size, self._views, extended=more)
            self._queues[topic, queue] = _Checked(entries)

    def _open_batch(self, root: Path) -> None:
        folders, size = self._find_folders(root / BATCH_FOLDER, QueueKind.BATCH)
        for topic, queue, folder, segments in folders:
            check_segments(segments, size, self._damage)
            if (topic, queue) not in self._queues or self._kind_of(topic) is QueueKind.BATCH:
                entries = BatchEntries(folder, topic, queue, segments, size, self._views, log_begin=self._log.begin)
                self._queues[topic, queue] = _Checked(entries)

    def _find_folders(self, folder: Path, kind: QueueKind) -> tuple[list[tuple[str, int, Path, list[Segment]]], int]:
        """The queues of one kind with their files, and the size these should have."""
        found = []
        for topic, queue, path in _iter_folders(folder):
            called_for = self._kind_of(topic)
            if called_for is not None and called_for is not kind:
                detail = f"the queue is {kind}, its topic calls for {called_for}"
                self._damage.add(path, 0, DamageKind.FILE, detail)
            found.append((topic, queue, path, find_segments([path], self._damage)))
        return found, usual_size(segments for *_, segments in found)

    def _add_missing(self, topic: str, queue: int) -> _Checked:
        """A queue that has records but no directory."""
        checked = _Checked(SimpleEntries(None, topic, queue, [], 0, self._views))
        self._queues[topic, queue] = checked
        return checked

    def _match(self, checked: _Checked, items: list[Placed]) -> None:
        unmatched = checked.entries.match(items)
        for index, position in unmatched:
            checked.unmatched_indexes.append(index)
            checked.unmatched_positions.append(position)
        if len(unmatched) < len(items):
            missed = {position for _, position in unmatched}
            found = max(item.position for item in items if item.position not in missed)
            self.last_position = max(self.last_position, found)

    def _check_copies(self, item: Placed) -> None:
        """Look a message up in the light queues that it names, as far as these exist."""
        try:
            copies = light_copies(item)
        except ValueError:
            return
        for copy in copies:
            checked = self._queues.get(_by_queue(copy))
            if checked is not None and checked.entries.has_folder:
                self._match(checked, [copy])

    def _find_claim(self, entries: Entries, position: int) -> Placed | None:
        """The record at `position`, as this queue should see it."""
        item = self._log.find(position)
        if item is None or _by_queue(item) == (entries.topic, entries.queue):
            return item
        copies = (copy for copy in light_copies(item) if _by_queue(copy) == (entries.topic, entries.queue))
        return next(copies, None)

    def _report_unmatched(self, checked: _Checked, judgement: Judgement) -> None:
        entries = checked.entries
        if not entries.has_folder and not self._is_expected(entries):
            return
        orphans = []
        for index, position in zip(checked.unmatched_indexes, checked.unmatched_positions, strict=True):
            item = self._find_claim(entries, position)
            # Looked up again, because an owner who works on the store may have written it meanwhile.
            if item is None or not entries.match([item]):
                continue
            if entries.is_of_former_life(item) or entries.is_below(item):
                continue
            difference = entries.find_difference(index, item)
            if difference is not None and not entries.confirmed.holds(index):
                path, at = entries.place_of(index)
                self._damage.add(path, at, DamageKind.QUEUE, f"{entries.name_of(index)} {difference}")
                entries.confirmed.add(index, index + 1)
            elif position < judgement.until and not entries.is_before_others(index):
                orphans.append(item)
        self._report_orphans(entries, orphans)

    def _is_expected(self, entries: Entries) -> bool:
        """Whether records of a queue without a directory are orphans, not those of a deleted topic."""
        return self._judge_missing and self._kind_of(entries.topic) is not None

    def _report_orphans(self, entries: Entries, orphans: list[Placed]) -> None:
        orphans.sort(key=lambda item: item.offset)
        for run in _iter_runs(orphans, _follows):
            first, last = run[0], run[-1]
            path = self._log.segment_of(first.position).path
            what = f"{entries.topic}/{entries.queue}"
            if len(run) == 1:
                detail = f"{what} has no entry for offset {first.offset}"
            else:
                detail = f"{what} has no entry for offsets {first.offset} to {last.offset}, {len(run)} records"
            self._damage.add(path, first.position, DamageKind.ORPHAN, detail)

    def _report_unconfirmed(self, entries: Entries, judgement: Judgement) -> None:
        """Report entries that no record claimed."""
        found = ((index, self._find_fault(entries, index, judgement)) for index in entries.iter_unconfirmed())
        faulty = ((index, fault) for index, fault in found if fault)
        for run in _iter_runs(faulty, lambda before, after: after == (before[0] + 1, before[1])):
            (first, fault), (last, _) = run[0], run[-1]
            path, at = entries.place_of(first)
            name = entries.name_of(first) if first == last else f"{entries.name_of(first)} to {last}"
            self._damage.add(path, at, DamageKind.QUEUE, f"{name} {fault}")

    def _find_fault(self, entries: Entries, index: int, judgement: Judgement) -> str:
        """What is wrong with an entry that no record claimed; nothing if it is as it may be."""
        entry = entries.read(index)
        if entry is None or not entry.is_valid or entries.is_blank(entry):
            following = entries.next_valid(index)
            if following is not None and following.position >= max(judgement.until, self._log.begin):
                return ""
            return "has no entry, though later ones follow"
        if entry.position < self._log.begin or entry.position >= judgement.until:
            return ""
        if self._log.damaged.holds(entry.position) or (judgement.in_use and entry.position >= self._log.end):
            return ""
        if entry.position >= self._log.end:
            return f"leads behind the log's end at {self._log.end}"
        return "leads to where no such record begins"


def _follows(before: Placed, after: Placed) -> bool:
    return after.offset == before.offset + before.count


def _iter_runs[T](items: Iterable[T], follows: Callable[[T, T], bool]) -> Iterator[list[T]]:
    raise NotImplementedError
