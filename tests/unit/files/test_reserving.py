"""Disk space that is got in steps, and the zeros that are written into it."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from embermq.files.reserving import Reserving
from embermq.files.zeroing import iter_holes

STEP = 1 << 16
SIZE = 64 * STEP


@pytest.fixture
def descriptor(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, SIZE)
    yield descriptor
    os.close(descriptor)


def a_filled_one(descriptor: int, *, size: int = SIZE, step: int = STEP) -> Reserving:
    reserving = Reserving(Path("file"), descriptor, size, step)
    reserving.is_filled = True
    return reserving


def holes(descriptor: int) -> list[tuple[int, int]]:
    found = list(iter_holes(descriptor, 0, SIZE))
    if (0, STEP) not in [(begin, min(end, STEP)) for begin, end in found]:
        pytest.skip("this file system does not tell reserved space from data")
    return found


def test_zeros_are_written_into_all_but_the_first_step(descriptor: int) -> None:
    reserving = a_filled_one(descriptor)
    assert not reserving.reserve(1)
    assert holes(descriptor) == [(0, SIZE)]
    assert reserving.reserve(STEP + 1)
    assert not reserving.reserve(STEP + 2)
    assert reserving.end == 2 * STEP
    assert holes(descriptor) == [(0, STEP), (2 * STEP, SIZE)]


def test_a_file_that_grows_gets_more_at_a_time_and_nothing_behind_its_end(descriptor: int) -> None:
    reserving, ends = a_filled_one(descriptor), [0]
    while reserving.end < SIZE:
        reserving.reserve(reserving.end + 1)
        ends.append(reserving.end)
    gained = [end - before for before, end in pairwise(ends)]
    assert gained[:2] == [STEP, STEP]
    assert max(gained) > 4 * STEP
    assert all(end % STEP == 0 for end in ends)
    assert ends[-1] == SIZE
    assert os.fstat(descriptor).st_size == SIZE


def test_others_get_what_is_left_of_the_step_and_no_zeros(descriptor: int) -> None:
    reserving = Reserving(Path("file"), descriptor, SIZE, STEP)
    for end in range(1, SIZE, STEP):
        reserving.reserve(end)
        assert reserving.end == end - 1 + STEP
    assert holes(descriptor) == [(0, SIZE)]


def test_zeros_never_go_over_what_is_there(descriptor: int) -> None:
    chance = random.Random(3)
    content = bytearray(SIZE)
    for _ in range(40):
        at, data = chance.randrange(SIZE - 9000), chance.randbytes(chance.randrange(9000))
        content[at : at + len(data)] = data
        os.pwrite(descriptor, data, at)
    reserving = a_filled_one(descriptor)
    while reserving.end < SIZE:
        reserving.reserve(reserving.end + 1)
    assert os.pread(descriptor, SIZE, 0) == bytes(content)


def test_zeros_that_cannot_be_written_are_an_error_with_nothing_changed(
    descriptor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    reserving = a_filled_one(descriptor)
    reserving.reserve(1)
    with monkeypatch.context() as patched, pytest.raises(OSError, match="file") as failed:
        patched.setattr(os, "pwrite", refuse)
        reserving.reserve(STEP + 1)
    assert failed.value.errno == errno.ENOSPC
    assert reserving.end == STEP
    reserving.reserve(STEP + 1)
    assert reserving.end == 2 * STEP
