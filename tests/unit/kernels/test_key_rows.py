"""What a kernel notes of records for compaction is what plain code notes, digests of keys included."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from embermq.format.record import Draft
from embermq.jobs.compact_rows import digest_of
from embermq.kernels.columns import (
    DONE,
    FULL,
    KEYED_WIDTH,
    MISUSED,
    OUTSIDE,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_PROPERTIES_SIZE,
    RECORD_SIZE,
    RECORD_STORE_TIME,
    RECORD_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.key_rows import note_keys
from embermq.kernels.memory import address_of
from embermq.kernels.record_scan import scan_records
from embermq.model.properties import find_property
from tests.unit.kernels.kernel_builders import CASES, a_log, random_draft, random_properties, run_cases, table

NAMES = (b"KEYS", b"KEYS", b"TAGS", b"KEY", b"KEYSX", b"XKEYS", b"UNIQ_KEY", b"")
TRAITS, BODILESS = 4, 9


class Log:
    """Log memory, the table of its records, and codes of them."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.drafts = drafts
        self.data = a_log(drafts)
        self.records = table(len(drafts), RECORD_WIDTH)
        assert scan_records(address_of(self.data), len(self.data), 0, True, self.records)[0] == len(drafts)
        self.codes = np.arange(7, 7 + len(drafts))

    def note(self, numbers: Sequence[int], room: int | None = None) -> tuple[list[list[int]], int]:
        """The rows of some records, and the reason."""
        rows = table(len(numbers) if room is None else room, KEYED_WIDTH)
        count, reason = self.call(self.records, np.array(numbers, np.int64), rows)
        return rows[:count].tolist(), reason

    def call(self, records: Table, numbers: Table, rows: Table) -> tuple[int, int]:
        data = self.data
        return note_keys(address_of(data), len(data), records, self.codes, numbers, TRAITS, BODILESS, rows)

    def note_plainly(self, numbers: Sequence[int]) -> list[list[int]]:
        return [row for row in map(self._row, numbers) if row]

    def _row(self, number: int) -> list[int]:
        draft, record = self.drafts[number], self.records[number].tolist()
        keys = find_property(draft.properties, b"KEYS")
        if not keys:
            return []
        digest = digest_of(keys)
        place = [record[column] for column in (RECORD_OFFSET, RECORD_POSITION, RECORD_SIZE)]
        traits = TRAITS if draft.body else BODILESS
        halves = (int.from_bytes(digest[at : at + 8], "little", signed=True) for at in (0, 8))
        return [*halves, *place, traits, int(self.codes[number]), record[RECORD_STORE_TIME]]


def with_keys(keys: bytes, body: bytes = b"x") -> Draft:
    return Draft(b"orders", 0, body, b"KEYS\x01" + keys + b"\x02TAGS\x01a\x02")


@pytest.mark.parametrize("count", CASES)
def test_rows_of_random_records(count: int) -> None:
    def case(random: Random) -> int:
        size = random.choice((1, 2, 5, 20))
        drafts = [random_draft(random, properties=random_properties(random, names=NAMES)) for _ in range(size)]
        log, numbers = Log(drafts), [random.randrange(size) for _ in range(random.randrange(2 * size))]
        assert log.note(numbers) == (log.note_plainly(numbers), DONE)
        return size

    assert run_cases(count, 3, case) >= count


def test_keys_of_every_size_have_their_digest() -> None:
    sizes = [*range(1, 400), 1_023, 1_024, 1_025, 30_000]
    log = Log([with_keys(Random(size).randbytes(size).replace(b"\x02", b"\x03")) for size in sizes])
    numbers = range(len(sizes))
    rows, reason = log.note(numbers)
    assert (len(rows), reason) == (len(sizes), DONE)
    assert rows == log.note_plainly(numbers)


def test_what_cannot_be_is_refused_as_a_whole() -> None:
    log = Log([with_keys(b"a"), with_keys(b"b", b"")])
    assert log.note([0, 1, 2]) == ([], OUTSIDE)
    assert log.note([-1]) == ([], OUTSIDE)
    assert log.note([0, 1], room=1) == ([], FULL)
    numbers = np.arange(2)
    assert log.call(table(2, RECORD_WIDTH - 1), numbers, table(2, KEYED_WIDTH)) == (0, MISUSED)
    assert log.call(log.records, numbers, table(2, KEYED_WIDTH - 1)) == (0, MISUSED)
    for column, value in ((RECORD_PROPERTIES_AT, -1), (RECORD_PROPERTIES_SIZE, len(log.data))):
        records = log.records.copy()
        records[1, column] = value
        assert log.call(records, numbers, table(2, KEYED_WIDTH)) == (0, OUTSIDE)
