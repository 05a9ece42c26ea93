"""All tests of kernels once more, with every index into a table checked by numba."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_no_kernel_leaves_its_tables(tmp_path: Path) -> None:
    cache = {"EMBERMQ_CACHE": str(tmp_path / "cache"), "NUMBA_CACHE_DIR": str(tmp_path / "cache" / "kernels")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'tests'}", HERE]
    environment = {**os.environ, **cache, "NUMBA_BOUNDSCHECK": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:]
    assert "passed" in done.stdout
