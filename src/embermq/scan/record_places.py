"""Records at given places of the log: what lies close together is read at once. Where a read costs less than the bytes
between two records, each is read by itself, to its place in the same memory; what lies between is then anything.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from embermq.kernels import loading
from embermq.scan.engine import Numbers
from embermq.scan.file_system import FileSystem, LocalFile, OpenFile
from embermq.scan.splits import LogFile

LOCAL_GAP: Final = 64 << 10  # bytes that are rather read than skipped
REMOTE_GAP: Final = 1 << 20
MOST_READ: Final = 16 << 20  # bytes that records are taken from at once, unless a single one is larger
READS_AT_ONCE: Final = 4  # of the usual size: few records are in each, and all that is made of them costs for itself
SPARSE_GAP: Final = 4 << 10  # bytes between two records, from which on each is better read by itself


OnGone: TypeAlias = Callable[[LogFile, int, int], None]  # a file, and the numbers [first, last) of its records


class Stretch(NamedTuple):
    """Bytes of the log with some of the records, and where they are in them."""

    data: memoryview  # good until the next stretch
    position: int
    places: Numbers
    first: int  # the number of the first of these records among all


def iter_stretches(
    system: FileSystem, files: Sequence[LogFile], positions: Numbers, ends: Numbers, on_gone: OnGone
) -> Iterator[Stretch]:
    """The records that begin at rising `positions` and end at `ends`, read together where they lie close.

    Fewer bytes than asked for come from a file that ends early. All records must lie in `files`, and none in two. Of a
    file that is not there any more, `on_gone` is told, and which records were in it.
    """
    for file in files:
        first, last = np.searchsorted(positions, [file.start, file.end]).tolist()
        if first < last:
            try:
                yield from _iter_file(system, file, positions[first:last], ends[first:last], first)
            except FileNotFoundError:
                on_gone(file, first, last)


def _iter_file(system: FileSystem, file: LogFile, begins: Numbers, ends: Numbers, first: int) -> Iterator[Stretch]:
    """The same for the records of one file, of which there are some; `first` is the number of the first of them."""
    buffer, sizes = _make_buffer(0), ends - begins
    span = int(begins[-1] - begins[0])
    opened = system.open(file.path)
    try:
        is_sparse = span - int(sizes.sum()) >= SPARSE_GAP * len(sizes)
        by_record = is_sparse and isinstance(opened, LocalFile) and loading.is_loaded()
        most = MOST_READ if by_record else min(READS_AT_ONCE * system.read_size, MOST_READ)
        gap = most if by_record else LOCAL_GAP if system.is_local else REMOTE_GAP
        for begin, end in _iter_runs(begins, ends, gap, most):
            low, high = int(begins[begin]), int(ends[begin:end].max())
            if high - low > len(buffer):
                buffer = _make_buffer(max(high - low, min(most, span)))
            places = begins[begin:end] - low
            view = buffer[: high - low]
            if not by_record or not _read_records(opened, view, low - file.start, places, sizes[begin:end]):
                view = view[: opened.read_into(view, low - file.start)]
            yield Stretch(view.toreadonly(), low, places, first + begin)
    finally:
        opened.close()


def _make_buffer(size: int) -> memoryview:
    """Memory with anything in it. numpy asks for large pages: with small ones, its first use costs more than a read."""
    return np.empty(size, np.uint8).data


def _read_records(file: OpenFile, buffer: memoryview, begin: int, places: Numbers, sizes: Numbers) -> bool:
    """Fill `buffer`, the bytes from byte `begin` of a file on, where records are; False if not all are as they say."""
    assert isinstance(file, LocalFile)
    if len(buffer) < LOCAL_GAP * len(places):
        file.expect(begin, len(buffer))
    return file.read_places(buffer, begin, places, sizes)


def _iter_runs(positions: Numbers, ends: Numbers, gap: int, most: int) -> Iterator[tuple[int, int]]:
    """Numbers [begin, end) of records that are read at once."""
    breaks = [0, *(np.flatnonzero(positions[1:] - ends[:-1] > gap) + 1).tolist(), len(positions)]
    for begin, end in pairwise(breaks):
        at = begin
        while at < end:
            fits = int(np.searchsorted(ends[at:end], int(positions[at]) + most, side="right"))
            yield at, at + max(fits, 1)
            at += max(fits, 1)
