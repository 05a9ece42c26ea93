"""A process is killed while it opens a store that was killed before: recovery itself must be safe to interrupt."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crash.faults import CALLS, TEARABLE
from tests.crash.model import check_reopened
from tests.crash.plan import SETTINGS
from tests.crash.victim import Acknowledged, Writers

SEED = 31
SETTINGS_HERE = {**SETTINGS, "durability": "async", "max_bytes": None}


def lose(*names: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        for name in names:
            shutil.rmtree(path / name) if (path / name).is_dir() else (path / name).unlink()

    return change


def add_torn_tail(path: Path) -> None:
    """Bytes behind the last record, as a write that did not get far leaves them."""
    for file in sorted((path / "commitlog").iterdir(), reverse=True):
        data = file.read_bytes()
        end = len(data.rstrip(b"\0"))
        if end:
            # A record ends with its properties, so that its last byte is not zero.
            file.write_bytes(data[:end] + data[:200] + data[end + 200 :])
            return


STATES: dict[str, Callable[[Path], None]] = {
    "as it was left": lambda path: None,
    "with a torn tail": add_torn_tail,
    "without queues": lose("consumequeue"),
    "without one queue": lose("consumequeue/orders/1"),
    "without index": lose("index"),
    "without checkpoint": lose("checkpoint"),
    "without anything but the log": lose("consumequeue", "index", "checkpoint", "abort", "config"),
}


@pytest.fixture(scope="module")
def crashed(writers: Writers, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Acknowledged]]:
    """A store whose writer was killed some while after its last checkpoint."""
    path = tmp_path_factory.mktemp("crashed") / "store"
    words = writers.run(
        path, SETTINGS_HERE, seed=SEED, steps=60, death={"call": "store", "at": 360, "moment": "halfway"}
    )
    assert words.was_killed and len(words.acknowledged) > 100
    return path, words.acknowledged


def kill_while_opening(
    writers: Writers, crashed: tuple[Path, list[Acknowledged]], path: Path, state: str, most: int
) -> None:
    origin, acknowledged = crashed

    def prepare() -> None:
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(origin, path)
        STATES[state](path)

    prepare()
    counts = writers.run(path, SETTINGS_HERE, seed=SEED, steps=0).calls
    points = [
        (call, at, moment)
        for call in CALLS
        for at in range(1, counts.get(call, 0) + 1)
        for moment in ("before", "after", *(["halfway"] if call in TEARABLE else []))
    ]
    chosen = random.Random(f"{SEED}-{state}").sample(points, min(most, len(points)))
    for call, at, moment in chosen:
        print(f"seed={SEED} {state}: killed {moment} {call} number {at} of {counts[call]}")
        prepare()
        words = writers.run(path, SETTINGS_HERE, seed=SEED, steps=0, death={"call": call, "at": at, "moment": moment})
        assert words.was_killed or words.calls
        check_reopened(path, SETTINGS_HERE, SEED, acknowledged)


@pytest.mark.parametrize("state", STATES)
def test_an_opening_that_is_killed_can_be_repeated(
    writers: Writers, crashed: tuple[Path, list[Acknowledged]], memory_path: Path, state: str
) -> None:
    kill_while_opening(writers, crashed, memory_path / "store", state, most=10)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("state", STATES)
def test_an_opening_killed_at_any_call_can_be_repeated(
    writers: Writers, crashed: tuple[Path, list[Acknowledged]], memory_path: Path, state: str
) -> None:
    kill_while_opening(writers, crashed, memory_path / "store", state, most=10**6)
