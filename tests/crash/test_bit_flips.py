"""One bit of a store is turned over: wrong bytes are never given out as right ones.

Whatever is not as it was is refused when it is read, was kept aside or passed over when the
store was opened, or is found by `verify`. Only what RocketMQ's records have no checksum for
can change unseen: properties, flag, times and hosts.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from embermq.errors import EmberError
from tests.builders import a_store
from tests.crash.damage import COUNT, Stores, flip, keys_found, make_stores, survey, verify

SEED = 4_711
BITS = {"commitlog": 60, "consumequeue": 40, "index": 30, "checkpoint": 20, "config": 10}
MANY_BITS = 2_000


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return make_stores(tmp_path_factory.mktemp("flips"))


def flip_bits(origin: Path, path: Path, kind: str, *, seed: int, count: int) -> None:
    chance = random.Random(f"{seed}-{kind}-{origin.name}")
    files = sorted(file for file in [origin / kind, *(origin / kind).rglob("*")] if file.is_file())
    for _ in range(count):
        victim = chance.choice(files).relative_to(origin)
        used = len((origin / victim).read_bytes().rstrip(b"\0")) + 100
        bit = chance.randrange(8 * min(used, (origin / victim).stat().st_size))
        print(f"seed={seed} {origin.name}: bit {bit % 8} of byte {bit // 8} of {victim}")
        shutil.copytree(origin, path)
        flip(path / victim, bit)
        check_flipped(path)
        shutil.rmtree(path)


def check_flipped(path: Path) -> None:
    is_told = not verify(path).sound
    try:
        store = a_store(path)
    except EmberError:
        return  # it says what is wrong
    with store:
        found, recovered = survey(store), store.state().recovered
        found_keys = keys_found(store)
    assert found.wrong_bodies == 0
    if recovered.kept or recovered.skipped or is_told:
        return
    if found.right + found.wrong_fields + found.refused < COUNT or found_keys < found.right:
        assert not verify(path).sound, f"{found}, {found_keys} keys, and nothing tells of it"


@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("state", ["stopped", "crashed"])
def test_a_flipped_bit_gives_no_wrong_message(stores: Stores, memory_path: Path, state: str, kind: str) -> None:
    flip_bits(getattr(stores, state), memory_path / "store", kind, seed=SEED, count=BITS[kind] // 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("state", ["stopped", "crashed"])
def test_no_flipped_bit_gives_a_wrong_message(stores: Stores, memory_path: Path, state: str, kind: str) -> None:
    flip_bits(getattr(stores, state), memory_path / "store", kind, seed=SEED + 1, count=MANY_BITS)
