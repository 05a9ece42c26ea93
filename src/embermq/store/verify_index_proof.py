"""Proves in parts that an index is right: keys of a stretch of the log against entries, and chains of one file.

If every stretch has exactly the entries that come next, and all chains and slots of every file are right, the index
is. If not, `IndexCheck` tells what is wrong; it goes over everything in order.

Only loaded where kernels are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from embermq.format.index_entry import ENTRY, FIRST_ENTRY, entry_at, slot_at
from embermq.kernels.columns import KEY_POSITION, KEY_WIDTH
from embermq.kernels.compiling import Table
from embermq.kernels.index_match import follow_chains, match_entries
from embermq.kernels.memory import address_of
from embermq.log.index_keys import rows_of
from embermq.store.verify_files import Views
from embermq.store.verify_index_file import IndexOutline
from embermq.store.verify_log import RecordsToCheck


class Span(NamedTuple):
    """Entries, counted over all files: [begin, end)."""

    begin: int
    end: int


class SpanCheck:
    """Compares the keys of records from position `begin` on with the entries of all files."""

    def __init__(self, files: Sequence[IndexOutline], views: Views, begin: int) -> None:
        self._files = files
        self._views = [views.of(Path(file.path)) for file in files]
        self._firsts = [0]  # the first entry of each file, and the end, counted over all
        for file in files:
            self._firsts.append(self._firsts[-1] + file.entry_count)
        self._index_begin = files[0].begin if files else 0
        self._begin = self._next = bisect_left(range(self._firsts[-1]), begin, key=self._position_at)
        self._is_right = True

    @property
    def span(self) -> Span | None:
        """The entries that the records have; None if one does not fit."""
        return Span(self._begin, self._next) if self._is_right else None

    def check(self, batch: RecordsToCheck) -> None:
        """Look the keys of records up. They come in the order of the log."""
        if not self._files:
            return
        for piece in batch.pieces:
            if not self._is_right:
                return
            if isinstance(piece, list):
                rows = [(key_hash, *place) for key_hash, place in rows_of(piece, after=self._index_begin - 1)]
                keys = np.array(rows, np.int64).reshape(-1, KEY_WIDTH)
            else:
                keys = piece.keys[np.searchsorted(piece.keys[:, KEY_POSITION], self._index_begin) :]
            self._is_right = self._match(keys)

    def _match(self, keys: Table) -> bool:
        while len(keys):
            if self._next >= self._firsts[-1]:
                return False
            number = bisect_left(self._firsts, self._next + 1) - 1
            file, view = self._files[number], self._views[number]
            entry = FIRST_ENTRY + self._next - self._firsts[number]
            passed = match_entries(address_of(view), len(view), file.slots, entry, file.end, file.begin_time, keys)
            if not passed:
                return False
            self._next += passed
            keys = keys[passed:]
        return True

    def _position_at(self, entry: int) -> int:
        number = bisect_left(self._firsts, entry + 1) - 1
        at = entry_at(self._files[number].slots, FIRST_ENTRY + entry - self._firsts[number])
        position: int = ENTRY.unpack_from(self._views[number], at)[1]
        return position


def is_chained(file: IndexOutline, view: memoryview) -> bool:
    """Whether all chains of a file are as they should be, and its slots lead to them."""
    newest = np.zeros(file.slots, np.int32)
    if follow_chains(address_of(view), len(view), file.end, newest) != file.end:
        return False
    slots = np.frombuffer(view[slot_at(0) : slot_at(file.slots)], ">i4")
    return bool(np.array_equal(slots, newest)) and int(np.count_nonzero(newest)) == file.used_slots
