"""A writer is killed: at chosen calls, at random moments, while it opens; and the store is opened again.

A kill leaves the page cache, so that `sync` and `async` may lose nothing that was acknowledged.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.crash.faults import CALLS, TEARABLE
from tests.crash.model import check_reopened
from tests.crash.plan import AFTERWARDS, SETTINGS
from tests.crash.victim import Acknowledged, Writers

DURABILITIES = ("sync", "async", "pooled")
SEED = 20_240
STEPS = 60  # some 200 messages, 200 KB: files roll, are checkpointed and expire
POINTS = {"store": 6}  # how many of the calls of a kind a plain run chooses; most calls are stores
MANY_POINTS = 10**6
WRITER_CALLS = [call for call in CALLS if call not in ("rmdir", "pwritev")]
KILLS = [(durability, call) for durability in DURABILITIES for call in WRITER_CALLS] + [("sync", "pwritev")]


def settings_of(durability: str, **others: Any) -> dict[str, Any]:
    return {**SETTINGS, "durability": durability, **others}


@lru_cache
def count_calls(writers: Writers, durability: str) -> dict[str, int]:
    """How often an undisturbed writer makes each call."""
    with tempfile.TemporaryDirectory() as folder:
        words = writers.run(Path(folder, "store"), settings_of(durability), seed=SEED, steps=STEPS)
    assert words.exit_code == 0 and not words.refused
    return words.calls


def choose(count: int, most: int, salt: str) -> list[int]:
    """At most `most` of the numbers from 1 to `count`."""
    return sorted(random.Random(f"{SEED}-{salt}").sample(range(1, count + 1), min(most, count)))


def moments_of(call: str) -> list[str]:
    return ["before", "after", "halfway"] if call in TEARABLE else ["before", "after"]


def kill_at_calls(writers: Writers, durability: str, call: str, most: int, path: Path) -> None:
    count = count_calls(writers, durability).get(call, 0)
    assert count, f"no {call} was made"
    figures: Counter[str] = Counter()
    for moment in moments_of(call):
        for at in choose(count, most, f"{durability}-{call}-{moment}"):
            print(f"seed={SEED} {durability}: killed {moment} {call} number {at} of {count}")
            death = {"call": call, "at": at, "moment": moment}
            words = writers.run(path, settings_of(durability), seed=SEED, steps=STEPS, death=death)
            # Threads share calls out differently each time, so that the last ones may not come.
            assert words.was_killed or words.calls
            assert not words.refused and not words.troubles
            outcome = check_reopened(
                path,
                settings_of(durability),
                SEED,
                words.acknowledged,
                may_lose=durability == "pooled",
                durable=words.durable,
            )
            figures.update(kills=words.was_killed, acknowledged=len(words.acknowledged), lost=len(outcome.lost))
            shutil.rmtree(path)
    print(durability, call, dict(figures))


@pytest.mark.parametrize(("durability", "call"), KILLS)
def test_a_writer_killed_at_a_call_loses_nothing(
    writers: Writers, memory_path: Path, durability: str, call: str
) -> None:
    kill_at_calls(writers, durability, call, POINTS.get(call, 2), memory_path / "store")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("durability", "call"), KILLS)
def test_a_writer_killed_at_any_call_loses_nothing(
    writers: Writers, memory_path: Path, durability: str, call: str
) -> None:
    kill_at_calls(writers, durability, call, MANY_POINTS, memory_path / "store")


def kill_again_and_again(
    writers: Writers, path: Path, durability: str, *, seed: int, generations: int, lanes: int
) -> None:
    """One directory, many lives: each begins where the last was cut off."""
    chance = random.Random(seed)
    acknowledged: list[Acknowledged] = []
    figures: Counter[str] = Counter()
    for generation in range(generations):
        delay = chance.uniform(0.0, 0.25)
        print(f"seed={seed} {durability} lanes={lanes}: generation {generation} killed after {delay:.4f} s")
        words = writers.run(
            path, settings_of(durability), seed=seed, begin=generation * 10_000, steps=5_000, lanes=lanes,
            kill_after=delay,
        )  # fmt: skip
        assert words.was_killed and not words.refused and not words.troubles
        outcome = check_reopened(
            path,
            settings_of(durability),
            seed,
            [*acknowledged, *words.acknowledged],
            may_lose=durability == "pooled",
            durable=words.durable,
            next_number=AFTERWARDS + generation * 12,
        )
        lost = {each.number for each in outcome.lost}
        acknowledged += [each for each in words.acknowledged if each.number not in lost]
        acknowledged += outcome.afterwards
        figures.update(kills=1, acknowledged=len(words.acknowledged), lost=len(lost))
    print(durability, dict(figures))


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_writer_killed_at_any_moment_loses_nothing(
    writers: Writers, memory_path: Path, durability: str, lanes: int
) -> None:
    kill_again_and_again(writers, memory_path / "store", durability, seed=SEED, generations=4, lanes=lanes)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("seed", range(10))
def test_many_lives_of_a_directory_lose_nothing(
    writers: Writers, tmp_path: Path, durability: str, lanes: int, seed: int
) -> None:
    kill_again_and_again(writers, tmp_path / "store", durability, seed=seed, generations=25, lanes=lanes)
