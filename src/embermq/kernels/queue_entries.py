"""Queue entries straight into the memory of queue files, where log/queue_table.py says that kernels may write.

Others may read meanwhile, and the process may be killed at any moment: the size of an entry is written after the
rest of it, because an entry without one is none; the file is said to be written that far before the queue is.
"""

from __future__ import annotations

from typing import Final

from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.kernels.columns import (
    QUEUE_END,
    QUEUE_FIRST,
    QUEUE_LIMIT,
    QUEUE_MEMORY,
    QUEUE_WIDTH,
    QUEUE_WRITTEN,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_SIZE,
    RECORD_SYS_FLAG,
    RECORD_WIDTH,
)
from embermq.kernels.compiling import Table, kernel, part
from embermq.kernels.memory import fence, get, load_i32, load_i64, prefetch, put, row_at, store_32, store_64
from embermq.model.flags import NOT_QUEUED

_I32: Final = 2**31
_AHEAD: Final = 8  # records whose entries are fetched before they are needed: with many queues, few are in a cache


@part
def _is_clear(at: int) -> bool:
    """Whether there is no entry yet."""
    return load_i64(at) == 0 and load_i64(at + 8) == 0 and load_i32(at + 16) == 0


@part
def _enter(row: int, record: int, code: int) -> bool:
    """Write one entry; False if the queue does not offer its place."""
    offset, size = get(record, RECORD_OFFSET), get(record, RECORD_SIZE)
    first, limit = get(row, QUEUE_FIRST), get(row, QUEUE_LIMIT)
    if offset != get(row, QUEUE_END) or not first <= offset < limit - 1 or not 0 < size < _I32:
        return False
    at = get(row, QUEUE_MEMORY) + (offset - first) * QUEUE_ENTRY_SIZE
    if not _is_clear(at + QUEUE_ENTRY_SIZE):  # left by a crash, and would be taken for entries behind this one
        return False
    store_64(at, get(record, RECORD_POSITION))
    store_64(at + 12, code)
    fence()
    store_32(at + 8, size)
    fence()
    put(get(row, QUEUE_WRITTEN), 0, (offset + 1 - first) * QUEUE_ENTRY_SIZE)
    fence()
    put(row, QUEUE_END, offset + 1)
    return True


@part
def _fetch(row: int) -> None:
    prefetch(get(row, QUEUE_MEMORY) + (get(row, QUEUE_END) - get(row, QUEUE_FIRST)) * QUEUE_ENTRY_SIZE)


@kernel("int64(int64[:, ::1], int64[::1], int64[::1], int64, int64, int64)")
def enter_entries(records: Table, codes: Table, places: Table, numbers: int, numbers_size: int, begin: int) -> int:
    """Write the entries of records from number `begin` on; the first whose queue does not offer a place, or all.

    `places` tells where in the numbers of all queues those of a record's queue begin.
    """
    count = len(records)
    if records.shape[1] != RECORD_WIDTH or min(len(codes), len(places)) < count or begin < 0:
        return begin
    for number in range(begin, count):
        record, place = row_at(records, number), places[number]
        if get(record, RECORD_SYS_FLAG) & NOT_QUEUED:
            continue
        if not 0 <= place <= numbers_size - QUEUE_WIDTH:
            return number
        if number + _AHEAD < count and 0 <= places[number + _AHEAD] <= numbers_size - QUEUE_WIDTH:
            _fetch(numbers + places[number + _AHEAD] * 8)
        if not _enter(numbers + place * 8, record, codes[number]):
            return number
    return count
