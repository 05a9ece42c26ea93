"""Spans of memory, copied one behind the other: the bytes and the offsets of an Arrow column."""

from __future__ import annotations

from typing import Final

from embermq.kernels.columns import DONE, FULL, MISUSED, OUTSIDE
from embermq.kernels.compiling import Offsets, Table, kernel
from embermq.kernels.memory import copy, fits

SPARE: Final = 32  # bytes that there must be room for behind the last: short spans are copied by this many


@kernel("UniTuple(int64, 2)(int64, int64, int64[::1], int64[::1], int32[::1], int64, int64)")
def copy_spans(
    data: int, size: int, places: Table, sizes: Table, offsets: Offsets, target: int, room: int
) -> tuple[int, int]:
    """Copy the spans of `size` bytes of memory to `target`, and write where each begins there, and where the last ends.

    A negative size stands for a span that is not there. Returns how many were copied, and why not all.
    """
    count = len(places)
    if len(sizes) != count or len(offsets) != count + 1 or size < 0:
        return 0, MISUSED
    at = 0
    for number in range(count):
        offsets[number] = at
        span = sizes[number]
        if span > 0:
            place = places[number]
            if not fits(place, span, size):
                return number, OUTSIDE
            if at + span + SPARE > room:
                return number, FULL
            if span <= SPARE and place + SPARE <= size:
                copy(target + at, data + place, SPARE)
            else:
                copy(target + at, data + place, span)
            at += span
    offsets[count] = at
    return count, DONE
