from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from embermq.files.zeroing import clear

SIZE = 1 << 18


@pytest.mark.parametrize("by_file_system", [True, False])
@pytest.mark.parametrize(("begin", "end"), [(0, SIZE), (0, 1), (SIZE - 1, SIZE), (100, 65_636), (1, 200_000), (5, 5)])
def test_exactly_the_range_is_cleared(tmp_path: Path, begin: int, end: int, by_file_system: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * SIZE)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as mapping:
        is_changed = clear(mapping, begin, end, descriptor=file.fileno() if by_file_system else None)
        assert is_changed == (end > begin)
    assert path.read_bytes() == b"x" * begin + bytes(end - begin) + b"x" * (SIZE - end)


@pytest.mark.parametrize("by_file_system", [True, False])
def test_zeros_are_left_as_they_are(tmp_path: Path, by_file_system: bool) -> None:
    with (tmp_path / "file").open("w+b") as file:
        file.truncate(SIZE)
        with mmap.mmap(file.fileno(), SIZE) as mapping:
            assert not clear(mapping, 0, SIZE, descriptor=file.fileno() if by_file_system else None)
        assert (tmp_path / "file").stat().st_blocks == 0


def test_bytes_that_only_the_map_has_are_found_too(tmp_path: Path) -> None:
    """Written through the map a moment ago, in space that is a hole on disk."""
    with (tmp_path / "file").open("w+b") as file:
        file.truncate(SIZE)
        with mmap.mmap(file.fileno(), SIZE) as mapping:
            mapping[200_000:200_004] = b"late"
            assert clear(mapping, 10, SIZE, descriptor=file.fileno())
            assert mapping[:] == bytes(SIZE)
