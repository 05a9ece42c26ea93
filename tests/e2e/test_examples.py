"""The examples run and print what they are about."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.e2e.conftest import SOURCE

EXAMPLES = SOURCE.parent / "examples"


def test_the_demo_shows_the_main_job_and_ends_by_itself() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "demo.py")],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    lines = [line.split()[0] for line in done.stdout.splitlines()]
    assert lines[:7] == ["serve", "send", "send", "retry", "consume", "read", "store"]
    assert set(lines[7:]) == {"spark"}
    assert "501 orders from eu" in done.stdout or "needs Java" in done.stdout
    assert "501 with tag eu, 1 failed at first" in done.stdout
    assert "1000 messages of the last minute" in done.stdout
