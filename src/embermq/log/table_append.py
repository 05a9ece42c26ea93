"""Messages that lie in memory, told as a table of numbers, go into the log: kernels write the records.

What comes of it is what `CommitLog.append` would make of the same drafts. Only loaded where kernels are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, overload

import numpy as np

from embermq.format.record import BLANK_SIZE
from embermq.format.record_layout import MAX_PROPERTIES_SIZE
from embermq.kernels.columns import (
    DRAFT_BODY_SIZE,
    DRAFT_PROPERTIES_SIZE,
    DRAFT_WIDTH,
    FULL,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_QUEUE,
    RECORD_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.found_records import find_known
from embermq.kernels.memory import address_of
from embermq.kernels.placing import give_back_offsets, take_offsets
from embermq.kernels.records import encode_records
from embermq.log.commit_log import CommitLog, plan_runs
from embermq.log.queue_table import QueueTable
from embermq.log.record_batch import RecordBatch

LARGEST_HEAD = 128 + 255  # of a record: all but its body and properties


def largest_body(file_size: int) -> int:
    """The size of a body that fits into a log file with whatever properties."""
    return file_size - BLANK_SIZE - LARGEST_HEAD - MAX_PROPERTIES_SIZE


@dataclass(slots=True)
class DraftTable:
    """Messages that have no place in the log yet. What the numbers are is told in kernels/columns.py."""

    drafts: Table
    source: int  # where bodies are
    source_size: int
    texts: int  # where properties are
    texts_size: int
    size: int  # bodies and properties together are no larger
    topics: Table
    queues: Table  # see kernels/placing.py
    hosts: Table
    store_host: int
    suffix: bytes  # the end of all properties
    kept: object = None  # whatever must stay where it is
    firsts: Table | None = None  # of drafts that lie together, the number of each first; None if all may lie apart

    def __len__(self) -> int:
        return len(self.drafts)


class Piece(NamedTuple):
    """Records of a table that lie in one file."""

    begin: int  # the log's end before it; a BLANK record may lie between that and the first position
    end: int
    address: int  # of the memory that they were written to
    data: memoryview  # of the file, which may show them only when they are on disk
    records: Table
    batch: RecordBatch | None = None  # the same for queues and index; None if they are read from the log again


class TableAppended(NamedTuple):
    """How much of a table is in the log, and why not all."""

    pieces: list[Piece]
    records: Table  # of all pieces
    store_time: int
    error: Exception | None


class TablePlace(NamedTuple):
    """Where a message went."""

    topic: str
    queue: int
    offset: int
    position: int


class TablePlaces(Sequence[TablePlace]):
    """Where the messages of a table went, all of them of one topic."""

    def __init__(self, topic: str, records: Table) -> None:
        self._topic = topic
        self._records = records

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> TablePlace: ...
    @overload
    def __getitem__(self, index: slice) -> list[TablePlace]: ...
    def __getitem__(self, index: int | slice) -> TablePlace | list[TablePlace]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        row = self._records[index].tolist()
        return TablePlace(self._topic, row[RECORD_QUEUE], row[RECORD_OFFSET], row[RECORD_POSITION])


def reserve_table(commit_log: CommitLog, table: DraftTable) -> None:
    """Get the space for a whole table before its first byte is written. Raises OSError."""
    file = commit_log.chain.append_file()
    room = file.size - file.written
    if table.size + len(table) * (LARGEST_HEAD + len(table.suffix)) + BLANK_SIZE <= room:
        return
    own_sizes = table.drafts[:, DRAFT_BODY_SIZE] + table.drafts[:, DRAFT_PROPERTIES_SIZE]
    sizes: list[int] = (own_sizes + (LARGEST_HEAD + len(table.suffix))).tolist()  # no record is larger
    commit_log.reserve(file, plan_runs(sizes, room, file.size, together=False), sizes)


def append_table(commit_log: CommitLog, numbers: QueueTable, table: DraftTable) -> TableAppended:
    """Write the records of `table`, as many as there is space for; each takes the next offset of its queue."""
    assert table.drafts.shape[1] == DRAFT_WIDTH
    store_time = commit_log.next_store_time()
    places = np.empty(len(table), np.int64)
    taken = take_offsets(table.drafts, table.queues, numbers.address, len(numbers.numbers), places)
    assert taken == len(table), f"{len(table) - taken} messages of queues that do not exist"
    records = np.empty((len(table), RECORD_WIDTH), np.int64)
    pieces: list[Piece] = []
    done, error = 0, None
    try:
        while done < len(table):
            piece, is_full = _append_piece(commit_log, table, done, store_time, records)
            if piece is not None:
                piece_places = places[done : done + len(piece.records)]
                done += len(piece.records)
                # Now, because what it was written to may serve the next file.
                pieces.append(piece._replace(batch=_batch_of(piece, numbers, piece_places)))
            if is_full:
                commit_log.close_file()
    except Exception as failure:
        error = failure
        give_back_offsets(table.drafts[done:], table.queues, numbers.address, len(numbers.numbers))
    if done:
        commit_log.last_store_time = store_time
        commit_log.chain.warm_ahead()
    return TableAppended(pieces, records[:done], store_time, error)


def _append_piece(
    commit_log: CommitLog, table: DraftTable, begin: int, store_time: int, records: Table
) -> tuple[Piece | None, bool]:
    """Write records into the last file from number `begin` on; those, and whether the file has no room for more."""
    before = commit_log.chain.end
    file = commit_log.chain.append_file()
    at, left = file.written, len(table) - begin
    most = table.size + left * (LARGEST_HEAD + len(table.suffix))
    room = max(file.size - at - BLANK_SIZE, 0)
    wanted = left if table.firsts is None or most <= room else _count_fitting(table, table.firsts, begin, room)
    end = min(file.size, at + most + BLANK_SIZE)
    address = file.address(end) or file.address(file.size)
    assert address, f"{file.path} has its space, but cannot be written in memory"
    count, used, reason = _encode(
        table, begin, begin + wanted, store_time, file.start + at, address + at, max(end - at - BLANK_SIZE, 0),
        records[begin:],
    )  # fmt: skip
    if count < wanted and reason != FULL:
        raise AssertionError(f"a kernel refused a draft that another one made, reason {reason}")
    assert count or at, f"a record does not fit into a log file of {file.size}: see largest_body"
    if count == 0:
        return None, True
    file.took(used)
    data = file.view[at : at + used]
    return Piece(before, file.start + at + used, address + at, data, records[begin : begin + count]), count < left


def _batch_of(piece: Piece, numbers: QueueTable, places: Table) -> RecordBatch | None:
    found = find_known(piece.address, piece.data, piece.records)
    return RecordBatch(found, numbers, places) if found is not None and len(found) == len(piece.records) else None


def _encode(
    table: DraftTable, begin: int, end: int, store_time: int, position: int, target: int, room: int, records: Table
) -> tuple[int, int, int]:
    return encode_records(
        table.drafts[begin:end], table.source, table.source_size, table.texts, table.texts_size, table.topics,
        table.hosts, table.store_host, address_of(table.suffix), len(table.suffix), store_time, position, target, room,
        records,
    )  # fmt: skip


def _count_fitting(table: DraftTable, firsts: Table, begin: int, room: int) -> int:
    """How many drafts from number `begin` on fit into `room`, if what lies together is not divided.

    Tried elsewhere, so that nothing has to be taken back from the log, where a crash could leave it.
    """
    left = len(table) - begin
    memory, records = np.empty(room, np.uint8), np.empty((left, RECORD_WIDTH), np.int64)
    count, _, _ = _encode(table, begin, len(table), 0, 0, int(memory.ctypes.data), room, records)
    if count == left:
        return left
    return int(firsts[np.searchsorted(firsts, begin + count, side="right") - 1]) - begin
