"""Reads an archive: the messages that are wanted, in the order of the log.

    each topic     its files, by their first position; what overlaps is sorted
    all topics     merged by position, a batch of each in memory

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from embermq.archive.rows import SCHEMA
from embermq.archive.tables import ArchivedFile, Table
from embermq.archive.target import Target
from embermq.filters import Filter, parse_filter
from embermq.filters.property_table import PropertyTable
from embermq.jobs.progress import Progress
from embermq.model.properties import KEYS, TAGS, UNIQ_KEY
from embermq.scan import columns as names
from embermq.scan.columns import POSITION, STORE_TIME, TOPIC
from embermq.scan.wanted import Wanted

BATCH_ROWS: Final = 16_384
_KNOWN: Final = {TAGS: names.TAGS, KEYS: names.KEYS, UNIQ_KEY: names.UNIQUE_KEY}


class _Range(NamedTuple):
    """The least and the largest value of a column."""

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """A file and the row groups of it that may hold wanted messages."""

    file: ArchivedFile
    groups: tuple[int, ...]
    positions: _Range
    rows: int
    size: int  # as it is packed
    unpacked: int


def read_archive(
    table: Table, wanted: Wanted, *, begin: int = 0, progress: Progress | None = None
) -> Iterator[pa.RecordBatch]:
    """The wanted messages of an archive with positions from `begin` on, in the order of the log, in all columns.

    Of `wanted` count topics, times, filter and keys. Raises ArchiveDamaged, or OSError.
    """
    progress = progress or Progress("read")
    chosen = parse_filter(wanted.filter_text) if wanted.filter_text is not None else None
    pieces: dict[str, list[_Piece]] = {}
    for piece in _plan_pieces(table, wanted, begin):
        pieces.setdefault(piece.file.part.topic, []).append(piece)
    progress.begin("archive", sum(piece.size for each in pieces.values() for piece in each))
    streams = [
        _filtered(
            _read_topic(table.target, sorted(each, key=lambda piece: piece.positions), progress), wanted, chosen, begin
        )
        for each in pieces.values()
    ]
    yield from merge_streams(streams)


def find_unpacked_size(table: Table, wanted: Wanted) -> int:
    """How many bytes the wanted messages of an archive are, before they are packed; all of each file that has some."""
    return sum(piece.unpacked for piece in _plan_pieces(table, wanted, 0))


def _plan_pieces(table: Table, wanted: Wanted, begin: int) -> Iterator[_Piece]:
    for file in table.find_files():
        if wanted.accepts_topic(file.part.topic):
            piece = _plan(table.target, file, wanted, begin)
            if piece is not None:
                yield piece


def _plan(target: Target, file: ArchivedFile, wanted: Wanted, begin: int) -> _Piece | None:
    """What of a file may be wanted; None if nothing."""
    with target.system.open_input_file(target.path(file.path)) as source:
        facts = parquet.read_metadata(source)
    groups, ranges = [], []
    rows = size = unpacked = 0
    for number in range(facts.num_row_groups):
        group = facts.row_group(number)
        times, positions = _range_of(group, STORE_TIME), _range_of(group, POSITION)
        begin_ms, end_ms = wanted.begin_time_ms, wanted.end_time_ms
        is_early = begin_ms is not None and times.high < begin_ms * 1000
        is_late = end_ms is not None and times.low >= end_ms * 1000
        if not is_early and not is_late and positions.high >= begin:
            groups.append(number)
            ranges.append(positions)
            rows += group.num_rows
            size += sum(group.column(each).total_compressed_size for each in range(group.num_columns))
            unpacked += group.total_byte_size
    if not groups:
        return None
    positions = _Range(min(each.low for each in ranges), max(each.high for each in ranges))
    return _Piece(file, tuple(groups), positions, rows, size, unpacked)


def _range_of(group: parquet.RowGroupMetaData, column: str) -> _Range:
    """The range of a column, as its statistics tell; everything if they do not."""
    for number in range(group.num_columns):
        found = group.column(number)
        if found.path_in_schema == column and found.is_stats_set and found.statistics.has_min_max:
            return _Range(int(found.statistics.min_raw), int(found.statistics.max_raw))
    return _Range(-(2**63), 2**63 - 1)


def _read_topic(target: Target, pieces: Sequence[_Piece], progress: Progress) -> Iterator[pa.RecordBatch]:
    """The rows of files of one topic, by position; files whose positions overlap are read together and sorted."""
    at = 0
    while at < len(pieces):
        end, high = at + 1, pieces[at].positions.high
        while end < len(pieces) and pieces[end].positions.low <= high:
            high = max(high, pieces[end].positions.high)
            end += 1
        if end == at + 1:
            yield from _read_piece(target, pieces[at], progress)
        else:
            together = [batch for piece in pieces[at:end] for batch in _read_piece(target, piece, progress)]
            yield from pa.Table.from_batches(together).sort_by(POSITION).to_batches(BATCH_ROWS)
        at = end


def _read_piece(target: Target, piece: _Piece, progress: Progress) -> Iterator[pa.RecordBatch]:
    with target.system.open_input_file(target.path(piece.file.path)) as source:
        file = parquet.ParquetFile(source)
        for batch in file.iter_batches(BATCH_ROWS, row_groups=list(piece.groups)):
            topic = pa.repeat(pa.scalar(piece.file.part.topic), batch.num_rows)
            columns = [topic if name == TOPIC else batch.column(name) for name in SCHEMA.names]
            yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
            progress.add(piece.size * batch.num_rows // piece.rows)


def _filtered(
    batches: Iterator[pa.RecordBatch], wanted: Wanted, chosen: Filter | None, begin: int
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        mask = pc.greater_equal(batch.column(POSITION), begin)
        times = batch.column(STORE_TIME).cast(pa.int64())
        if wanted.begin_time_ms is not None:
            mask = pc.and_(mask, pc.greater_equal(times, wanted.begin_time_ms * 1000))
        if wanted.end_time_ms is not None:
            mask = pc.and_(mask, pc.less(times, wanted.end_time_ms * 1000))
        if chosen is not None and chosen.names:
            known = {name: batch.column(column) for name, column in _KNOWN.items()}
            table = PropertyTable(batch.num_rows, batch.column(names.PROPERTIES), known=known)
            mask = pc.and_(mask, chosen.mask(table))
        if wanted.keys is not None:
            texts = batch.column(names.KEYS).to_pylist()
            mask = pc.and_(mask, pa.array([_has_key(text, wanted.keys) for text in texts]))
        found = batch.filter(mask)
        if found.num_rows:
            yield found


def _has_key(text: str | None, keys: frozenset[str]) -> bool:
    return text is not None and not keys.isdisjoint(text.split())


def merge_streams(streams: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Streams whose positions rise, as one."""
    if len(streams) == 1:
        yield from streams[0]
        return
    heads = [(stream, batch) for stream in streams if (batch := next(stream, None)) is not None]
    while heads:
        limit = min(int(batch.column(POSITION)[-1].as_py()) for _, batch in heads)
        parts, left = [], []
        for stream, batch in heads:
            count = int(pc.sum(pc.less_equal(batch.column(POSITION), limit)).as_py())
            if count:
                parts.append(batch.slice(0, count))
            rest = batch.slice(count) if count < batch.num_rows else next(stream, None)
            if rest is not None:
                left.append((stream, rest))
        yield from pa.Table.from_batches(parts).sort_by(POSITION).combine_chunks().to_batches(BATCH_ROWS)
        heads = left
