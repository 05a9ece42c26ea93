"""A broker is killed while it takes and publishes staged batches: every message is seen once in the end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def kill_at(path: Path, durability: str, code: str, share: str) -> int:
    """Kill brokers at this share of all points; how many were killed."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.crash.staging", str(path), durability, code, share]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = re.search(r"^checked (\d+) of (\d+), killed (\d+)$", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout + done.stderr
    print(found[0])
    assert "failed" not in done.stdout, done.stdout
    return int(found[3])


@pytest.mark.parametrize(
    ("durability", "code"), [("sync", "plain"), ("sync", "kernels"), ("async", "kernels"), ("pooled", "kernels")]
)
def test_a_killed_broker_publishes_what_it_promised_once(memory_path: Path, durability: str, code: str) -> None:
    assert kill_at(memory_path, durability, code, "7/23") > 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
@pytest.mark.parametrize("code", ["plain", "kernels"])
def test_a_broker_may_be_killed_at_any_call(memory_path: Path, durability: str, code: str) -> None:
    assert kill_at(memory_path, durability, code, "0/1") > 400
