"""A writer is killed: at chosen calls, at random moments, while it opens; and the store is opened again.

A kill leaves the page cache, so that `sync` and `async` may lose nothing that was acknowledged.
"""

from __future__ import annotations

import random
import shutil
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from tests.crash.faults import CALLS, TEARABLE
from tests.crash.model import Outcome, check_reopened
from tests.crash.plan import AFTERWARDS, SETTINGS
from tests.crash.victim import Acknowledged, LastWords, Writers

DURABILITIES = ("sync", "async", "pooled")
SEED = 20_240
STEPS = 60  # some 200 messages, 200 KB: files roll, are checkpointed and expire
POINTS = {"store": 6}  # how many of the calls of a kind a plain run chooses; most calls are stores
MANY_POINTS = 10**6
WRITER_CALLS = [call for call in CALLS if call != "rmdir"]


def settings_of(durability: str, **others: Any) -> dict[str, Any]:
    return {**SETTINGS, "durability": durability, **others}


def check(
    path: Path, durability: str, words: LastWords, *, seed: int = SEED, before: list[Acknowledged] | None = None
) -> Outcome:
    return check_reopened(
        path,
        settings_of(durability),
        seed,
        [*(before or []), *words.acknowledged],
        may_lose=durability == "pooled",
        durable=words.durable,
    )


@lru_cache
def count_calls(writers: Writers, durability: str, path: Path) -> dict[str, int]:
    """How often an undisturbed writer makes each call."""
    words = writers.run(path, settings_of(durability), seed=SEED, steps=STEPS)
    assert words.exit_code == 0 and not words.refused
    return words.calls


def choose(count: int, most: int, salt: str) -> list[int]:
    """At most `most` of the numbers from 1 to `count`, the first and the last among them."""
    if count <= most:
        return list(range(1, count + 1))
    return sorted({1, count, *random.Random(f"{SEED}-{salt}").sample(range(2, count), max(most - 2, 0))})[:most]


def moments_of(call: str) -> list[str]:
    return ["before", "after", "halfway"] if call in TEARABLE else ["before", "after"]


def kill_at_calls(writers: Writers, durability: str, call: str, most: int, path: Path) -> None:
    count = count_calls(writers, durability, path.parent / f"counted-{durability}").get(call, 0)
    assert count, f"no {call} was made"
    for moment in moments_of(call):
        for at in choose(count, most, f"{durability}-{call}-{moment}"):
            print(f"seed={SEED} {durability}: killed {moment} {call} number {at} of {count}")
            words = writers.run(
                path, settings_of(durability), seed=SEED, steps=STEPS, death={"call": call, "at": at, "moment": moment}
            )
            # Threads share calls out differently each time, so that the last ones may not come.
            assert words.was_killed or words.calls
            assert not words.refused and not words.troubles
            check(path, durability, words)
            shutil.rmtree(path)


@pytest.mark.parametrize("call", WRITER_CALLS)
@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_writer_killed_at_a_call_loses_nothing(
    writers: Writers, memory_path: Path, durability: str, call: str
) -> None:
    kill_at_calls(writers, durability, call, POINTS.get(call, 2), memory_path / "store")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("call", WRITER_CALLS)
@pytest.mark.parametrize("durability", DURABILITIES)
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
