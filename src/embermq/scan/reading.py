"""Reads one split: Arrow batches of the messages that are wanted, and proof that none was left out.

A split that cannot be read to its end raises DamagedRecord or DataLoss, or counts what is missing if it may.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from embermq.scan.engine import choose_engine
from embermq.scan.joining import join_small
from embermq.scan.place_reading import read_queues, read_single
from embermq.scan.pull_reading import PullContext, read_pulled
from embermq.scan.split_context import MakeEngine, SplitContext
from embermq.scan.splits import LogSplit, PullSplit, QueueSplit, RecordSplit, Split
from embermq.scan.stretch_reading import read_stretch
from embermq.scan.tally import Tally
from embermq.scan.wanted import OffsetRange, Wanted


def read_split(
    split: Split, wanted: Wanted, tally: Tally | None = None, *, make_engine: MakeEngine = choose_engine
) -> Iterator[pa.RecordBatch]:
    """The wanted messages of a split, in the order of the log, as Arrow batches of `wanted.columns`.

    What is skipped or lost, where `wanted` allows it, is counted in `tally`. Raises DamagedRecord and DataLoss.
    """
    tally = tally or Tally()
    match split:
        case LogSplit():
            batches = read_stretch(SplitContext(split, wanted, tally, make_engine), split)
        case QueueSplit():
            parts = tuple(OffsetRange(*part) for part in split.parts)
            chosen = replace(wanted, topics=None, pattern=None, system_topics=True, ranges=parts)
            batches = read_queues(SplitContext(split, chosen, tally, make_engine), split)
        case PullSplit():
            parts = tuple(OffsetRange(*part) for part in split.parts)
            chosen = replace(wanted, topics=None, pattern=None, system_topics=True, ranges=parts)
            batches = read_pulled(PullContext(split, chosen, tally, make_engine), split)
        case RecordSplit():
            batches = read_single(SplitContext(split, wanted, tally, make_engine), split)
    yield from batches if wanted.by_topic else join_small(batches)
