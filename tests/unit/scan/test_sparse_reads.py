"""Records far from each other, read one by one through their queue: the same rows and the same damage as otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")

from embermq import Message
from embermq.kernels import loading
from embermq.scan import record_places
from embermq.scan.compiled_engine import CompiledEngine
from embermq.scan.file_system import LocalFile
from embermq.scan.planner import plan
from embermq.scan.splits import QueueSplit, Split
from embermq.scan.wanted import Wanted
from tests.builders import a_store
from tests.unit.scan.logs import outcome

pytestmark = pytest.mark.skipif(not loading.is_installed(), reason="needs numba")
RARE = 40
WANTED = Wanted(columns=("topic", "queueOffset", "physicalOffset", "keys", "body"), topics=frozenset({"rare"}))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of some files; ten kilobytes of others lie between two messages of the topic `rare`."""
    loading.load()
    path = tmp_path / "store"
    with a_store(path, log_file_size=1 << 17) as store:
        for number in range(RARE):
            store.put(Message("rare", b"%d" % number * 50, queue=number % 2, keys=[f"key-{number}"]))
            store.put_many([Message("common", b"." * 2_000)] * 5)
    return path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What reads of single records came to."""
    found: list[bool] = []
    original = LocalFile.read_places

    def read_places(*arguments: Any) -> bool:
        found.append(original(*arguments))
        return found[-1]

    monkeypatch.setattr(LocalFile, "read_places", read_places)
    return found


def both_ways(split: Split, monkeypatch: pytest.MonkeyPatch) -> tuple[object, object]:
    one_by_one = outcome(split, WANTED, CompiledEngine)
    with monkeypatch.context() as patch:
        patch.setattr(record_places, "SPARSE_GAP", 1 << 40)
        return one_by_one, outcome(split, WANTED, CompiledEngine)


def test_a_rare_topic_is_read_record_by_record(path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[bool]) -> None:
    (split,) = plan(str(path), WANTED)
    assert isinstance(split, QueueSplit)
    found, expected = both_ways(split, monkeypatch)
    assert found == expected
    assert isinstance(found, tuple) and len(found[0]) == RARE
    assert len(reads) == len(split.files) > 2 and all(reads)


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (0, b"\xff\xff\xff\xff"),  # its size
        (3, b"\x01"),
        (4, b"\x00"),  # its magic
        (20, b"\x11"),  # its offset
        (90, b"!"),  # its body
    ],
)
def test_damage_is_told_in_the_same_words(
    path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[bool], at: int, data: bytes
) -> None:
    (split,) = plan(str(path), WANTED)
    rows = outcome(split, WANTED, CompiledEngine)[0]
    assert isinstance(rows, list)
    position = rows[RARE // 2]["physicalOffset"]
    start = position - position % (1 << 17)
    with (path / "commitlog" / f"{start:020d}").open("r+b") as file:
        file.seek(position - start + at)
        file.write(data)
    found, expected = both_ways(split, monkeypatch)
    assert found == expected
    assert isinstance(found, tuple) and found[0] == position
