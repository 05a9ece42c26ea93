"""Runs every kernel on memory between guards. A program of its own, because a kernel that errs ends it.

python -m tests.unit.kernels.guarded_cases COUNT: so many rounds; prints `COUNT rounds` at the end.
python -m tests.unit.kernels.guarded_cases before|behind: touches a guard, to show that this is noticed.
"""

from __future__ import annotations

import sys
import zlib
from ctypes import string_at
from random import Random

import numpy as np

from embermq.format.index_entry import IndexHeader, encode_index_header, index_file_size
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.kernels.batch_drafts import place_bodies, share_out
from embermq.kernels.byte_table import ByteTable
from embermq.kernels.columns import (
    BYTES_ADDRESS,
    DRAFT_BODY_AT,
    DRAFT_PROPERTIES_AT,
    DRAFT_WIDTH,
    KEY_WIDTH,
    RECORD_WIDTH,
    RUN_WIDTH,
)
from embermq.kernels.compiling import Table
from embermq.kernels.crc import crc32, crc32_by_tables, crc32_copying
from embermq.kernels.dispatch import find_codes_and_keys
from embermq.kernels.index_rows import put_index
from embermq.kernels.memory import find_byte
from embermq.kernels.queue_runs import group_entries
from embermq.kernels.record_scan import scan_records
from embermq.kernels.records import encode_records
from embermq.kernels.text import hash_text
from tests.unit.kernels.guarded_memory import GuardedMemory
from tests.unit.kernels.kernel_builders import (
    HOSTS,
    NUMBERS,
    STORE_TIME,
    SUFFIXES,
    Sources,
    a_log,
    damaged,
    random_draft,
    shortened,
    table,
)


class Rounds:
    """One round calls every kernel once, with all it is given at one guard or the other."""

    def __init__(self) -> None:
        self._memories = [GuardedMemory() for _ in range(8)]

    def run(self, random: Random) -> None:
        self.bytes_and_text(random)
        self.batch(random)
        self.encode(random)
        self.scan_and_dispatch(random)
        self.index(random)

    def bytes_and_text(self, random: Random) -> None:
        data = random.choice((random.randbytes(random.randrange(300)), "aé€😀".encode() * random.randrange(9)))
        data = data[: random.randrange(len(data) + 1)]
        for last in (False, True):
            address = self._memories[0].place(data, last=last)
            assert crc32(address, len(data)) == crc32_by_tables(address, len(data)) == zlib.crc32(data)
            target = self._memories[1].place(bytes(len(data)), last=last)
            assert crc32_copying(target, address, len(data)) == zlib.crc32(data)
            assert string_at(target, len(data)) == data
            hash_text(address, len(data), 0)
            find_byte(address, address + len(data), 0x02)

    def batch(self, random: Random) -> None:
        ends = np.array([random.choice((*NUMBERS, 50, 60, 70)) for _ in range(random.randrange(9))], np.int64)
        rows = table(random.randrange(9), DRAFT_WIDTH)
        for last in (False, True):
            memory, drafts, *_ = self._memories
            given = drafts.place_table(rows, last=last)
            place_bodies(memory.place(ends.tobytes(), last=last), len(ends), random.choice((65, *NUMBERS)), given)
            share_out(given, random.choice(NUMBERS), random.choice(NUMBERS), 1, 1, 1)

    def encode(self, random: Random) -> None:
        sources = Sources(store_host=random.choice(HOSTS), suffix=random.choice(SUFFIXES))
        for _ in range(random.randrange(1, 6)):
            sources.add(random_draft(random), 0)
        for _ in range(random.randrange(3)):
            spoil(random, sources.rows[random.randrange(len(sources.rows))], len(sources.data))
        room = random.randrange(2500)
        plain, sizes, _ = sources.encode_plainly(room)
        for last in (False, True):
            source, target, drafts, records, names, hosts, suffix, _ = self._memories
            topic = random.randrange(len(sources.topics))
            topics = self._with_guarded(sources.topics, topic, names, last=last)
            to = target.place(bytes(room), last=last)
            parts = source.place(bytes(sources.data), last=last)
            count, used, _ = encode_records(
                drafts.place_table(np.array(sources.rows, np.int64).reshape(-1, DRAFT_WIDTH), last=last),
                parts,
                len(sources.data),
                parts,
                len(sources.data),
                topics,
                self._with_guarded(sources.hosts, sources.hosts.number_of(sources.store_host), hosts, last=last),
                sources.hosts.number_of(sources.store_host),
                suffix.place(sources.suffix, last=last),
                len(sources.suffix),
                STORE_TIME,
                0,
                to,
                room,
                records.place_table(table(len(sources.rows), RECORD_WIDTH), last=last),
            )
            assert (count, target.read(to, used)) == (len(sizes), plain)

    def _with_guarded(self, items: ByteTable, number: int, memory: GuardedMemory, *, last: bool) -> Table:
        """The rows of a ByteTable, with the bytes of one at a guard."""
        rows = items.rows.copy()
        rows[number, BYTES_ADDRESS] = memory.place(list(items)[number], last=last)
        return rows

    def scan_and_dispatch(self, random: Random) -> None:
        log = a_log([random_draft(random) for _ in range(random.randrange(1, 5))], store_host=random.choice(HOSTS))
        match random.randrange(4):
            case 0:
                data = log
            case 1:
                one = a_log([random_draft(random)], store_host=random.choice(HOSTS))
                data = shortened(one, random.randrange(min(len(one) - 4, 40)))
            case _:
                data = damaged(random, log)
        for last in (False, True):
            memory, tables, entries, keys, runs, codes, _, _ = self._memories
            address = memory.place(data, last=last)
            records = tables.place_table(table(5, RECORD_WIDTH), last=last)
            count, _, _ = scan_records(address, len(data), 0, random.random() < 0.5, records)
            found = records[:count].copy()
            if count and random.random() < 0.5:
                row = found[random.randrange(count)]
                row[random.randrange(RECORD_WIDTH)] = random.choice((*NUMBERS, len(data), len(data) - 1))
            given = tables.place_table(found, last=last)
            filed = codes.place_table(np.zeros(count, np.int64), last=last)
            room = keys.place_table(table(random.randrange(6), KEY_WIDTH), last=last)
            find_codes_and_keys(address, len(data), given, random.choice((-1, 100)), filed, room)
            target = entries.place(bytes(count * QUEUE_ENTRY_SIZE), last=last)
            made = runs.place_table(table(count, RUN_WIDTH), last=last)
            group_entries(address, len(data), given, filed, target, count * QUEUE_ENTRY_SIZE, made)

    def index(self, random: Random) -> None:
        slots, entries = random.randrange(1, 20), random.randrange(1, 40)
        size = index_file_size(slots, entries)
        header = IndexHeader(
            0, 0, 0, 0, random.randrange(9), random.choice((-1, 0, 1, entries - 1, entries, 2**31 - 1))
        )
        content = encode_index_header(header) + random.randbytes(size)
        hashes = (random.choice((random.randrange(2**31), random.choice(NUMBERS))) for _ in range(50))
        rows = np.array([(key, 1, STORE_TIME) for key in hashes], np.int64)
        for last in (False, True):
            memory, keys, *_ = self._memories
            address = memory.place(content[:size], last=last)
            put_index(address, size, slots, entries, keys.place_table(rows, last=last))


def spoil(random: Random, row: list[int], size: int) -> None:
    match random.randrange(3):
        case 0:  # a part that ends with the memory, or one byte behind it
            part = random.choice((DRAFT_BODY_AT, DRAFT_PROPERTIES_AT))
            row[part + 1] = random.randrange(size + 1)
            row[part] = size - row[part + 1] + random.randrange(2)
        case _:
            row[random.randrange(len(row))] = random.choice((*NUMBERS, size, size - 1, size + 1))


def main(argument: str) -> None:
    if argument in ("before", "behind"):
        memory = GuardedMemory()
        crc32_by_tables(memory.begin - 1 if argument == "before" else memory.end, 1)
        return
    rounds = Rounds()
    for number in range(int(argument)):
        rounds.run(Random(number))
    print(f"{argument} rounds")


if __name__ == "__main__":
    main(sys.argv[1])
