"""Verify in parallel: every planted fault is found and named at its place, and nothing is in sound stores."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.jobs.verify import verify
from embermq.kernels import loading
from embermq.store.reader import StoreReader
from embermq.store.verify import Damage, Verdict, verify_store
from tests.builders import a_store, some_messages
from tests.unit.jobs.faults import FAULTS, Planted, Scene, a_scene, a_varied_store

FAULT_OF = {fault.__name__: fault for fault in FAULTS}
ONE_LINE = (
    "body", "log_file_missing", "entries_missing", "batch_position", "batch_entry_missing",
    "batch_file_missing", "batch_file_cut",
)  # fmt: skip
PLANTS_PER_KIND = 5  # of 56 kinds: 280 in all


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    """Have the index proven by kernels, where there are any."""
    if loading.is_installed():
        loading.load()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A sound store, to be copied."""
    path = tmp_path_factory.mktemp("sound") / "store"
    a_varied_store(path)
    return a_scene(path, random.Random(0))


def verified(path: Path, *, workers: int = 1, range_size: int | None = 9_000) -> Verdict:
    return verify(path, runner=LocalRunner(workers), progress=Progress("verify"), range_size=range_size)


def plainly(path: Path) -> Verdict:
    with StoreReader(path) as reader:
        return verify_store(reader)


def in_order(verdict: Verdict) -> tuple[Any, ...]:
    return verdict.records, verdict.bytes, verdict.is_clean, sorted(verdict.damage, key=repr)


@pytest.mark.parametrize("range_size", [500, 9_000, 1 << 20])
def test_a_sound_store_is_sound(sound: Scene, range_size: int) -> None:
    verdict = verified(sound.path, workers=2, range_size=range_size)
    assert verdict.damage == []
    assert verdict == plainly(sound.path)
    assert verdict.records == 720


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found_at_its_place(sound: Scene, tmp_path: Path, fault: Any) -> None:
    for seed in range(PLANTS_PER_KIND):
        chance = random.Random(f"{fault.__name__} {seed}")
        path = tmp_path / str(seed)
        shutil.copytree(sound.path, path)
        planted = fault(Scene(path, sound.records, chance))
        verdict = verified(path, range_size=chance.choice([700, 9_000, 1 << 20]))
        assert any(is_named(planted, damage) for damage in verdict.damage), (planted, verdict.damage)
        if planted.hides is not None:
            assert any(is_hidden(planted.hides, damage) for damage in verdict.damage), (planted, verdict.damage)
        assert in_order(verdict) == in_order(plainly(path))
        shutil.rmtree(path)


@pytest.mark.parametrize("fault", [FAULT_OF[name] for name in ONE_LINE], ids=ONE_LINE)
@pytest.mark.parametrize("range_size", [700, 9_000, 1 << 20])
def test_one_thing_that_is_broken_is_one_line(sound: Scene, tmp_path: Path, fault: Any, range_size: int) -> None:
    path = tmp_path / "store"
    shutil.copytree(sound.path, path)
    planted = fault(Scene(path, sound.records, random.Random(range_size)))
    (damage,) = verified(path, range_size=range_size).damage
    assert is_named(planted, damage)


def test_entries_side_by_side_that_are_wrong_are_told_of_as_one(sound: Scene, tmp_path: Path) -> None:
    path = tmp_path / "store"
    shutil.copytree(sound.path, path)
    FAULT_OF["queues_swapped"](Scene(path, sound.records, random.Random(1)))
    damage = verified(path).damage
    assert len(damage) == 4  # two files of two queues
    assert {(each.queue, each.begin, each.end) for damaged in damage for each in damaged.hides} == {
        (queue, *offsets) for queue in {each.hides[0].queue for each in damage} for offsets in ((0, 100), (100, 150))
    }


def is_named(planted: Planted, damage: Damage) -> bool:
    return (damage.file, damage.position) == (planted.file, planted.position) and str(damage.kind) in planted.kinds


def is_hidden(message: tuple[str, int, int], damage: Damage) -> bool:
    topic, queue, offset = message
    return any(each[:2] == (topic, queue) and each.begin <= offset < each.end for each in damage.hides)


def test_a_store_in_use_is_sound(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put_many(some_messages(500))
        assert verified(tmp_path / "store").damage == []


def test_a_store_that_crashed_is_sound(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put_many(some_messages(500))
        shutil.copytree(tmp_path / "store", tmp_path / "crashed")
    assert verified(tmp_path / "crashed") == plainly(tmp_path / "crashed")
    assert verified(tmp_path / "crashed").damage == []


def test_a_small_store_is_checked_in_one_piece(sound: Scene) -> None:
    assert verified(sound.path, range_size=None) == plainly(sound.path)
