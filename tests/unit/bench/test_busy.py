"""Who used the processors: a child's time is ours, also after it has ended."""

from __future__ import annotations

import subprocess
import sys

from bench.report.busy import Busy

SECONDS = 0.2
CODE = f"import time\nwhile time.process_time() < {SECONDS}: pass"


def test_the_time_of_a_child_is_ours() -> None:
    before = Busy.now()
    subprocess.run([sys.executable, "-c", CODE], check=True)
    found = Busy.now().since(before)
    assert found.ours >= SECONDS * 0.9
    assert found.all >= found.ours
    assert sum(found.shares().values()) <= 1.01


def test_shares_are_of_the_whole_machine() -> None:
    assert Busy(1.0, 2.0, 0.5, 8.0).shares() == {"ours": 0.125, "others": 0.25, "stolen": 0.062}
    assert Busy(1.0, -0.01, 0.0, 8.0).shares()["others"] == 0.0  # the clocks of both are not read at once
