"""Records at given places of the log: what lies close together is read at once.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from embermq.scan.engine import Numbers
from embermq.scan.file_system import FileSystem, OpenFile
from embermq.scan.splits import LogFile

LOCAL_GAP: Final = 64 << 10  # bytes that are rather read than skipped
REMOTE_GAP: Final = 1 << 20
MOST_READ: Final = 16 << 20  # bytes of one read, unless a single record is larger


class Stretch(NamedTuple):
    """Bytes of the log with some of the records, and where they are in them."""

    data: memoryview  # good until the next stretch
    position: int
    places: Numbers
    first: int  # the number of the first of these records among all


def iter_stretches(
    system: FileSystem, files: Sequence[LogFile], positions: Numbers, ends: Numbers
) -> Iterator[Stretch]:
    """The records that begin at rising `positions` and end at `ends`, read together where they lie close.

    Fewer bytes than asked for come from a file that ends early. All records must lie in `files`, and none in two.
    """
    gap = LOCAL_GAP if system.is_local else REMOTE_GAP
    buffer = bytearray()
    for file in files:
        first, last = np.searchsorted(positions, [file.start, file.end]).tolist()
        if first == last:
            continue
        opened = system.open(file.path)
        try:
            for begin, end in _iter_runs(positions[first:last], ends[first:last], gap):
                low, high = int(positions[first + begin]), int(ends[first + begin : first + end].max())
                if high - low > len(buffer):
                    buffer = bytearray(high - low)
                data = _read(opened, buffer, high - low, low - file.start)
                yield Stretch(data, low, positions[first + begin : first + end] - low, first + begin)
        finally:
            opened.close()


def _read(file: OpenFile, buffer: bytearray, size: int, begin: int) -> memoryview:
    view = memoryview(buffer)[:size]
    return view[: file.read_into(view, begin)].toreadonly()


def _iter_runs(positions: Numbers, ends: Numbers, gap: int) -> Iterator[tuple[int, int]]:
    """Numbers [begin, end) of records that are read at once."""
    breaks = [0, *(np.flatnonzero(positions[1:] - ends[:-1] > gap) + 1).tolist(), len(positions)]
    for begin, end in pairwise(breaks):
        at = begin
        while at < end:
            fits = int(np.searchsorted(ends[at:end], int(positions[at]) + MOST_READ, side="right"))
            yield at, at + max(fits, 1)
            at += max(fits, 1)
