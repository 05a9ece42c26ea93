"""Records that kernels find in the memory of a log file, for those who check a whole log.

`pass_whole` walks over records, `FileRecords` gives them in pieces, with all that queues and index should hold of
them. Both stop at a record that plain code must look at: damaged, or of a kind that kernels do not know.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.kernels.columns import (
    DONE,
    FULL,
    KEY_HASH,
    KEY_POSITION,
    KEY_STORE_TIME,
    KEY_WIDTH,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_PROPERTIES_AT,
    RECORD_PROPERTIES_SIZE,
    RECORD_QUEUE,
    RECORD_SIZE,
    RECORD_STORE_TIME,
    RECORD_SYS_FLAG,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
    RUN_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.dispatch import find_codes_and_keys
from embermq.kernels.index_match import match_keys
from embermq.kernels.memory import address_of
from embermq.kernels.queue_runs import group_entries
from embermq.kernels.record_check import count_faultless, count_named
from embermq.kernels.record_scan import scan_records

_ROOM: Final = 4_096  # records looked for at a time
KEYS_PER_RECORD: Final = 4  # more than that make the table of keys grow


class Passed(NamedTuple):
    """How far a walk came."""

    records: int  # how many there were
    end: int  # where the last of them ends, and something else begins
    last: int  # where the last of them begins


class FoundRun(NamedTuple):
    """Records of one queue, from an offset on without a gap."""

    topic: str
    queue: int
    offset: int
    entries: bytes  # as they should be in the queue


class FoundRecord(NamedTuple):
    """What queues and index should know of one record."""

    topic: str
    queue: int
    offset: int
    position: int
    size: int
    tags_code: int
    store_time: int
    sys_flag: int
    properties: bytes


def pass_whole(data: memoryview, at: int, position: int, *, needs_crc: bool) -> Passed:
    """Walk over the records from byte `at` of `data` on, which is log `position`: whole, and with a topic's name.

    Ends at the first that is not so, or after some thousands.
    """
    records = _table(_ROOM, RECORD_WIDTH)
    address, size = address_of(data) + at, len(data) - at
    count, _, _ = scan_records(address, size, position, True, records)
    count = count_named(address, size, position, records[:count], needs_crc)
    if not count:
        return Passed(0, at, at)
    last = int(records[count - 1, RECORD_POSITION]) - position
    return Passed(count, at + last + int(records[count - 1, RECORD_SIZE]), at + last)


class FoundKeys:
    """Keys of records, in the order of the log."""

    def __init__(self, keys: Table) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, number: int) -> tuple[int, tuple[int, int]]:
        """Hash of a key; position and store time of its record."""
        row = self._keys[number].tolist()
        return row[KEY_HASH], (row[KEY_POSITION], row[KEY_STORE_TIME])

    def count_records(self, begin: int, end: int) -> int:
        """How many records have keys in [begin, end) and none before `begin`."""
        positions = self._keys[max(begin - 1, 0) : end, KEY_POSITION]
        return int(np.count_nonzero(positions[1:] != positions[:-1])) + (begin == 0 < end)

    def match(
        self, begin: int, index: memoryview, *, number: int, end: int, begin_time: int, until: int, newest: array[int]
    ) -> int:
        """How many keys from `begin` on are the entries from `number` on of an index file; see match_keys."""
        slots = np.frombuffer(newest, np.int32)
        return match_keys(address_of(index), len(index), number, end, begin_time, until, slots, self._keys[begin:])


class FoundRecords:
    """Some records with nothing wrong; `data` is the memory they lie in. At least one."""

    __slots__ = ("_data", "codes", "keys", "records")

    def __init__(self, data: memoryview, records: Table, codes: Table, keys: Table) -> None:
        self.records = records
        self.codes = codes
        self.keys = keys
        self._data = data

    def __len__(self) -> int:
        return len(self.records)

    @property
    def last_position(self) -> int:
        return int(self.records[-1, RECORD_POSITION])

    @property
    def end(self) -> int:
        """The position behind the last of them."""
        return self.last_position + int(self.records[-1, RECORD_SIZE])

    @property
    def size(self) -> int:
        """How many bytes they take."""
        return self.end - int(self.records[0, RECORD_POSITION])

    def __getitem__(self, number: int) -> FoundRecord:
        row = self.records[number].tolist()
        topic_at, properties_at = row[RECORD_TOPIC_AT], row[RECORD_PROPERTIES_AT]
        return FoundRecord(
            bytes(self._data[topic_at : topic_at + row[RECORD_TOPIC_SIZE]]).decode(),
            row[RECORD_QUEUE],
            row[RECORD_OFFSET],
            row[RECORD_POSITION],
            row[RECORD_SIZE],
            int(self.codes[number]),
            row[RECORD_STORE_TIME],
            row[RECORD_SYS_FLAG],
            bytes(self._data[properties_at : properties_at + row[RECORD_PROPERTIES_SIZE]]),
        )

    def keys_from(self, position: int) -> FoundKeys:
        """The keys of the records that begin at `position` or behind it."""
        return FoundKeys(self.keys[np.searchsorted(self.keys[:, KEY_POSITION], position) :])

    def iter_runs(self) -> Iterator[FoundRun]:
        """The records that have a place in a queue, by queue."""
        count = len(self)
        entries, runs = np.empty(count * QUEUE_ENTRY_SIZE, np.uint8), _table(count, RUN_WIDTH)
        run_count, _, reason = group_entries(
            address_of(self._data), len(self._data), self.records, self.codes,
            int(entries.ctypes.data), entries.nbytes, runs,
        )  # fmt: skip
        assert reason == DONE, f"records that a kernel found, and no entries can be made of them: reason {reason}"
        data, blocks = self._data, entries.tobytes()
        for topic_at, topic_size, queue, offset, begin, number in runs[:run_count].tolist():
            block = blocks[begin * QUEUE_ENTRY_SIZE : (begin + number) * QUEUE_ENTRY_SIZE]
            topic = bytes(data[topic_at : topic_at + topic_size]).decode()
            yield FoundRun(topic, queue, offset, block)

    def records_of(self, run: FoundRun) -> list[FoundRecord]:
        """The records of a run."""
        return [self[row] for row in self.rows_of(run).tolist()]

    def rows_of(self, run: FoundRun) -> Table:
        """Which records are those of a run."""
        entries = np.frombuffer(run.entries, np.dtype([("position", ">i8"), ("rest", "V12")]))
        return np.searchsorted(self.records[:, RECORD_POSITION], entries["position"].astype(np.int64))

    @property
    def data(self) -> memoryview:
        """The memory that `_AT` of the records counts from."""
        return self._data


class FileRecords:
    """The records of `data`, all of one log file, which begins at position `start`."""

    def __init__(self, data: memoryview, start: int) -> None:
        self._data = data
        self._start = start
        self._base = 0  # the byte that the rows were looked for from
        self._rows = _table(0, RECORD_WIDTH)
        self._faultless = 0  # the first row with a fault, of those from the last look on

    def take(self, at: int, stop: int, most: int) -> FoundRecords | None:
        """At most `most` records that begin in bytes [at, stop); None if plain code must look at what is there."""
        row = self._find_row(at)
        if row > self._faultless:
            self._faultless = row + self._count_faultless(self._rows[row:])
        rows = self._rows[row : min(self._faultless, row + most)]
        rows = rows[: np.searchsorted(rows[:, RECORD_POSITION], self._start + stop)]
        data = self._data[self._base :]
        return find_known(address_of(data), data, rows) if len(rows) else None

    def _find_row(self, at: int) -> int:
        """The row of what is at byte `at`; it is behind the last row where no record is."""
        position = self._start + at
        row = int(np.searchsorted(self._rows[:, RECORD_POSITION], position))
        if row < len(self._rows) and self._rows[row, RECORD_POSITION] == position:
            return row
        rows = _table(_ROOM, RECORD_WIDTH)  # new ones, for the old may be in use
        self._base = at
        count, _, _ = scan_records(address_of(self._data) + at, len(self._data) - at, position, True, rows)
        self._rows = rows[:count]
        self._faultless = self._count_faultless(self._rows)
        return 0

    def _count_faultless(self, rows: Table) -> int:
        base = self._base
        return count_faultless(address_of(self._data) + base, len(self._data) - base, self._start + base, rows)


def find_known(address: int, data: memoryview, rows: Table) -> FoundRecords | None:
    """Those of the rows, from the first on, that kernels know what to do with; None if there is none.

    The records lie at `address`, and will be in `data` before somebody looks there. The rows are kept, not copied.
    """
    codes, room = np.empty(len(rows), np.int64), KEYS_PER_RECORD * len(rows)
    while True:
        keys = _table(room, KEY_WIDTH)
        done, key_count, reason = find_codes_and_keys(address, len(data), rows, -1, codes, keys)
        if reason != FULL:
            return FoundRecords(data, rows[:done], codes[:done], keys[:key_count]) if done else None
        room *= 4


def _table(*shape: int) -> Table:
    return np.empty(shape, np.int64)
