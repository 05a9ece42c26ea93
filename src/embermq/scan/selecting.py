"""From what was found in the log to Arrow batches: the rows that are wanted, bodies unpacked, batches taken apart.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from embermq.errors import CorruptRecord
from embermq.format.packed_body import unpack_body
from embermq.format.record import Record, decode_record
from embermq.kernels import columns as at
from embermq.model.flags import SysFlag
from embermq.scan import columns as names
from embermq.scan.engine import Engine, Taken, Times
from embermq.scan.matching import Matcher
from embermq.scan.row_batches import OF_PROPERTIES, OF_REST, RowBatch
from embermq.scan.rows import UNWRAPPED, batch_of, is_wrapped, iter_rows
from embermq.scan.wanted import Wanted

MOST_APART: Final = 32  # topics that get batches of their own
_Which = npt.NDArray[np.intp]


class Selector:
    """Makes batches of what is wanted, and reports what is damaged."""

    def __init__(self, wanted: Wanted, engine: Engine, matcher: Matcher, on_damage: Callable[[int, str], None]) -> None:
        self._wanted = wanted
        self._matcher = matcher
        self._engine = engine
        self._on_damage = on_damage
        self.checks_body: Final = names.BODY in wanted.columns
        self.times: Final = Times(
            Times().begin if wanted.begin_time_ms is None else wanted.begin_time_ms,
            Times().end if wanted.end_time_ms is None else wanted.end_time_ms,
        )
        self.with_rest: Final = not OF_REST.isdisjoint(wanted.columns)
        self._with_pairs = names.PROPERTIES in wanted.columns
        self._with_properties = (
            not OF_PROPERTIES.isdisjoint(wanted.columns)
            or matcher.has_filter
            or wanted.keys is not None
            or wanted.unique_keys is not None
        )

    def batches(self, found: RowBatch) -> Iterator[pa.RecordBatch]:
        """The wanted messages of rows, in their order."""
        for part, has_several in self._parts(found):
            if has_several:
                for row in range(len(part)):
                    yield from self.plain_batches(part.bytes_of(row), int(part.positions[row]))
            else:
                for own in self._topics(part):
                    made = self._make(own)
                    if made is not None:
                        yield made

    def plain_batches(self, data: memoryview, position: int) -> Iterator[pa.RecordBatch]:
        """The wanted messages of one record, whose sizes are right."""
        try:
            record = decode_record(data, position, check_body=False)
            has_several = self._wanted.decode_body and is_wrapped(record.sys_flag)
            if not self._matcher.accepts_record(record, has_several=has_several):
                return
            if self.checks_body:
                record = decode_record(data, position)
            made = self._make_plain(record, has_several=has_several)
        except CorruptRecord as error:
            self._on_damage(position, error.reason)
            return
        if made is not None:
            yield made

    def _make_plain(self, record: Record, *, has_several: bool) -> pa.RecordBatch | None:
        rows = iter_rows(record, decode_body=self._wanted.decode_body, with_properties=self._with_properties)
        wanted = [row for row in rows if self._matcher.accepts_row(row)]
        if wanted and self.checks_body and self._wanted.decode_body and not has_several:
            wanted = [wanted[0]._replace(body=unpack_body(record.body, record.sys_flag))]
        return batch_of(wanted, self._wanted.columns, self._wanted.broker_name) if wanted else None

    def _parts(self, found: RowBatch) -> Iterator[tuple[RowBatch, bool]]:
        """The rows in parts: records of one message each, and records that hold several."""
        wrapped = found.rows[at.ROW_SYS_FLAG] & UNWRAPPED == UNWRAPPED
        if not self._wanted.decode_body or not wrapped.any():
            yield found, False
            return
        edges = [0, *(np.flatnonzero(wrapped[1:] != wrapped[:-1]) + 1).tolist(), len(found)]
        for begin, end in pairwise(edges):
            yield found.keep(slice(begin, end)), bool(wrapped[begin])

    def _topics(self, found: RowBatch) -> Iterator[RowBatch]:
        """The rows of each topic, if that is wanted: before bytes are gathered, it costs next to nothing."""
        if not self._wanted.by_topic or not len(found):
            yield found
            return
        numbers = found.rows[at.ROW_TOPIC]
        known = np.unique(numbers)
        if len(known) == 1 or len(known) > MOST_APART:
            yield found
            return
        for number in known.tolist():
            yield found.keep(np.flatnonzero(numbers == number))

    def _make(self, found: RowBatch) -> pa.RecordBatch | None:
        found = self._in_ranges(found)
        taken: Taken | None = None
        if self._with_properties and len(found):
            found, taken = self._take_apart(found)
            found, taken = self._filtered(found, taken)
        bodies: dict[int, bytes] = {}
        if self.checks_body and self._wanted.decode_body and len(found):
            found, taken, bodies = self._unpacked(found, taken)
        if not len(found):
            return None
        return found.to_arrow(self._wanted.columns, taken, self._wanted.broker_name, bodies)

    def _in_ranges(self, found: RowBatch) -> RowBatch:
        ranges = self._matcher.row_ranges
        if ranges is None:
            return found
        topics, queues, offsets = (found.rows[column] for column in (at.ROW_TOPIC, at.ROW_QUEUE, at.ROW_OFFSET))
        kept = np.zeros(len(found), np.bool_)
        for (topic, queue), limits in ranges.items():
            number = self._engine.topics.number_of(topic)
            if number is None:
                continue
            is_there = (topics == number) & (queues == queue)
            for begin, end in limits:
                kept |= is_there & (offsets >= begin) & (offsets < end)
        return found if kept.all() else found.keep(np.flatnonzero(kept))

    def _take_apart(self, found: RowBatch) -> tuple[RowBatch, Taken]:
        """Properties of the rows; rows whose properties are no text are damaged, and left out."""
        while True:
            taken = found.take_apart(with_pairs=self._with_pairs or self._matcher.needs_pairs)
            if taken.texts == len(found):
                return found, taken
            self._report_properties(found, taken.texts)
            found = found.keep(np.delete(np.arange(len(found)), taken.texts))

    def _report_properties(self, found: RowBatch, row: int) -> None:
        """Say what is wrong with properties, in the words of plain code."""
        position = int(found.positions[row])
        try:
            decode_record(found.bytes_of(row), position, check_body=False).property_map()
        except CorruptRecord as error:
            self._on_damage(position, error.reason)

    def _filtered(self, found: RowBatch, taken: Taken) -> tuple[RowBatch, Taken]:
        kept = self._find_matching(found, taken)
        if kept is None:
            return found, taken
        found = found.keep(kept)
        return found, found.take_apart(with_pairs=self._with_pairs)

    def _find_matching(self, found: RowBatch, taken: Taken) -> _Which | None:
        """The rows that filter and keys want; None for all."""
        wanted = self._wanted
        masks = []
        if self._matcher.has_filter:
            masks.append(self._matcher.mask(found, taken))
        if wanted.unique_keys is not None:
            found_keys = found.value_array(names.UNIQUE_KEY, taken)
            masks.append(pc.is_in(found_keys, pa.array(sorted(wanted.unique_keys), names.STRING)))
        if wanted.keys is not None:
            words = pc.split_pattern(found.value_array(names.KEYS, taken).fill_null(""), " ")
            has_key = pc.is_in(words.flatten(), pa.array(sorted(wanted.keys), names.STRING))
            rows = pc.list_parent_indices(words).filter(has_key)
            mask = np.zeros(len(found), np.bool_)
            mask[rows.to_numpy()] = True
            masks.append(pa.array(mask))
        if not masks:
            return None
        kept = np.ones(len(found), np.bool_)
        for each in masks:
            kept &= each.fill_null(False).to_numpy(zero_copy_only=False)
        return None if kept.all() else np.flatnonzero(kept)

    def _unpacked(self, found: RowBatch, taken: Taken | None) -> tuple[RowBatch, Taken | None, dict[int, bytes]]:
        """Bodies that were packed, by row; rows whose body does not unpack are damaged, and left out."""
        packed = np.flatnonzero(found.rows[at.ROW_SYS_FLAG] & SysFlag.COMPRESSED).tolist()
        bodies: dict[int, bytes] = {}
        damaged = []
        for row in packed:
            try:
                bodies[row] = unpack_body(found.body_of(row), int(found.rows[at.ROW_SYS_FLAG, row]))
            except CorruptRecord as error:
                self._on_damage(int(found.positions[row]), error.reason)
                damaged.append(row)
        if not damaged:
            return found, taken, bodies
        found = found.keep(np.delete(np.arange(len(found)), damaged))
        if taken is not None and len(found):
            taken = found.take_apart(with_pairs=self._with_pairs)
        return found, taken, {row - sum(other < row for other in damaged): body for row, body in bodies.items()}
