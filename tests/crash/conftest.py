"""What the crash tests share: the writer program, and a fast place for directories that are only killed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.victim import Writers

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def writers() -> Iterator[Writers]:
    with Writers() as running:
        yield running


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: a killed process leaves the same there, in a tenth of the time."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="embermq-", dir=MEMORY))
    yield made
    shutil.rmtree(made)
