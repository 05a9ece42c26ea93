"""An archive job that is killed at any step leaves an archive that the next one brings to its end: each row once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from tests.archive_checks import FORMATS
from tests.builders import SMALL_SIZES, ManualClock, open_store, some_messages

ROOT = Path(__file__).parents[2]
SWEEP = Path(__file__).with_name("archive_sweep.py")
LEAST_STEPS = 20  # that an archive takes


def make_store(path: Path) -> Path:
    """Messages of two topics and two days, for three batches."""
    clock = ManualClock()
    with open_store(path, clock=clock, **SMALL_SIZES) as store:
        for _ in range(2):
            store.put_many(some_messages(40, topic="orders"))
            store.put_many(some_messages(20, topic="payments"))
            clock.advance(hours=24)
    return path


def sweep(tmp_path: Path, format: str, first: int, every: int) -> int:
    """Kill an archive job before these steps; how many there are, at least."""
    store = make_store(tmp_path / "store")
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, str(SWEEP), format, str(store), str(tmp_path), str(first), str(every)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("format", FORMATS)
def test_a_killed_archive_job_leaves_no_row_out_and_none_twice(tmp_path: Path, format: str) -> None:
    assert sweep(tmp_path, format, first=3, every=25) > LEAST_STEPS


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("format", FORMATS)
def test_the_same_killed_at_every_step(tmp_path: Path, format: str) -> None:
    assert sweep(tmp_path, format, first=0, every=1) > LEAST_STEPS
