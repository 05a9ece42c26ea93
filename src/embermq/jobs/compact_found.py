"""Rows of a compaction as tables: made of records that kernels found, chosen, placed. Only loaded where kernels are."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from embermq.format.batch_entry import BATCH_ENTRY_SIZE
from embermq.format.record import BLANK_SIZE
from embermq.jobs.compact_rows import NO_BODY, ROW_SIZE, ROW_WIDTH, Block, Row
from embermq.jobs.errors import RecordTooLarge
from embermq.kernels.columns import (
    DONE,
    KEYED_CODE,
    KEYED_HIGH,
    KEYED_LOW,
    KEYED_OFFSET,
    KEYED_POSITION,
    KEYED_SIZE,
    KEYED_TRAITS,
    KEYED_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.found_records import FoundRecords, FoundRun
from embermq.kernels.key_rows import note_keys
from embermq.kernels.memory import address_of

Mask = npt.NDArray[np.bool_]

assert KEYED_WIDTH == ROW_WIDTH and Row._fields.index("tags_code") == KEYED_CODE, "the columns are those of a row"


class Rows(NamedTuple):
    """The rows of a run."""

    rows: Table
    last_offset: int
    without_keys: int


def make_rows(records: FoundRecords, run: FoundRun, traits: int, is_queued: Sequence[bool] | None) -> Rows:
    """A row for each record of a run that counts and has keys."""
    numbers = records.rows_of(run)
    if is_queued is not None:
        numbers = numbers[np.array(is_queued, np.bool_)]
    rows = np.empty((len(numbers), ROW_WIDTH), np.int64)
    data = records.data
    count, reason = note_keys(
        address_of(data), len(data), records.records, records.codes, numbers, traits, traits | NO_BODY, rows
    )
    assert reason == DONE, f"records that a kernel found, and no rows can be made of them: reason {reason}"
    rows = rows[:count]
    return Rows(rows, int(rows[:, KEYED_OFFSET].max(initial=-1)), len(numbers) - count)


def split_shares(rows: Table, shares: int) -> Iterator[tuple[int, array[int]]]:
    """The rows by their share of all keys."""
    for share in range(shares):
        chosen = rows if shares == 1 else rows[rows[:, KEYED_LOW] % shares == share]
        if len(chosen):
            numbers = array("q")
            numbers.frombytes(chosen.tobytes())
            yield share, numbers


def choose_rows(blocks: Sequence[Block], last_offset: int) -> tuple[bytes, int]:
    """The rows that `compact_tasks.choose` keeps, by offset, and how many they are."""
    rows = _read(blocks)
    if np.any(np.diff(rows[:, KEYED_OFFSET]) < 0):
        rows = rows[np.argsort(rows[:, KEYED_OFFSET], kind="stable")]  # of equals the last read stays last
    has_body = rows[:, KEYED_TRAITS] & NO_BODY == 0
    rows = rows[_find_newest(rows) & (has_body | (rows[:, KEYED_OFFSET] == last_offset))]
    return rows.tobytes(), len(rows)


def _find_newest(rows: Table) -> Mask:
    """Which rows have none with the same key behind them."""
    high, low = rows[:, KEYED_HIGH], rows[:, KEYED_LOW]
    order = np.argsort(low, kind="stable")  # half of a key is enough to part almost all
    is_other = np.diff(low[order]) != 0
    if np.any((np.diff(high[order]) != 0) & ~is_other):
        order = np.lexsort((low, high))
        is_other = (np.diff(low[order]) != 0) | (np.diff(high[order]) != 0)
    newest = np.ones(len(rows), np.bool_)
    newest[order[:-1]] = is_other
    return newest


def place_rows(kept: Sequence[Block], log_size: int, queue_size: int) -> tuple[bytes, list[tuple[int, int, int]]]:
    """The survivors in their order; of each pair of files the first of them, how many and their bytes."""
    rows = _read(kept)
    if np.any(np.diff(rows[:, KEYED_OFFSET]) <= 0):
        rows = rows[np.lexsort((rows[:, KEYED_POSITION], rows[:, KEYED_OFFSET]))]
        rows = rows[np.diff(rows[:, KEYED_OFFSET], prepend=-1) > 0]
    ends = np.cumsum(rows[:, KEYED_SIZE])
    cuts: list[tuple[int, int, int]] = []
    begin = used = 0
    while begin < len(rows):
        fitting = int(np.searchsorted(ends, used + log_size - BLANK_SIZE, side="right"))
        end = min(fitting, begin + queue_size // BATCH_ENTRY_SIZE - 1)
        if end == begin:
            raise RecordTooLarge(int(rows[begin, KEYED_SIZE]), log_size)
        cuts.append((begin, end - begin, int(ends[end - 1]) - used))
        begin, used = end, int(ends[end - 1])
    return rows.tobytes(), cuts


def _read(blocks: Sequence[Block]) -> Table:
    parts = [np.fromfile(each.path, np.int64, each.rows * ROW_WIDTH, offset=each.begin * ROW_SIZE) for each in blocks]
    return np.concatenate(parts or [np.empty(0, np.int64)]).reshape(-1, ROW_WIDTH)
