"""Rows of a compaction, of records that kernels found. Only loaded where kernels are."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from embermq.jobs.compact_rows import NO_BODY, ROW_WIDTH, Row, digest_of
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
