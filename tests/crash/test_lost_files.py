"""Whole files go missing, are emptied, exchanged or replaced by older copies.

What is derived from the log is made again from it. A log that cannot be trusted is told of:
when the store is opened, when the message is read, or by `verify`.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from embermq.errors import EmberError
from tests.builders import a_store
from tests.crash.damage import COUNT, Stores, keys_found, make_stores, message_of, survey, verify

SEED = 99
STATES = ["stopped", "crashed"]
DERIVED = [
    "checkpoint",
    "consumequeue",
    "consumequeue/orders",
    "consumequeue/orders/0",
    "consumequeue/bills/1",
    "index",
]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return make_stores(tmp_path_factory.mktemp("lost"))


@pytest.fixture
def path(memory_path: Path) -> Path:
    return memory_path / "store"


def files_of(path: Path, *folders: str) -> list[Path]:
    return sorted(file.relative_to(path) for folder in folders for file in (path / folder).rglob("*") if file.is_file())


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_whole(path: Path) -> None:
    with a_store(path) as store:
        assert survey(store).is_whole
        assert keys_found(store) == COUNT
    assert verify(path).sound


def check_told(path: Path) -> None:
    """Nothing wrong is given out, and what is missing is told of."""
    is_found = not verify(path).sound
    try:
        store = a_store(path)
    except EmberError:
        return
    with store:
        found, recovered = survey(store), store.state().recovered
    assert found.wrong_bodies == found.wrong_fields == 0
    is_told = is_found or recovered.kept or recovered.skipped
    assert found.right + found.refused == COUNT or is_told, f"{found} and nothing tells of it"


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("lost", DERIVED)
def test_what_is_derived_is_made_again(stores: Stores, path: Path, state: str, lost: str) -> None:
    shutil.copytree(getattr(stores, state), path)
    remove(path / lost)
    check_whole(path)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("second", range(len(DERIVED)))
def test_any_two_derived_parts_are_made_again(stores: Stores, path: Path, state: str, second: int) -> None:
    for first in range(second):
        shutil.copytree(getattr(stores, state), path)
        for lost in (DERIVED[first], DERIVED[second]):
            if (path / lost).exists():
                remove(path / lost)
        print(f"{state}: without {DERIVED[first]} and {DERIVED[second]}")
        is_lost = state == "stopped" and DERIVED[first] == "checkpoint" and "/" in DERIVED[second]
        # Nothing tells a queue that is missing from one that never was; RocketMQ trusts a clean stop, too.
        (check_told if is_lost else check_whole)(path)
        shutil.rmtree(path)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("folder", ["consumequeue", "index"])
def test_a_derived_file_of_zeros_is_filled_again(stores: Stores, path: Path, state: str, folder: str) -> None:
    for file in files_of(getattr(stores, state), folder):
        print(f"{state}: {file} zeroed")
        shutil.copytree(getattr(stores, state), path)
        (path / file).write_bytes(bytes((path / file).stat().st_size))
        check_whole(path)
        shutil.rmtree(path)


@pytest.mark.parametrize("state", STATES)
def test_a_log_file_of_zeros_is_told_of(stores: Stores, path: Path, state: str) -> None:
    files = [
        file
        for file in files_of(getattr(stores, state), "commitlog")
        if any((getattr(stores, state) / file).read_bytes())
    ]
    if state == "crashed":
        files.pop()  # zeros behind the checkpoint are no damage, but what was not written yet
    for file in files:
        print(f"{state}: {file} zeroed")
        shutil.copytree(getattr(stores, state), path)
        (path / file).write_bytes(bytes((path / file).stat().st_size))
        check_told(path)
        shutil.rmtree(path)


@pytest.mark.parametrize("state", STATES)
def test_a_missing_log_file_is_told_of(stores: Stores, path: Path, state: str) -> None:
    used = [
        file
        for file in files_of(getattr(stores, state), "commitlog")
        if any((getattr(stores, state) / file).read_bytes())
    ]
    for file in used[1:]:  # a log that begins later is one whose first file has expired
        print(f"{state}: {file} removed")
        shutil.copytree(getattr(stores, state), path)
        (path / file).unlink()
        check_told(path)
        shutil.rmtree(path)


def exchange(path: Path, one: Path, other: Path) -> None:
    (path / one).rename(path / "between")
    (path / other).rename(path / one)
    (path / "between").rename(path / other)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("folder", ["commitlog", "consumequeue", "index"])
def test_exchanged_files_are_told_of(stores: Stores, path: Path, state: str, folder: str) -> None:
    files = files_of(getattr(stores, state), folder)
    for one, other in pairwise(files):
        print(f"{state}: {one} and {other} exchanged")
        shutil.copytree(getattr(stores, state), path)
        exchange(path, one, other)
        check_told(path)
        shutil.rmtree(path)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("folder", ["consumequeue", "consumequeue/orders/1", "index", "config", "checkpoint"])
def test_an_older_copy_of_what_is_derived_is_brought_up_to_date(
    stores: Stores, path: Path, state: str, folder: str
) -> None:
    shutil.copytree(getattr(stores, state), path)
    remove(path / folder)
    (shutil.copytree if (stores.older / folder).is_dir() else shutil.copy)(stores.older / folder, path / folder)
    check_whole(path)


@pytest.mark.parametrize("state", STATES)
def test_an_older_copy_of_the_log_leaves_no_ghosts(stores: Stores, path: Path, state: str) -> None:
    shutil.copytree(getattr(stores, state), path)
    remove(path / "commitlog")
    shutil.copytree(stores.older / "commitlog", path / "commitlog")
    with a_store(path) as store:
        found = survey(store)
        assert (found.right, found.missing) == (COUNT // 2, COUNT // 2)
        assert keys_found(store) == COUNT // 2
        store.put_many(message_of(number) for number in range(COUNT // 2, COUNT))
        assert survey(store).is_whole
    assert verify(path).sound


def mutate(path: Path, chance: random.Random) -> None:
    """Do one bad thing to one file."""
    file = path / chance.choice(files_of(path, "commitlog", "consumequeue", "index", "checkpoint", "config"))
    size = file.stat().st_size
    acts: dict[str, Callable[[], object]] = {
        "removed": file.unlink,
        "zeroed": lambda: file.write_bytes(bytes(size)),
        "cut short": lambda: file.write_bytes(file.read_bytes()[: chance.randrange(size + 1)]),
        "overwritten": lambda: file.write_bytes(chance.randbytes(size)),
        "emptied": lambda: file.write_bytes(b""),
    }
    if file.parent.name == "commitlog":
        # A log may begin later, as it does when files expire, and end earlier, as it does in a crash.
        del acts["removed"], acts["zeroed"], acts["emptied"]
    act = chance.choice(sorted(acts))
    print(f"{file.relative_to(path)} {act}")
    acts[act]()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("state", STATES)
def test_whatever_is_done_to_files_is_mended_or_told_of(stores: Stores, path: Path, state: str) -> None:
    for seed in range(SEED, SEED + 1_000):
        print(f"{state}: seed={seed}")
        chance = random.Random(seed)
        shutil.copytree(getattr(stores, state), path)
        for _ in range(chance.randrange(1, 4)):
            mutate(path, chance)
        check_told(path)
        shutil.rmtree(path)
