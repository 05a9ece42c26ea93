"""Reads records at known places: those of queues, and single ones.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from embermq.errors import CorruptRecord
from embermq.format.record import scan_record
from embermq.kernels import columns as at
from embermq.scan.engine import Numbers
from embermq.scan.file_walk import FileWalk
from embermq.scan.queue_parts import Places, find_places
from embermq.scan.record_places import Stretch, iter_stretches
from embermq.scan.row_batches import RowBatch
from embermq.scan.split_context import SplitContext
from embermq.scan.splits import LogFile, QueueSplit, RecordSplit

_SINGLE_READ: Final = 64 << 10  # bytes read for a record whose size nobody told
_OTHER_MESSAGE: Final = "a queue's entry leads to it, but it belongs to another message"


class Expected(NamedTuple):
    """Which message is to be at each place; an offset of -1: any."""

    topics: Numbers
    queues: Numbers
    offsets: Numbers


def read_queues(context: SplitContext, split: QueueSplit) -> Iterator[pa.RecordBatch]:
    """The wanted messages of parts of queues, in the order of the log."""
    places = _in_log(context, split, find_places(context.store, split.parts, context.add_loss))
    topics = np.array([context.engine.topics.add(part.topic.encode()) for part in split.parts], np.int64)
    queues = np.array([part.queue for part in split.parts], np.int64)
    expected = Expected(topics[places.parts], queues[places.parts], places.offsets)
    ends = places.positions + places.sizes

    def add_gone(file: LogFile, first: int, last: int) -> None:
        numbers, counts = np.unique(places.parts[first:last], return_counts=True)
        for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            context.add_loss(split.parts[number], count, context.reason_of_gone(file))

    for stretch in iter_stretches(context.store.system, split.files, places.positions, ends, add_gone):
        yield from read_places(context, stretch, expected)


def read_single(context: SplitContext, split: RecordSplit) -> Iterator[pa.RecordBatch]:
    """The wanted messages among the records at some positions."""
    for position in split.positions:
        file = next((file for file in split.files if file.start <= position < file.end), None)
        if file is None:
            context.add_damage(position, "no file of the log holds it")
            continue
        try:
            with FileWalk(context.store, file, position, split.log_end, read_size=_SINGLE_READ) as walk:
                record = context.next_record(walk)
                if record is not None:
                    yield from context.selector.plain_batches(record, position)
        except FileNotFoundError:
            context.add_gone(file, position, position + 1)


def _in_log(context: SplitContext, split: QueueSplit, places: Places) -> Places:
    """The places that lie inside of the log; what does not is lost."""
    starts = np.array([file.start for file in split.files] or [0], np.int64)
    file_ends = np.array([min(file.end, split.log_end) for file in split.files] or [0], np.int64)
    which = np.clip(np.searchsorted(starts, places.positions, side="right") - 1, 0, None)
    is_inside = (places.positions >= starts[which]) & (places.sizes <= file_ends[which] - places.positions)
    for lost in np.flatnonzero(~is_inside).tolist():
        position, size = int(places.positions[lost]), int(places.sizes[lost])
        part = split.parts[int(places.parts[lost])]
        context.add_loss(part, 1, f"the log does not have the {size} bytes at position {position}")
    return Places(*(column[is_inside] for column in places))


def read_places(context: SplitContext, stretch: Stretch, expected: Expected) -> Iterator[pa.RecordBatch]:
    """The wanted messages of the records of a stretch."""
    done = 0
    while done < len(stretch.places):
        looked = context.look(stretch.data, stretch.position, places=stretch.places[done:])
        found = RowBatch(context.engine, stretch.data, stretch.position, looked.rows)
        yield from context.selector.batches(_check(context, found, _numbers_of(found, stretch, done), expected))
        done += looked.seen
        if not looked.goes_on and done < len(stretch.places):
            yield from _read_plain(context, stretch, done, expected)
            done += 1


def _numbers_of(found: RowBatch, stretch: Stretch, done: int) -> Numbers | slice:
    """Which of the expected messages the rows are to be; `done` of the stretch's were looked at before."""
    places, end = found.rows[at.ROW_AT], done + len(found)
    if np.array_equal(places, stretch.places[done:end]):  # none is left out, as usual
        return slice(stretch.first + done, stretch.first + end)
    numbers: Numbers = np.searchsorted(stretch.places, places) + stretch.first
    return numbers


def _check(context: SplitContext, found: RowBatch, numbers: Numbers | slice, expected: Expected) -> RowBatch:
    """The rows that are what the queues say; the others are reported."""
    is_right = (expected.offsets[numbers] < 0) | (
        (expected.topics[numbers] == found.rows[at.ROW_TOPIC])
        & (expected.queues[numbers] == found.rows[at.ROW_QUEUE])
        & (expected.offsets[numbers] == found.rows[at.ROW_OFFSET])
    )
    if is_right.all():
        return found
    for row in np.flatnonzero(~is_right).tolist():
        context.add_damage(int(found.positions[row]), _OTHER_MESSAGE)
    return found.keep(np.flatnonzero(is_right))


def _read_plain(context: SplitContext, stretch: Stretch, number: int, expected: Expected) -> Iterator[pa.RecordBatch]:
    """The record that an engine stopped at, which is the stretch's `number`th."""
    place, row = int(stretch.places[number]), stretch.first + number
    position = stretch.position + place
    try:
        found = scan_record(stretch.data, place, position, check_body=False)
        if found is None:
            raise CorruptRecord(position, "a queue's entry leads to it, but no record is there")
        topic = context.engine.topics.add(found.topic.encode())
        message = topic, found.queue, found.offset
        if expected.offsets[row] >= 0 and message != tuple(int(column[row]) for column in expected):
            raise CorruptRecord(position, _OTHER_MESSAGE)
    except CorruptRecord as error:
        context.add_damage(position, error.reason)
        return
    yield from context.selector.plain_batches(stretch.data[place : place + found.size], position)
