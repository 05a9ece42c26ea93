"""Compares the entries of all queues with the records they should lead to, both ways.

The log is walked once. Each record is looked up in its queue, where its entry is known by
the offset; so all that is kept in memory of a sound queue is one range of offsets. What did
not fit is looked at again in the end, when it is known which other record claims the place.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from embermq.format.checkpoint import Progress
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE, QueueEntry
from embermq.log.dispatching import light_copies
from embermq.log.placed import Placed
from embermq.log.queue_kind import QueueKind
from embermq.model.flags import NOT_QUEUED
from embermq.model.properties import INNER_MULTI_DISPATCH
from embermq.store.queues import BATCH_FOLDER, EXTENDED_FOLDER, SIMPLE_FOLDER
from embermq.store.verify_damage import DamageKind, DamageList, Hidden, NumberedEntry
from embermq.store.verify_entries import NO_INDEX, BatchEntries, EntriesState, SimpleEntries
from embermq.store.verify_files import MOST_MAPPED, Segment, Views, check_segments, find_segments, usual_size
from embermq.store.verify_log import Judgement, LogWalk, RecordsToCheck

if TYPE_CHECKING:
    from embermq.kernels.found_records import FoundRecord, FoundRecords
    from embermq.kernels.queue_match import EntryTable

ROCKSDB_SIGN = f"{SIMPLE_FOLDER}/CURRENT"  # is in every RocksDB

_MULTI_DISPATCH = INNER_MULTI_DISPATCH.encode()
_LONGEST_QUEUE = 10  # digits
_MISSING = "has no entry, though later ones follow"
_by_queue = itemgetter(0, 1)  # topic and queue of a Placed

AnyEntries: TypeAlias = SimpleEntries | BatchEntries
FindKind: TypeAlias = Callable[[str], QueueKind | None]  # what a topic calls for; None if it is not configured
T = TypeVar("T")


class QueueState(NamedTuple):
    """What is known of a queue after some records were looked up."""

    topic: str
    queue: int
    entries: EntriesState
    unmatched_indexes: array[int]
    unmatched_positions: array[int]


class _Checked:
    """One queue and what did not fit."""

    __slots__ = ("entries", "unmatched_indexes", "unmatched_positions")

    def __init__(self, entries: AnyEntries) -> None:
        self.entries = entries
        self.unmatched_indexes = array("q")
        self.unmatched_positions = array("q")


class QueuesCheck:
    """All queues of a store."""

    def __init__(
        self,
        root: Path,
        log: LogWalk,
        views: Views,
        damage: DamageList,
        *,
        kind_of: FindKind,
        progress: Progress | None,
        begin: int | None = None,
    ) -> None:
        """Only records from position `begin` on will be looked up; the log's first unless given."""
        self._log = log
        self._views = views
        self._damage = damage
        self._kind_of = kind_of
        self._progress = progress
        self._is_rocksdb = (root / ROCKSDB_SIGN).is_file()
        self._queues: dict[tuple[str, int], _Checked] = {}
        self._table: EntryTable | None = None
        self._begin = log.begin if begin is None else begin
        self._open_simple(root)
        self._open_batch(root)

    def add(self, entries: AnyEntries) -> None:
        """Look at one more queue, whose files are elsewhere."""
        self._queues[entries.topic, entries.queue] = _Checked(entries)

    def check(self, batch: RecordsToCheck) -> None:
        """Look the records up in their queues. They come in the order of the log."""
        for piece in batch.pieces:
            if isinstance(piece, list):
                self._check_items(piece)
            else:
                self._check_found(piece)
        for item in (item for piece in batch.pieces if isinstance(piece, list) for item in piece):
            if _MULTI_DISPATCH in item.properties and not item.sys_flag & NOT_QUEUED:
                self._check_copies(item)

    def _check_items(self, items: list[Placed]) -> None:
        groups: dict[tuple[str, int], list[Placed]] = {}
        for item in items:
            if not item.sys_flag & NOT_QUEUED:
                groups.setdefault(_by_queue(item), []).append(item)
        for key, group in groups.items():
            checked = self._queues.get(key) or self._add_missing(*key)
            self._match(checked, group)

    def _check_found(self, records: FoundRecords) -> None:
        """Have a kernel compare entries with records, file by file, and look at those that do not fit."""
        if self._table is None:
            from embermq.kernels.queue_match import EntryTable  # not there without numba

            self._table = EntryTable()
        done, left = self._table.confirm(records, 0)
        while done < len(records):
            self._offer(self._table, records[done])
            done, more = self._table.confirm(records, done)
            left += more
        if left:
            self._take_right()
            self._check_items([Placed(*records[number]) for number in left])
            self._table.ask_again()

    def _offer(self, table: EntryTable, record: FoundRecord) -> None:
        """Offer the kernel the file that has the entry of a record, if there is one and not too many are mapped."""
        self._take_right()
        checked = self._queues.get((record.topic, record.queue))
        entries, first = memoryview(b""), 0
        if checked is not None and table.offered < MOST_MAPPED:
            entries, first = checked.entries.window_at(record.offset)
        table.offer(record.topic.encode(), record.queue, entries, first)

    def _take_right(self) -> None:
        """Know of the entries that a kernel found right."""
        for topic, queue, begin, end, position in self._table.take_right() if self._table is not None else ():
            self._queues[topic.decode(), queue].entries.confirm(begin, end, position=position, offset=begin)

    def state(self) -> list[QueueState]:
        """What was found so far, for another object over the same queues."""
        self._take_right()
        return [
            QueueState(*key, checked.entries.state(), checked.unmatched_indexes, checked.unmatched_positions)
            for key, checked in self._queues.items()
            if checked.entries.confirmed.items() or checked.unmatched_indexes
        ]

    def absorb(self, states: Iterable[QueueState]) -> None:
        """Go on with what another object found, of records behind those that were looked up here."""
        for state in states:
            checked = self._queues.get((state.topic, state.queue)) or self._add_missing(state.topic, state.queue)
            checked.entries.absorb(state.entries)
            checked.unmatched_indexes.extend(state.unmatched_indexes)
            checked.unmatched_positions.extend(state.unmatched_positions)

    def finish(self, judgement: Judgement) -> None:
        """All records were looked up: report what is missing, and what is too much."""
        self._take_right()
        judges_missing = not (self._is_rocksdb or judgement.in_use or self._is_as_counted())
        for _, checked in sorted(self._queues.items()):
            entries = checked.entries
            # Without a directory it may be the queue of a topic that was deleted.
            if entries.has_folder or (judges_missing and self._kind_of(entries.topic) is not None):
                self._report_orphans(entries, self._iter_orphans(checked, judgement))
                self._report_unconfirmed(entries, judgement)

    def _is_as_counted(self) -> bool:
        """Whether there are as many queues and entries as the checkpoint knows of."""
        found = [checked.entries for checked in self._queues.values() if checked.entries.has_folder]
        progress = self._progress
        return (
            progress is not None
            and len(found) == progress.queue_count
            and sum(entries.next_offset for entries in found) == progress.entry_count
        )

    def _open_simple(self, root: Path) -> None:
        folders, size = self._find_folders(root / SIMPLE_FOLDER, QueueKind.SIMPLE)
        extended = {}
        for topic, queue, folder in iter_folders(root / EXTENDED_FOLDER):
            extended[topic, queue] = find_segments([folder], self._damage)
        extended_size = usual_size(extended.values())
        for segments in extended.values():
            check_segments(segments, extended_size, self._damage, lambda begin, end: [])
        for topic, queue, folder, segments in folders:
            check_segments(segments, size, self._damage, partial(_hidden_in, topic, queue))
            more = extended.get((topic, queue), [])
            entries = SimpleEntries(folder, topic, queue, segments, size, self._views, extended=more)
            self._queues[topic, queue] = _Checked(entries)

    def _open_batch(self, root: Path) -> None:
        folders, size = self._find_folders(root / BATCH_FOLDER, QueueKind.BATCH)
        for topic, queue, folder, segments in folders:
            entries = BatchEntries(folder, topic, queue, segments, size, self._views, log_begin=self._begin)
            check_segments(segments, size, self._damage, entries.hidden_in)
            if (topic, queue) not in self._queues or self._kind_of(topic) is QueueKind.BATCH:
                self._queues[topic, queue] = _Checked(entries)

    def _find_folders(self, folder: Path, kind: QueueKind) -> tuple[list[tuple[str, int, Path, list[Segment]]], int]:
        """The queues of one kind with their files, and the size these should have."""
        found = []
        for topic, queue, path in iter_folders(folder):
            called_for = self._kind_of(topic)
            if called_for is not None and called_for is not kind:
                detail = f"the queue is {kind}, its topic calls for {called_for}"
                self._damage.add(path, 0, DamageKind.FILE, detail)
            found.append((topic, queue, path, find_segments([path], self._damage)))
        return found, usual_size(segments for *_, segments in found)

    @cached_property
    def last_position(self) -> int:
        """Where the newest record begins that a queue leads to; -1 if there is none.

        Records are dispatched in their order, so every one before this position is in its queue."""
        lasts = [checked.entries.read(checked.entries.used - 1) for checked in self._queues.values()]
        for entry in sorted((last for last in lasts if last is not None), key=lambda last: -last.position):
            record = self._log.find(entry.position)
            if record is not None and record.size == entry.size:
                return entry.position
        return -1

    def _add_missing(self, topic: str, queue: int) -> _Checked:
        """A queue that has records but no directory."""
        checked = _Checked(SimpleEntries.missing(topic, queue, self._views))
        self._queues[topic, queue] = checked
        return checked

    def _match(self, checked: _Checked, items: list[Placed]) -> None:
        unmatched = checked.entries.match(items)
        for index, position in unmatched:
            checked.unmatched_indexes.append(index)
            checked.unmatched_positions.append(position)

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

    def _find_claim(self, entries: AnyEntries, position: int) -> Placed | None:
        """The record at `position`, as this queue should see it."""
        item = self._log.find(position)
        if item is None or _by_queue(item) == (entries.topic, entries.queue):
            return item
        copies = (copy for copy in light_copies(item) if _by_queue(copy) == (entries.topic, entries.queue))
        return next(copies, None)

    def _iter_orphans(self, checked: _Checked, judgement: Judgement) -> Iterator[Placed]:
        """The records without an entry; entries that do not fit their record are reported meanwhile."""
        entries, used = checked.entries, checked.entries.used
        for index, position in zip(checked.unmatched_indexes, checked.unmatched_positions, strict=True):
            item = self._find_claim(entries, position)
            # An owner who works on the store may have written the entry meanwhile.
            if item is None or position >= judgement.until or not entries.match([item]):
                continue
            if entries.is_of_former_life(item) or (entries.is_below(item) and self._has_expired(item)):
                continue
            place = entries.find_gap(item) if index == NO_INDEX else index
            difference = entries.find_difference(place, item)
            if entries.confirmed.holds(place):
                yield item  # another record has its place
            elif difference is not None:
                self._report_difference(entries, place, item, difference)
                entries.confirmed.add(place, place + 1)
            elif not entries.first_record <= place < used:
                yield item

    def _report_difference(self, entries: AnyEntries, index: int, item: Placed, difference: str) -> None:
        path, at = entries.place_of(index)
        name = entries.name_of(index)
        entry = NumberedEntry(f"{entries.topic}/{entries.queue} {entries.word}", index)
        hides = [_hidden(item, item)]
        self._damage.add(path, at, DamageKind.QUEUE, f"{name} {difference}", hides=hides, entry=entry)

    def _has_expired(self, item: Placed) -> bool:
        """Whether the log file of a record is gone: only then are the entries of its records deleted."""
        return not self._log.segment_of(item.position).path.exists()

    def _report_orphans(self, entries: AnyEntries, orphans: Iterator[Placed]) -> None:
        def follows(before: Placed, item: Placed) -> bool:
            is_next_in_file = entries.has_gaps and item.position == before.position + before.size
            return is_next_in_file or item.offset == before.offset + before.count

        for first, last in _iter_runs(orphans, follows):
            path = self._log.segment_of(first.position).path
            which = f"offset {first.offset}" if first is last else f"offsets {first.offset} to {last.offset}"
            detail = f"{entries.topic}/{entries.queue} has no entry for {which}"
            self._damage.add(path, first.position, DamageKind.ORPHAN, detail, hides=[_hidden(first, last)])

    def _report_unconfirmed(self, entries: AnyEntries, judgement: Judgement) -> None:
        """Report entries that no record claimed, and what damage of the log hides of the queue."""
        found = ((index, self._find_fault(entries, index, judgement)) for index in entries.iter_unconfirmed())
        for (first, fault), (last, _) in _iter_runs(found, lambda before, item: item == (before[0] + 1, before[1])):
            if isinstance(fault, int):
                self._damage.hide(fault, entries.hidden(first, last))
                continue
            if not fault or (fault == _MISSING and not self._is_judged(entries, last + 1, judgement)):
                continue
            path, at = entries.place_of(first)
            name = entries.name_of(first) if first == last else f"{entries.name_of(first)} to {last}"
            hides = entries.hidden(first, last)
            self._damage.add(path, at, DamageKind.QUEUE, f"{name} {fault}", hides=hides)

    def _find_fault(self, entries: AnyEntries, index: int, judgement: Judgement) -> str | int:
        """What is wrong with an entry that no record claimed; nothing if it is as it may be.

        A position if the entry leads into damage of the log that begins there.
        """
        entry = entries.read(index)
        if entry is None:
            return ""  # the file is missing or too short, and reported
        if not entry.is_valid or (isinstance(entry, QueueEntry) and entry.is_blank):
            return _MISSING
        log, position = self._log, entry.position
        if position < log.begin or position >= judgement.until:
            return ""
        if log.damaged.holds(position):
            cover = self._damage.find_cover(position)
            return cover if cover is not None else ""
        if position < log.end:
            return "leads to where no such record begins"
        return "" if judgement.in_use else f"leads behind the log's end at {log.end}"

    def _is_judged(self, entries: AnyEntries, index: int, judgement: Judgement) -> bool:
        """Whether what is missing before an entry should be there."""
        following = entries.read(index)
        return following is None or not following.is_valid or following.position < judgement.until


def _hidden_in(topic: str, queue: int, begin: int, end: int) -> list[Hidden]:
    """The messages whose entries are in these bytes of a simple queue."""
    first, last = begin // QUEUE_ENTRY_SIZE, -(-end // QUEUE_ENTRY_SIZE)
    return [Hidden(topic, queue, first, last)] if first < last else []


def _hidden(first: Placed, last: Placed) -> Hidden:
    """The messages of two records and all between."""
    return Hidden(first.topic, first.queue, first.offset, last.offset + last.count)


def iter_folders(folder: Path) -> Iterator[tuple[str, int, Path]]:
    """Topic, number and directory of every queue."""
    for topic in _list_folders(folder):
        for queue in _list_folders(topic):
            if queue.name.isascii() and queue.name.isdecimal() and len(queue.name) <= _LONGEST_QUEUE:
                yield topic.name, int(queue.name), queue


def _list_folders(folder: Path) -> list[Path]:
    try:
        return sorted(folder / entry.name for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return []


def _iter_runs(items: Iterable[T], follows: Callable[[T, T], bool]) -> Iterator[tuple[T, T]]:
    """First and last of each part of `items` in which everyone follows the one before it."""
    run: tuple[T, T] | None = None
    for item in items:
        if run is not None and follows(run[1], item):
            run = run[0], item
            continue
        if run is not None:
            yield run
        run = item, item
    if run is not None:
        yield run
