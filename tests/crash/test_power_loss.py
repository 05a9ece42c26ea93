"""The power goes while a writer is at work: what `sync` acknowledged is there when it is back.

The writer goes on talking for a moment after its disk has died. Of what it acknowledges then,
only the sync that was under way may be lost: while ext4 is shut down it may still answer that
all is well, as a few lines without any store show. A machine without power would not have heard it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.model import check_reopened
from tests.crash.plan import AFTERWARDS, LARGEST_BATCH, SETTINGS
from tests.crash.power import PowerDisk, skip_without_power_disk
from tests.crash.victim import Acknowledged, Writers

SEED = 8_800
# Nothing reaches the disk unless somebody waits for it: the most that a crash can take.
LAZY = {"sync_timeout_ms": 2_000, "flush_interval_ms": 60_000, "flush_thorough_interval_ms": 60_000}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PowerDisk]:
    skip_without_power_disk()
    with PowerDisk(tmp_path) as made:
        yield made


def cut_again_and_again(
    writers: Writers, disk: PowerDisk, durability: str, *, seed: int, cycles: int, lanes: int
) -> None:
    chance = random.Random(seed)
    settings = {**SETTINGS, **LAZY, "durability": durability}
    acknowledged: list[Acknowledged] = []
    figures: Counter[str] = Counter()
    for cycle in range(cycles):
        delay = chance.uniform(0.0, 0.4)
        print(f"seed={seed} {durability} lanes={lanes}: power cut {cycle} after {delay:.4f} s")
        words = writers.run(
            disk.path / "store", settings, seed=seed, begin=cycle * 10_000, steps=5_000, lanes=lanes,
            kill_after=delay, at_kill=disk.cut,
        )  # fmt: skip
        disk.restart()
        outcome = check_reopened(
            disk.path / "store",
            settings,
            seed,
            [*acknowledged, *words.acknowledged],
            may_lose=True,
            durable=words.durable,
            next_number=AFTERWARDS + cycle * 12,
        )
        lost = {each.number for each in outcome.lost}
        under_way = lost & words.after_cut
        if durability == "sync":
            assert lost == under_way, f"{len(lost - under_way)} acknowledged messages are lost: {outcome.lost[:3]}"
            assert len(under_way) <= lanes * LARGEST_BATCH, "acknowledged though the disk was dead"
        acknowledged += [each for each in words.acknowledged if each.number not in lost]
        acknowledged += outcome.afterwards
        figures.update(
            cuts=1, acknowledged=len(words.acknowledged), under_way=len(under_way), lost=len(lost - under_way)
        )
    print(durability, dict(figures))


@pytest.mark.parametrize(("durability", "cycles"), [("sync", 6), ("async", 3), ("pooled", 3)])
def test_what_was_on_disk_when_the_power_went_is_there(
    writers: Writers, disk: PowerDisk, durability: str, cycles: int
) -> None:
    cut_again_and_again(writers, disk, durability, seed=SEED, cycles=cycles, lanes=2)


def test_what_a_killed_process_left_in_memory_is_on_disk_once_the_store_is_open_again(
    writers: Writers, disk: PowerDisk
) -> None:
    lazy = {**SETTINGS, **LAZY, "durability": "async", "max_bytes": None}
    death = {"call": "store", "at": 500, "moment": "after"}
    killed = writers.run(disk.path / "store", lazy, seed=SEED, steps=5_000, only_puts=True, death=death)
    assert killed.was_killed and killed.acknowledged[-1].position > SETTINGS["log_file_size"]
    strict = {**lazy, "durability": "sync"}
    opened = writers.run(disk.path / "store", strict, seed=SEED, begin=10_000, steps=3)
    assert opened.exit_code == 0 and opened.acknowledged
    disk.cut()
    disk.restart()
    check_reopened(disk.path / "store", strict, SEED, [*killed.acknowledged, *opened.acknowledged])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
@pytest.mark.parametrize("seed", range(5))
def test_many_power_cuts_take_nothing_that_was_on_disk(
    writers: Writers, disk: PowerDisk, durability: str, seed: int
) -> None:
    cut_again_and_again(writers, disk, durability, seed=seed, cycles=60, lanes=1 + seed % 3)
