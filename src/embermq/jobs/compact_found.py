"""Rows of a compaction as tables: made of records that kernels found, chosen, placed. Only loaded where kernels are."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from embermq.format.batch_entry import BATCH_ENTRY_SIZE
from embermq.format.record import BLANK_SIZE
from embermq.jobs.compact_rows import NO_BODY, ROW_SIZE, ROW_WIDTH, Block, Row, digest_of
from embermq.jobs.errors import RecordTooLarge
from embermq.kernels.columns import (
    DONE,
    PAIR_WIDTH,
    RECORD_BODY_SIZE,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_PROPERTIES_SIZE,
    RECORD_SIZE,
    RECORD_STORE_TIME,
    VALUE_KEYS_AT,
    VALUE_KEYS_SIZE,
    VALUE_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.found_records import FoundRecords, FoundRun
from embermq.kernels.memory import address_of
from embermq.kernels.property_split import split_properties
from embermq.model.properties import KEYS, find_property

_HIGH, _LOW, _OFFSET, _POSITION, _SIZE, _TRAITS, _CODE, _TIME = range(ROW_WIDTH)
assert Row._fields.index("tags_code") == _CODE, "the columns are those of a row"


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
    found = records.records[numbers]
    keys = _find_keys(records.data, found)
    has_keys = np.array([bool(key) for key in keys], np.bool_)
    without = len(keys) - int(np.count_nonzero(has_keys))
    if without:
        found, numbers, keys = found[has_keys], numbers[has_keys], [key for key in keys if key]
    rows = np.empty((len(found), ROW_WIDTH), np.int64)
    rows[:, _HIGH : _LOW + 1] = np.frombuffer(b"".join(map(digest_of, keys)), np.int64).reshape(len(found), 2)
    rows[:, _OFFSET] = found[:, RECORD_OFFSET]
    rows[:, _POSITION] = found[:, RECORD_POSITION]
    rows[:, _SIZE] = found[:, RECORD_SIZE]
    rows[:, _TRAITS] = np.where(found[:, RECORD_BODY_SIZE] == 0, traits | NO_BODY, traits)
    rows[:, _CODE] = records.codes[numbers]
    rows[:, _TIME] = found[:, RECORD_STORE_TIME]
    return Rows(rows, int(found[:, RECORD_OFFSET].max(initial=-1)), without)


def split_shares(rows: Table, shares: int) -> Iterator[tuple[int, array[int]]]:
    """The rows by their share of all keys."""
    for share in range(shares):
        chosen = rows if shares == 1 else rows[rows[:, _LOW] % shares == share]
        if len(chosen):
            numbers = array("q")
            numbers.frombytes(chosen.tobytes())
            yield share, numbers


def choose_rows(blocks: Sequence[Block], last_offset: int) -> tuple[bytes, int]:
    """The rows that `compact_tasks.choose` keeps, by offset, and how many they are."""
    rows = _read(blocks)
    order = np.lexsort((rows[:, _OFFSET], rows[:, _LOW], rows[:, _HIGH]))  # stable: of equals the last read comes last
    rows = rows[order]
    is_newest = np.ones(len(rows), np.bool_)
    is_newest[:-1] = np.any(rows[1:, _HIGH : _LOW + 1] != rows[:-1, _HIGH : _LOW + 1], axis=1)
    rows = rows[is_newest & ((rows[:, _TRAITS] & NO_BODY == 0) | (rows[:, _OFFSET] == last_offset))]
    rows = rows[np.argsort(rows[:, _OFFSET], kind="stable")]
    return rows.tobytes(), len(rows)


def place_rows(kept: Sequence[Block], log_size: int, queue_size: int) -> tuple[bytes, list[tuple[int, int, int]]]:
    """The survivors in their order; of each pair of files the first of them, how many and their bytes."""
    rows = _read(kept)
    rows = rows[np.lexsort((rows[:, _POSITION], rows[:, _OFFSET]))]
    rows = rows[np.diff(rows[:, _OFFSET], prepend=-1) > 0]
    ends = np.cumsum(rows[:, _SIZE])
    cuts: list[tuple[int, int, int]] = []
    begin = used = 0
    while begin < len(rows):
        fitting = int(np.searchsorted(ends, used + log_size - BLANK_SIZE, side="right"))
        end = min(fitting, begin + queue_size // BATCH_ENTRY_SIZE - 1)
        if end == begin:
            raise RecordTooLarge(int(rows[begin, _SIZE]), log_size)
        cuts.append((begin, end - begin, int(ends[end - 1]) - used))
        begin, used = end, int(ends[end - 1])
    return rows.tobytes(), cuts


def _read(blocks: Sequence[Block]) -> Table:
    parts = [np.fromfile(each.path, np.int64, each.rows * ROW_WIDTH, offset=each.begin * ROW_SIZE) for each in blocks]
    return np.concatenate(parts or [np.empty(0, np.int64)]).reshape(-1, ROW_WIDTH)


def _find_keys(data: memoryview, found: Table) -> list[memoryview | bytes]:
    """The keys of each record, empty where it has none."""
    count = len(found)
    places = np.ascontiguousarray(found[:, RECORD_PROPERTIES_AT])
    sizes = np.ascontiguousarray(found[:, RECORD_PROPERTIES_SIZE])
    ends, pairs = np.empty(count, np.int32), np.empty((PAIR_WIDTH, 0), np.int64)
    values = np.empty((VALUE_WIDTH, count), np.int64)
    _, _, reason = split_properties(address_of(data), len(data), places, sizes, False, ends, pairs, values)
    if reason != DONE:  # some are not UTF-8
        parts = [bytes(data[at : at + size]) for at, size in zip(places.tolist(), sizes.tolist(), strict=True)]
        return [find_property(part, KEYS.encode()) or b"" for part in parts]
    begins, lengths = values[VALUE_KEYS_AT].tolist(), values[VALUE_KEYS_SIZE].tolist()
    return [data[at : at + size] if size > 0 else b"" for at, size in zip(begins, lengths, strict=True)]
