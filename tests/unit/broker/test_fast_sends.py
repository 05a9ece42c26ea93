"""SENDs that kernels take: stored and answered as ordinary code would, byte for byte."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.unit.broker.both_ways import Outcome, a_stream, feed

CASES = [pytest.param(12), pytest.param(3_000, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]


def both(path: Path, reads: list[bytes], count: int, **settings: object) -> tuple[Outcome, Outcome]:
    async def run() -> tuple[Outcome, Outcome]:
        fast = await feed(path / "fast", reads, count, with_kernels=True, **settings)
        plain = await feed(path / "plain", reads, count, with_kernels=False, **settings)
        return fast, plain

    return asyncio.run(run())


def check_same(fast: Outcome, plain: Outcome) -> None:
    assert fast.answers == plain.answers
    assert fast.files.keys() == plain.files.keys()
    for name, data in plain.files.items():
        assert fast.files[name] == data, f"{name} differs"


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
@pytest.mark.parametrize("cases", CASES)
def test_any_stream_of_sends_has_the_same_outcome(tmp_path: Path, cases: int, durability: str) -> None:
    taken = 0
    for seed in range(cases):
        random = Random(seed)
        reads, count = a_stream(random, random.randrange(1, 120), odd=random.choice([0.0, 0.1, 0.6]))
        folder = tmp_path / str(seed)
        folder.mkdir()
        fast, plain = both(folder, reads, count, durability=durability)
        check_same(fast, plain)
        taken += fast.taken
    assert taken > 10 * cases, "kernels were to take most of them"
