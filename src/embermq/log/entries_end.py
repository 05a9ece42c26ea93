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

Check: TypeAlias = Callable[[tuple[Any, ...]], bool]  # whether the fields of an entry are those of a valid one

_HEAD: Final = struct.Struct(">qi")  # every kind of entry begins with position and size of its record
_CHECKED_ENTRIES: Final = 8  # this many before the end must be valid
_CHECKED: Final = bytes(4_096)  # and this much behind it zero


class EntriesEnd(NamedTuple):
    """What was found."""

    size: int  # of the valid entries, from the beginning of the first file on
    is_sound: bool  # whether, as it seems, nothing but zeros follows them


def find_entries_end(views: Sequence[memoryview], layout: struct.Struct, is_valid: Check) -> EntriesEnd:
    """Where the valid entries end that `views`, files one after the other, begin with."""
    whole = 0
    for view in views:
        size = layout.size * guess_count(view, layout.size)
        if size < len(view):
            if view is views[-1] and _looks_like_end(view, size, layout, is_valid):
                return EntriesEnd(whole + size, is_sound=True)
            return EntriesEnd(_scan(views, layout, is_valid), is_sound=False)
        whole += size
    return EntriesEnd(whole, is_sound=True)


def guess_count(view: memoryview, size: int) -> int:
    """How many entries of `size` bytes a file begins with, if only zeros follow them."""

    def is_missing(index: int) -> bool:
        return bool(_HEAD.unpack_from(view, index * size)[1] <= 0)

    most = len(view) // size
    if not is_missing(most - 1):
        return most
    # In growing steps: most files are nearly empty, and each page that is looked at costs memory.
    low, high = 0, 1
    while high < most and not is_missing(high - 1):
        low, high = high, high * 2
    return bisect_left(range(most), True, lo=low, hi=min(high, most) - 1, key=is_missing)


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
