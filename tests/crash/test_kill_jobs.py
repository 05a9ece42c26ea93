"""A rebuild or a compaction that is killed, or stopped by Ctrl-C, at any step leaves nothing half that looks whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from embermq.jobs.compact_in_place import compact_in_place
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.store.settings import StoreSettings
from tests.builders import a_store
from tests.unit.jobs.compacting import SMALL, a_table_store, fill
from tests.unit.jobs.rebuilding import SIZES

ROOT = Path(__file__).parents[2]
SWEEP = Path(__file__).with_name("job_sweep.py")
JOBS = ("compact-out", "compact", "rebuild-out", "rebuild")
LEAST_STEPS = 30  # that a job takes


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that was compacted once, and has more messages since."""
    path = tmp_path / "store"
    a_table_store(path, 120)
    settings = StoreSettings(**SIZES)
    compact_in_place(path, runner=LocalRunner(1), progress=Progress("compact"), sizes=SMALL, settings=settings)
    with a_store(path) as opened:
        fill(opened, 60, seed=2)
    return path


def sweep(job: str, how: str, store: Path, folder: Path, first: int, every: int) -> int:
    """Stop a job before these steps; how many there are, at least."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, str(SWEEP), job, how, str(store), str(folder), str(first), str(every)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize(("job", "how"), [("compact", "kill"), ("rebuild", "interrupt")])
def test_a_job_that_is_stopped_leaves_nothing_half(store: Path, tmp_path: Path, job: str, how: str) -> None:
    assert sweep(job, how, store, tmp_path / "sweep", first=5, every=41) > LEAST_STEPS


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("how", ["kill", "interrupt"])
@pytest.mark.parametrize("job", JOBS)
def test_the_same_stopped_at_every_step(store: Path, tmp_path: Path, job: str, how: str) -> None:
    assert sweep(job, how, store, tmp_path / "sweep", first=0, every=1) > LEAST_STEPS
