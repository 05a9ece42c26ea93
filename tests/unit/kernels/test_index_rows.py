"""Keys that a kernel puts into the memory of an index file leave the bytes that IndexFile.put leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest

from embermq.format.index_entry import HEADER, SLOT, IndexHeader, encode_index_header, index_file_size
from embermq.kernels.columns import DONE, FULL, KEY_WIDTH, MISUSED, UNFIT
from embermq.kernels.compiling import Table
from embermq.kernels.index_rows import put_index
from embermq.kernels.memory import address_of
from embermq.log.index_file import IndexFile
from embermq.log.index_keys import Row
from tests.unit.kernels.kernel_builders import CASES, NUMBERS, STORE_TIME, run_cases, table

SLOTS, ENTRIES = 13, 60
SIZE = index_file_size(SLOTS, ENTRIES)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[IndexFile]:
    made = IndexFile.create(tmp_path / "20231114221320123", slots=SLOTS, entries=ENTRIES)
    made.reserve(ENTRIES - 1)
    yield made
    made.close()


def keys_of(rows: list[Row]) -> Table:
    return np.array([(key, *place) for key, place in rows], np.int64).reshape(-1, KEY_WIDTH)


def put(memory: bytearray, rows: list[Row], *, slots: int = SLOTS, entries: int = ENTRIES) -> tuple[int, int]:
    return put_index(address_of(memory), len(memory), slots, entries, keys_of(rows))


def random_rows(random: Random, count: int) -> list[Row]:
    times = (STORE_TIME, STORE_TIME + 999, STORE_TIME + 86_400_000, STORE_TIME - 1, 0, -1, 2**62 - 1)
    return [
        (random.choice((0, 2**31 - 1, random.randrange(2**31))), (random.randrange(2**40), random.choice(times)))
        for _ in range(count)
    ]


def random_memory(random: Random) -> bytes:
    """A file as it may be found: new, in use, or with slots that lead nowhere."""
    if random.random() < 0.3:
        return bytes(SIZE)
    used, following = random.randrange(SLOTS), random.randrange(-1, ENTRIES + 1)
    begin = random.choice((0, STORE_TIME, STORE_TIME + 5))
    header = encode_index_header(IndexHeader(begin, begin, 5, 900, used, following))
    slots = [random.choice((0, random.randrange(ENTRIES), -1, 2**31 - 1, -(2**31))) for _ in range(SLOTS)]
    return header + b"".join(map(SLOT.pack, slots)) + random.randbytes(SIZE - HEADER.size - SLOT.size * SLOTS)


@pytest.mark.parametrize("count", CASES)
def test_the_bytes_are_those_of_plain_code(file: IndexFile, count: int) -> None:
    reasons = set()

    def case(random: Random) -> int:
        before, rows = random_memory(random), random_rows(random, random.randrange(1, 50))
        memory = bytearray(before)
        file.mapped.write_at(0, before)
        fitting = rows[: max(file.room, 0)]
        added, reason = put(memory, rows)
        assert (added, reason) == (len(fitting), DONE if len(fitting) == len(rows) else FULL)
        if fitting:
            file.put(fitting)
        assert memory == file.mapped.view
        reasons.add(reason)
        return len(rows)

    assert run_cases(count, 8, case) >= count
    assert reasons == {DONE, FULL}


@pytest.mark.parametrize("count", CASES)
def test_batches_behind_each_other_make_one_file(file: IndexFile, count: int) -> None:
    def case(random: Random) -> int:
        memory = bytearray(SIZE)
        file.mapped.write_at(0, bytes(SIZE))
        rows = random_rows(random, ENTRIES - 1)
        at = 0
        while at < len(rows):
            some = rows[at : at + random.randrange(1, 20)]
            assert put(memory, some) == (len(some), DONE)
            at += len(some)
        file.put(rows)
        assert memory == file.mapped.view
        return len(rows)

    assert run_cases(count, 9, case) >= count


@pytest.mark.parametrize("key_hash", [-1, 2**31, 2**63 - 1, -(2**63)])
def test_a_hash_that_no_entry_holds_stops_it(file: IndexFile, key_hash: int) -> None:
    good = random_rows(Random(1), 2)
    memory = bytearray(SIZE)
    assert put(memory, [*good, (key_hash, (1, STORE_TIME)), *good]) == (2, UNFIT)
    file.put(good)
    assert memory == file.mapped.view


@pytest.mark.parametrize("time", [2**62, 2**63 - 1, -(2**62), -(2**63)])
def test_a_time_that_cannot_be_counted_from_stops_it(time: int) -> None:
    memory = bytearray(SIZE)
    assert put(memory, [(5, (1, time))]) == (0, UNFIT)
    assert memory == bytes(SIZE)
    damaged = encode_index_header(IndexHeader(time, 0, 0, 0, 1, 2)) + bytes(SIZE - HEADER.size)
    memory = bytearray(damaged)
    assert put(memory, [(5, (1, STORE_TIME))]) == (0, UNFIT)
    assert memory == damaged


@pytest.mark.parametrize("used", [2**31 - 1, 2**31 - 2])
def test_slots_that_cannot_be_counted_stop_it(used: int) -> None:
    before = encode_index_header(IndexHeader(1, 1, 1, 1, used, 2)) + bytes(SIZE - HEADER.size)
    memory = bytearray(before)
    assert put(memory, random_rows(Random(1), 2)) == (0, UNFIT)
    assert memory == before


@pytest.mark.parametrize("following", [ENTRIES, ENTRIES + 1, 2**31 - 1])
def test_a_header_that_counts_to_the_end_leaves_no_room(following: int) -> None:
    before = encode_index_header(IndexHeader(1, 1, 1, 1, 1, following)) + bytes(SIZE - HEADER.size)
    memory = bytearray(before)
    assert put(memory, random_rows(Random(1), 2)) == (0, FULL)
    assert memory == before


def test_nothing_to_put_changes_nothing() -> None:
    memory = bytearray(SIZE)
    assert put(memory, []) == (0, DONE)
    assert memory == bytes(SIZE)


def test_a_caller_that_cannot_be_right_gets_nothing_done() -> None:
    rows = random_rows(Random(1), 2)
    memory = bytearray(SIZE)
    for number in NUMBERS:
        if number not in (1, 7):
            assert put(memory, rows, slots=number) == (0, MISUSED)
        if number not in (1, 7):
            assert put(memory, rows, entries=number) == (0, MISUSED)
    assert put(memory[:-1], rows) == (0, MISUSED)
    assert put_index(address_of(memory), SIZE, SLOTS, ENTRIES, table(1, 2)) == (0, MISUSED)
    assert put_index(address_of(memory), -(2**63), SLOTS, ENTRIES, table(1, 3)) == (0, MISUSED)
    assert memory == bytes(SIZE)
