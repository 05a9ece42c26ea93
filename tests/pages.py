"""Which pages of files are in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from embermq.files.memory import forget, is_resident, map_file

_SIZE = 256 * 1024


def skip_unless_forgotten(folder: Path) -> None:
    """Skip the test where files are kept in memory alone, and never leave it."""
    descriptor, mapping, _ = map_file(folder / "probe", _SIZE, read_only=False)
    mapping[:] = b"x" * _SIZE
    os.fsync(descriptor)
    forget(mapping, 0, _SIZE)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    if is_resident(mapping, 0, _SIZE):
        pytest.skip("this file system keeps its files in memory")
