"""Runs the kernels that check a log on memory between guards. A program of its own, because one that errs ends it.

python -m tests.unit.kernels.guarded_checks COUNT: so many rounds; prints `COUNT rounds` at the end.
"""

from __future__ import annotations

import ctypes
import sys
from random import Random

import numpy as np

from embermq.format.index_entry import index_file_size
from embermq.format.queue_entry import ENTRY
from embermq.kernels.columns import (
    KEYED_WIDTH,
    RECORD_OFFSET,
    RECORD_POSITION,
    RECORD_QUEUE,
    RECORD_SIZE,
    RECORD_TOPIC_AT,
    RECORD_TOPIC_SIZE,
    RECORD_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.index_match import match_keys
from embermq.kernels.key_rows import note_keys
from embermq.kernels.queue_match import confirm_entries
from embermq.kernels.record_check import count_faultless, count_named
from embermq.kernels.record_scan import scan_records
from tests.unit.kernels.checked_records import a_checked_log
from tests.unit.kernels.guarded_memory import GuardedMemory
from tests.unit.kernels.kernel_builders import NUMBERS, STORE_TIME, table

PLACE_COLUMNS = (RECORD_TOPIC_AT, RECORD_TOPIC_SIZE, RECORD_QUEUE, RECORD_OFFSET)


class Rounds:
    """One round calls every kernel twice, with all it is given at one guard or the other."""

    def __init__(self) -> None:
        self._memories = [GuardedMemory() for _ in range(3)]

    def run(self, random: Random) -> None:
        self.records(random)
        self.index(random)

    def records(self, random: Random) -> None:
        data, position = a_checked_log(random), random.choice((0, 0, 100))
        for last in (False, True):
            memory, tables, _ = self._memories
            address = memory.place(data, last=last)
            records = tables.place_table(table(8, RECORD_WIDTH), last=last)
            count, _, _ = scan_records(address, len(data), 0, False, records)
            found = records[:count].copy()
            if count and random.random() < 0.7:
                row = found[random.randrange(count)]
                row[random.randrange(RECORD_WIDTH)] = random.choice((*NUMBERS, len(data), len(data) - 1))
            given = tables.place_table(found, last=last)
            count_named(address, len(data), position, given, random.random() < 0.5)
            count_faultless(address, len(data), position, given)
            rows, codes = table(len(found), KEYED_WIDTH), np.zeros(len(found), np.int64)
            note_keys(address, len(data), given, codes, np.arange(len(found)), 0, 1, rows)
            if len(found):
                self.entries(random, address, len(data), given, last=last)

    def entries(self, random: Random, address: int, size: int, records: Table, *, last: bool) -> None:
        """Compare records with the entries of one queue, to which all slots lead."""
        count, record = random.randrange(4), records[random.randrange(len(records))].tolist()
        at, topic_size, queue, offset = (record[column] for column in PLACE_COLUMNS)
        entry = ENTRY.pack(record[RECORD_POSITION] % 2**63, record[RECORD_SIZE] % 2**31, 0)
        memory = self._memories[2].place(entry * count, last=last)
        first = random.choice((offset % 2**62, max(offset % 2**62 - 1, 0), 0))
        topic = address + (at if 0 <= at <= size - max(topic_size, 0) else 0)
        row = (topic, topic_size if 0 <= topic_size <= size else 0, queue, memory, first, first + count, 0, 0, 0)
        queues, slots = np.array([row], np.int64), np.zeros(4, np.int64)
        codes, left = np.zeros(len(records), np.int64), np.empty(len(records), np.int64)
        confirm_entries(address, size, records, codes, random.randrange(2), slots, queues, left)

    def index(self, random: Random) -> None:
        slots, entries = random.randrange(1, 20), random.randrange(1, 40)
        size = index_file_size(slots, entries)
        content = bytes(size) if random.random() < 0.5 else random.randbytes(size)
        number, end = random.randrange(-1, entries + 2), random.choice((entries, entries + 1, *NUMBERS))
        rows = np.array([(random.choice(NUMBERS), random.choice(NUMBERS), STORE_TIME) for _ in range(50)], np.int64)
        for last in (False, True):
            memory, keys, newest = self._memories
            address = memory.place(content, last=last)
            kind = ctypes.c_char * (4 * slots)
            at = newest.place(random.randbytes(4 * slots), last=last)
            known = np.frombuffer(kind.from_address(at), np.int32)
            given = keys.place_table(rows, last=last)
            match_keys(address, size, number, end, random.choice(NUMBERS), random.choice(NUMBERS), known, given)


def main(argument: str) -> None:
    rounds = Rounds()
    for number in range(int(argument)):
        rounds.run(Random(number))
    print(f"{argument} rounds")


if __name__ == "__main__":
    main(sys.argv[1])
