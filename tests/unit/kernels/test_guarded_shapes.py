"""The kernels of pulls and acks touch no byte outside of the memory they were given, whatever lies in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = "import sys; sys.path[:0] = ['src', '.']; from tests.unit.kernels.{} import main; main(sys.argv[1])"


@pytest.mark.parametrize("program", ["guarded_pulls", "guarded_acks"])
@pytest.mark.parametrize("rounds", [500, pytest.param(200_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_the_kernel_stays_inside_of_what_it_is_given(program: str, rounds: int) -> None:
    command = [sys.executable, "-c", SCRIPT.format(program), str(rounds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{rounds} rounds\n"
