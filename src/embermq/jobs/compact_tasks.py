"""What tasks do to compact queues, when it is known which message has which key. Each may be run again.

    choose   a queue, or a share of its keys: the rows of messages that no newer one has replaced
    place    a queue: its survivors in the order of their offsets, cut into pairs of files
    copy     a pair of files: the records of its survivors, from where they lie

The last message of a queue survives whatever it is: it says where the queue ends.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord
from embermq.format.compacted import FilePair, is_kept, pair_has_room
from embermq.format.record import BLANK_SIZE
from embermq.jobs.compact_rows import FROM_PAIR, NO_BODY, ROW_SIZE, Block, Row, iter_rows, pack_rows
from embermq.jobs.errors import RecordTooLarge
from embermq.jobs.log_ranges import open_view
from embermq.jobs.progress import Report
from embermq.jobs.rebuild_index import write_once
from embermq.jobs.targets import appearing
from embermq.kernels import loading

_OWN: Final = Struct(">i16xqq")  # what a record says of itself: its size, offset and position
_ROWS_AT_ONCE: Final = 16_384
_REPORTED_ROWS: Final = 100_000


class ChooseTask(NamedTuple):
    """One queue, or a share of its keys."""

    blocks: tuple[Block, ...]  # in the order of positions
    last_offset: int  # of the queue
    output: str


class PlaceTask(NamedTuple):
    """One queue."""

    kept: tuple[Block, ...]  # of each share
    output: str
    log_size: int  # of new files
    queue_size: int


class PlacedPair(NamedTuple):
    """The survivors that a pair of files has."""

    start: int
    survivors: Block
    size: int  # bytes of its records


class SourceFile(NamedTuple):
    """A file that survivors lie in."""

    path: str
    start: int


class CopyTask(NamedTuple):
    """One pair of files."""

    pair: PlacedPair
    log_size: int
    queue_size: int
    is_closed: bool  # there is another behind it
    log_path: str
    queue_path: str
    log_files: tuple[SourceFile, ...]
    pair_files: tuple[SourceFile, ...]  # of earlier compactions


def choose(task: ChooseTask, report: Report) -> Block:
    """Write the rows of those that survive, by offset."""
    if loading.is_loaded():
        from embermq.jobs.compact_found import choose_rows

        data, count = choose_rows(task.blocks, task.last_offset)
        report(sum(block.rows for block in task.blocks) * ROW_SIZE)
    else:
        kept = _choose_plain(task, report)
        data, count = pack_rows(kept), len(kept)
    write_once(Path(task.output), data)
    return Block(task.output, 0, count)


def _choose_plain(task: ChooseTask, report: Report) -> list[Row]:
    newest: dict[tuple[int, int], Row] = {}
    for number, row in enumerate(iter_rows(task.blocks), 1):
        key = row[:2]
        known = newest.get(key)
        if known is None or row.offset >= known.offset:
            newest[key] = row
        if number % _REPORTED_ROWS == 0:
            report(_REPORTED_ROWS * ROW_SIZE)
    kept = [row for row in newest.values() if _survives(row, task.last_offset)]
    return sorted(kept, key=attrgetter("offset"))


def _survives(row: Row, last_offset: int) -> bool:
    return is_kept(row.offset, row.offset, has_body=not row.traits & NO_BODY, last_offset=last_offset - 1)


def place(task: PlaceTask, report: Report) -> list[PlacedPair]:
    """Write the survivors of a queue in their order, and say which go into which files."""
    if not loading.is_loaded():
        return _place_plain(task, report)
    from embermq.jobs.compact_found import place_rows

    data, cuts = place_rows(task.kept, task.log_size, task.queue_size)
    write_once(Path(task.output), data)
    report(len(data))
    return [
        PlacedPair(number * task.log_size, Block(task.output, begin, count), size)
        for number, (begin, count, size) in enumerate(cuts)
    ]


def _place_plain(task: PlaceTask, report: Report) -> list[PlacedPair]:
    pairs: list[PlacedPair] = []
    begin = count = used = 0
    pending: list[Row] = []
    with appearing(Path(task.output)) as file:
        for row in _in_order(task.kept):
            if row.size + BLANK_SIZE > task.log_size:
                raise RecordTooLarge(row.size, task.log_size)
            if not pair_has_room(used, count, row.size, log_size=task.log_size, queue_size=task.queue_size):
                pairs.append(_placed(task, pairs, begin, count, used))
                begin, count, used = begin + count, 0, 0
            pending.append(row)
            count, used = count + 1, used + row.size
            if len(pending) == _ROWS_AT_ONCE:
                file.write(pack_rows(pending))
                report(len(pending) * ROW_SIZE)
                pending = []
        file.write(pack_rows(pending))
    if count:
        pairs.append(_placed(task, pairs, begin, count, used))
    return pairs


def _placed(task: PlaceTask, before: list[PlacedPair], begin: int, count: int, size: int) -> PlacedPair:
    return PlacedPair(len(before) * task.log_size, Block(task.output, begin, count), size)


def _in_order(kept: Iterable[Block]) -> Iterable[Row]:
    """The rows of all shares by offset; of two that claim one, the first in the log."""
    last = -1
    for row in heapq.merge(*(iter_rows([block]) for block in kept), key=attrgetter("offset", "position")):
        if row.offset > last:
            yield row
        last = row.offset


def copy(task: CopyTask, report: Report) -> int:
    """Write one pair of files; how many bytes of records it has. Raises CorruptRecord if a record is not there."""
    pair = FilePair(task.pair.start, task.log_size, task.queue_size)
    logs, pairs = _Sources(task.log_files), _Sources(task.pair_files)
    for row in iter_rows([task.pair.survivors]):
        record = (pairs if row.traits & FROM_PAIR else logs).read(row)
        pair.add_known(record, code=row.tags_code, store_time=row.store_time, offset=row.offset)
    for path, parts, size in (
        (Path(task.log_path), pair.log_parts(is_closed=task.is_closed), task.log_size),
        (Path(task.queue_path), pair.queue_parts(is_closed=task.is_closed), task.queue_size),
    ):
        with appearing(path) as file:
            file.writelines(parts)
            file.truncate(size)
    report(pair.size)
    return pair.size


class _Sources:
    """Files that records are read from, opened when one is."""

    def __init__(self, files: tuple[SourceFile, ...]) -> None:
        self._files = files
        self._starts = [file.start for file in files]
        self._views: dict[int, memoryview] = {}

    def read(self, row: Row) -> memoryview:
        """The record of a row. Raises CorruptRecord if it is another."""
        number = bisect_right(self._starts, row.position) - 1
        view = self._views.get(number)
        if view is None:
            view = self._views[number] = open_view(self._files[number].path)
        at = row.position - self._files[number].start
        if at + row.size > len(view) or _OWN.unpack_from(view, at) != (row.size, row.offset, row.position):
            raise CorruptRecord(row.position, "it is not what it was a moment ago, its owner works on it; try it again")
        return view[at : at + row.size]
