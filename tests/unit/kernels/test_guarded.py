"""No kernel touches a byte outside of the memory it was given, whatever lies in it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run(argument: str) -> subprocess.CompletedProcess[str]:
    script = (
        "import sys; sys.path[:0] = ['src', '.']; from tests.unit.kernels.guarded_cases import main; main(sys.argv[1])"
    )
    command = [sys.executable, "-c", script, argument]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("where", ["before", "behind"])
def test_a_byte_too_far_would_be_noticed(where: str) -> None:
    assert run(where).returncode == -signal.SIGSEGV


@pytest.mark.parametrize("rounds", [500, pytest.param(200_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])])
def test_kernels_stay_inside_of_what_they_are_given(rounds: int) -> None:
    done = run(str(rounds))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{rounds} rounds\n"
