"""The first step of a compaction: tasks go over the log and files of earlier compactions, and note who has which key.

    range ─→ records of compacted topics that their queue knows ─→ rows ─→ one staging file, by queue and share of keys

A record counts if the entry of its offset points at it: what was in a queue that was deleted and made anew is in the
log, too. Damaged records are passed over, and told of.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.format.record import record_size
from embermq.jobs.compact_rows import FROM_PAIR, NO_BODY, ROW_SIZE, Block, Row, digest_of
from embermq.jobs.log_ranges import LogRange, RangeWalk, Walked
from embermq.jobs.progress import Report
from embermq.jobs.rebuild_index import write_once
from embermq.jobs.rebuild_tasks import QueueKey
from embermq.log.placed import Placed
from embermq.model.flags import NOT_QUEUED
from embermq.model.properties import KEYS, find_property

if TYPE_CHECKING:
    from embermq.kernels.found_records import FoundRecords, FoundRun

_KEYS: Final = KEYS.encode()
_POSITION_SIZE: Final = 8  # what an entry begins with
_LONGEST_V1: Final = 127  # bytes of a topic in a record of the first version


class ReadTask(NamedTuple):
    """A range of the log, or a file that an earlier compaction has made."""

    number: int
    part: LogRange
    shares: Mapping[str, int]  # of the keys of a queue, by the topics that are compacted
    queues: str | None  # the folder with the queues that say which records count; None: all do
    queue_file_size: int
    is_pair: bool
    staging: str


class Noted(NamedTuple):
    """What `read_keys` found."""

    walked: Walked
    blocks: dict[QueueKey, dict[int, Block]]  # by queue and share
    last_offsets: dict[QueueKey, int]
    without_keys: int  # messages that nobody can compact


def read_keys(task: ReadTask, report: Report) -> Noted:
    """Note the messages of a range that compaction has to decide about. A task that is run again writes the same."""
    walk = RangeWalk(task.part, delay_levels=(), with_keys=False, check_bodies=True)
    notes = _Notes(task)
    for piece in walk.iter_pieces(report):
        if isinstance(piece, list):
            notes.take_items(piece)
        else:
            notes.take_found(piece)
    return notes.finish(walk.result)


class _Notes:
    """The rows of one task."""

    def __init__(self, task: ReadTask) -> None:
        self._task = task
        self._traits = FROM_PAIR if task.is_pair else 0
        self._rows: dict[tuple[QueueKey, int], array[int]] = {}
        self._last: dict[QueueKey, int] = {}
        self._without_keys = 0

    def take_items(self, items: list[Placed]) -> None:
        for item in items:
            if item.topic not in self._task.shares or item.sys_flag & NOT_QUEUED or item.offset < 0:
                continue
            if not self._is_queued((item.topic, item.queue), item.offset, item.position):
                continue
            keys = find_property(item.properties, _KEYS)
            if not keys:
                self._without_keys += 1
                continue
            topic_size = len(item.topic.encode())
            bare = record_size(topic_size, 0, len(item.properties), item.sys_flag, topic_size > _LONGEST_V1)
            traits = self._traits | (NO_BODY if item.size == bare else 0)
            digest = digest_of(keys)
            high, low = (int.from_bytes(digest[at : at + 8], "little", signed=True) for at in (0, 8))
            row = Row(high, low, item.offset, item.position, item.size, traits, item.tags_code, item.store_time)
            self._add((item.topic, item.queue), low % self._task.shares[item.topic], array("q", row), item.offset)

    def take_found(self, records: FoundRecords) -> None:
        from embermq.jobs.compact_found import make_rows, split_shares  # not there without numba

        for run in records.iter_runs():
            shares = self._task.shares.get(run.topic)
            if shares is None or run.offset < 0:
                continue
            key = run.topic, run.queue
            table = make_rows(records, run, self._traits, self._find_queued(key, run))
            self._without_keys += table.without_keys
            for share, rows in split_shares(table.rows, shares):
                self._add(key, share, rows, table.last_offset)

    def finish(self, walked: Walked) -> Noted:
        path = Path(self._task.staging, f"{self._task.number}.rows")
        blocks: dict[QueueKey, dict[int, Block]] = {}
        begin = 0
        for (key, share), rows in self._rows.items():
            count = len(rows) * rows.itemsize // ROW_SIZE
            blocks.setdefault(key, {})[share] = Block(str(path), begin, count)
            begin += count
        write_once(path, b"".join(self._rows.values()))
        return Noted(walked, blocks, self._last, self._without_keys)

    def _add(self, key: QueueKey, share: int, rows: array[int], last_offset: int) -> None:
        self._rows.setdefault((key, share), array("q")).extend(rows)
        self._last[key] = max(self._last.get(key, -1), last_offset)

    def _is_queued(self, key: QueueKey, offset: int, position: int) -> bool:
        if self._task.is_pair or self._task.queues is None:
            return True
        return self._read_entries(key, offset, 1)[:_POSITION_SIZE] == position.to_bytes(_POSITION_SIZE, "big")

    def _find_queued(self, key: QueueKey, run: FoundRun) -> list[bool] | None:
        """Which records of a run count; None: all."""
        if self._task.is_pair or self._task.queues is None:
            return None
        count = len(run.entries) // QUEUE_ENTRY_SIZE
        found = self._read_entries(key, run.offset, count)
        if found == run.entries:
            return None
        places = range(0, count * QUEUE_ENTRY_SIZE, QUEUE_ENTRY_SIZE)
        return [found[at : at + _POSITION_SIZE] == run.entries[at : at + _POSITION_SIZE] for at in places]

    def _read_entries(self, key: QueueKey, offset: int, count: int) -> bytes:
        """The entries of a queue from `offset` on, as far as there are files; they come one behind the other."""
        assert self._task.queues is not None
        folder, file_size = Path(self._task.queues, key[0], str(key[1])), self._task.queue_file_size
        place, end, found = offset * QUEUE_ENTRY_SIZE, (offset + count) * QUEUE_ENTRY_SIZE, b""
        while place < end:
            start = place - place % file_size
            size = min(end, start + file_size) - place
            try:
                descriptor = os.open(folder / f"{start:020}", os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                found += bytes(size)
            else:
                try:
                    found += os.pread(descriptor, size, place - start).ljust(size, b"\0")
                finally:
                    os.close(descriptor)
            place += size
        return found
