"""Finding and clearing what is not zero."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embermq.files.zeroing import clear, find_last_nonzero

SIZE = 300_000  # a few blocks of what is compared at once, and not a multiple of it


@pytest.fixture
def sparse(tmp_path: Path) -> Iterator[tuple[mmap.mmap, int]]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, SIZE)
    yield mmap.mmap(descriptor, SIZE), descriptor
    os.close(descriptor)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(marks=st.sets(st.integers(0, SIZE - 1), max_size=5), begin=st.integers(0, SIZE))
def test_the_last_byte_that_is_not_zero_is_found_and_can_be_cleared(
    sparse: tuple[mmap.mmap, int], marks: set[int], begin: int
) -> None:
    mapping, descriptor = sparse
    for mark in marks:
        mapping[mark] = 7
    later = [mark for mark in marks if mark >= begin]
    assert find_last_nonzero(mapping, begin, SIZE, descriptor=descriptor) == max(later, default=None)
    assert clear(mapping, begin, SIZE, descriptor=descriptor) is bool(later)
    assert find_last_nonzero(mapping, begin, SIZE, descriptor=descriptor) is None
    assert find_last_nonzero(mapping, 0, SIZE, descriptor=descriptor) == max(
        (mark for mark in marks if mark < begin), default=None
    )
    clear(mapping, 0, SIZE, descriptor=descriptor)
