"""Records read one by one: each at its place, and nothing else touched, whatever the numbers are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest

pytest.importorskip("numba")

import numpy as np

from embermq.kernels.place_reads import read_places
from tests.unit.kernels.kernel_builders import NUMBERS

BEGIN, SIZE, COUNT = 100, 4_000, 40
UNTOUCHED = 0xEE
SIZES = np.array([20 + number for number in range(COUNT)], np.int64)
PLACES = np.arange(COUNT, dtype=np.int64) * 100
DATA = Random(1).randbytes(BEGIN) + b"".join(
    int(size).to_bytes(4, "big") + Random(int(size)).randbytes(96) for size in SIZES
)


@pytest.fixture
def descriptor() -> Iterator[int]:
    made = os.memfd_create("log")
    os.write(made, DATA)
    yield made
    os.close(made)


def read(descriptor: int, places: np.ndarray, sizes: np.ndarray, *, begin: int = BEGIN) -> tuple[int, bytes]:
    """How many records came, and the memory, around which nothing may change."""
    memory = np.full(3 * SIZE, UNTOUCHED, np.uint8)
    count = read_places(descriptor, begin, int(memory.ctypes.data) + SIZE, SIZE, places, sizes)
    assert set(memory[:SIZE].tolist()) | set(memory[2 * SIZE :].tolist()) == {UNTOUCHED}
    return count, memory[SIZE : 2 * SIZE].tobytes()


def expected(count: int) -> bytes:
    memory = bytearray([UNTOUCHED] * SIZE)
    for place, size in zip(PLACES[:count].tolist(), SIZES[:count].tolist(), strict=True):
        memory[place : place + size] = DATA[BEGIN + place : BEGIN + place + size]
    return bytes(memory)


def test_only_records_are_read(descriptor: int) -> None:
    assert read(descriptor, PLACES, SIZES) == (COUNT, expected(COUNT))


@pytest.mark.parametrize("number", [0, 7, COUNT - 1])
def test_it_stops_at_a_record_of_another_size(descriptor: int, number: int) -> None:
    for change in (-1, 1):
        sizes = SIZES.copy()
        sizes[number] += change
        assert read(descriptor, PLACES, sizes)[0] == number


def test_it_stops_where_the_file_ends(descriptor: int) -> None:
    os.ftruncate(descriptor, BEGIN + 1_000 + int(SIZES[10]) - 1)
    count, _ = read(descriptor, PLACES, SIZES)
    assert count == 10
    assert read(-1, PLACES, SIZES) == (0, expected(0))


@pytest.mark.parametrize("hostile", [*NUMBERS, SIZE, SIZE - 1])
def test_it_stops_at_numbers_that_lead_outside(descriptor: int, hostile: int) -> None:
    for column in range(2):
        given = [PLACES.copy(), SIZES.copy()]
        given[column][5] = hostile
        assert read(descriptor, *given)[0] == 5
    assert read(descriptor, PLACES, SIZES[:-1]) == (0, expected(0))
    if hostile < 0:
        assert read(descriptor, PLACES, SIZES, begin=hostile) == (0, expected(0))
