"""Finds where the entries of a file end. Pure: it looks at memory, whatever file that maps.

Entries are followed by zeros, so the end is searched in a few steps and then looked at
closely. Where it does not look as it should, because a crash lost some pages and kept
later ones, every entry is read from the beginning and the first invalid one is the end.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

Check: TypeAlias = Callable[[tuple[Any, ...]], bool]  # whether these are the fields of a valid entry

_SIZE: Final = struct.Struct(">i")  # of the record
_SIZE_AT: Final = 8  # behind the position, in every kind of entry
_FIRST_STEP: Final = 64
_CHECKED_ENTRIES: Final = 4  # this many before the end must be valid
_CHECKED: Final = bytes(4_096)  # and this much behind it zero


class EntriesEnd(NamedTuple):
    """What was found."""

    size: int  # of the valid entries, from the beginning of the first file on
    is_sound: bool  # whether, as it seems, nothing but zeros follows them


def find_entries_end(views: Sequence[memoryview], layout: struct.Struct, is_valid: Check) -> EntriesEnd:
    """Where the valid entries end that `views`, files one after the other, begin with."""
    if not views:
        return EntriesEnd(0, is_sound=True)
    whole = sum(map(len, views[:-1]))
    if all(_size_at(view, len(view) - layout.size) > 0 for view in views[:-1]):
        size = guess_count(views[-1], layout.size) * layout.size
        if _looks_like_end(views[-1], size, layout, is_valid):
            return EntriesEnd(whole + size, is_sound=True)
    return EntriesEnd(_scan(views, layout, is_valid), is_sound=False)


def guess_count(view: memoryview, size: int) -> int:
    """How many entries of `size` bytes a file begins with, if only zeros follow them."""

    def is_missing(index: int) -> bool:
        return _size_at(view, index * size) <= 0

    most = len(view) // size
    # In growing steps: most files are nearly empty, and each page that is looked at costs memory.
    low, high = 0, _FIRST_STEP
    while high < most and not is_missing(high - 1):
        low, high = high, high * 8
    return bisect_left(range(most), True, lo=low, hi=min(high, most), key=is_missing)


def _size_at(view: memoryview, at: int) -> int:
    size: int = _SIZE.unpack_from(view, at + _SIZE_AT)[0]
    return size


def _looks_like_end(view: memoryview, size: int, layout: struct.Struct, is_valid: Check) -> bool:
    before = view[max(0, size - _CHECKED_ENTRIES * layout.size) : size]
    behind = bytes(view[size : size + len(_CHECKED)])
    return behind == _CHECKED[: len(behind)] and all(map(is_valid, layout.iter_unpack(before)))


def _scan(views: Sequence[memoryview], layout: struct.Struct, is_valid: Check) -> int:
    """The size of the entries before the first that is not valid."""
    count = 0
    for view in views:
        for fields in layout.iter_unpack(view):
            if not is_valid(fields):
                return count * layout.size
            count += 1
    return count * layout.size
