"""Reads a stretch of the log.

It ends where a record begins, and that record is looked at, too: so the next stretch, which looks for its first
record, cannot pass over a damaged one unseen. One that goes on where an earlier read ended has none before it; it knows
where its first record begins.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from embermq.scan.file_walk import FileWalk
from embermq.scan.row_batches import RowBatch
from embermq.scan.split_context import SplitContext
from embermq.scan.splits import LogFile, LogSplit


def read_stretch(context: SplitContext, split: LogSplit) -> Iterator[pa.RecordBatch]:
    """The wanted messages of the records that begin in the stretch."""
    position = split.begin
    for file in split.files:
        if file.end <= position or position >= split.end:
            continue
        if position < file.start:
            context.add_damage(position, f"no file holds it; the next begins at {file.start}")
        is_exact = position <= file.start or (split.is_exact and position == split.begin)
        begin = max(position, file.start)
        try:
            yield from _read_file(context, file, begin, split.end, is_exact=is_exact)
        except FileNotFoundError:
            context.add_gone(file, begin, min(split.end, file.end))
        position = file.end
    if position < split.end:
        context.add_damage(position, f"the log's files end there, and it went on to {split.end}")


def _read_file(
    context: SplitContext, file: LogFile, begin: int, end: int, *, is_exact: bool
) -> Iterator[pa.RecordBatch]:
    with FileWalk(context.store, file, begin, context.log_end) as walk:
        if not is_exact and not walk.find_next():
            return  # what lies here belongs to a record that began before
        while walk.position < end:
            data, position = walk.rest, walk.position
            looked = context.look(data, position, stop=end - position)
            yield from context.selector.batches(RowBatch(context.engine, data, position, looked.rows))
            walk.pass_over(looked.end)
            if looked.goes_on or walk.position >= end or walk.fill():
                continue
            # What the engine stops at is the end, or damaged, or only unusual: plain code looks at it.
            position = walk.position
            record = context.next_record(walk)
            if walk.is_closed:
                return
            if record is not None:
                yield from context.selector.plain_batches(record, position)
        if walk.position < min(file.end, context.log_end):
            context.next_record(walk)  # for the stretch that begins here
