"""Zeros over bytes that must not come back, and where there are none yet."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator

from embermq.files.writing import write_whole

_ZEROS = bytes(1 << 16)


def clear(mapping: memoryview | mmap.mmap, begin: int, end: int, *, descriptor: int | None = None) -> bool:
    """Put zeros over what is not zero in [begin, end); whether there was any.

    With the `descriptor` of the file that is mapped, its holes and space that is only reserved
    are passed over, neither read nor written; and zeros are written through it, because a full
    disk is an error there and not a signal.
    """
    is_changed = False
    for first, last in [(begin, end)] if descriptor is None else _iter_data(descriptor, begin, end):
        for at in range(first, last, len(_ZEROS)):
            zeros = _ZEROS[: last - at]
            if bytes(mapping[at : at + len(zeros)]) == zeros:
                continue
            is_changed = True
            if descriptor is None:
                mapping[at : at + len(zeros)] = zeros
            else:
                write_whole(descriptor, zeros, at)
    return is_changed


def find_last_nonzero(mapping: memoryview, begin: int, end: int, *, descriptor: int) -> int | None:
    """Where the last byte of [begin, end) is that is not zero; holes are passed over as in `clear`."""
    for first, last in reversed(list(_iter_data(descriptor, begin, end))):
        for at in range(last - 1 - (last - 1 - first) % len(_ZEROS), first - 1, -len(_ZEROS)):
            part = bytes(mapping[at : min(at + len(_ZEROS), last)])
            if part != _ZEROS[: len(part)]:
                return at + len(part.rstrip(b"\0")) - 1
    return None


def _iter_data(descriptor: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges within [begin, end) that have data, as the file system knows them."""
    while begin < end:
        try:
            first = os.lseek(descriptor, begin, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but holes from here on
                return
            raise
        begin = os.lseek(descriptor, first, os.SEEK_HOLE)
        if first < end:
            yield first, min(begin, end)


def iter_holes(descriptor: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges within [begin, end) that have no data, as the file system knows them."""
    for first, last in _iter_data(descriptor, begin, end):
        if begin < first:
            yield begin, first
        begin = last
    if begin < end:
        yield begin, end
