"""`verify` on kernels finds what plain `verify` finds, word for word, in sound stores and in damaged ones."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from embermq import Message
from embermq.kernels import found_records
from embermq.store import verify_log
from embermq.store.reader import StoreReader
from embermq.store.verify import Verdict, verify_store
from tests.both_ways import both_ways, damaged, files_of
from tests.builders import a_store, some_messages
from tests.conftest import GOLDEN, Golden

STORES = sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "stores").glob("*.xz"))
DAMAGES = [pytest.param(8), pytest.param(400, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]


def verify(path: Path) -> tuple[Verdict, list[tuple[int, int]]]:
    reports: list[tuple[int, int]] = []
    with StoreReader(path) as reader:
        return verify_store(reader, lambda done, total: reports.append((done, total))), reports


def verify_damaged(path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Damage a store again and again; returns how often something was found."""
    random, found = Random(path.parent.name), 0
    files = files_of(path)
    for _ in range(count):
        with damaged(random, random.choice(files)) as done:
            plain, compiled = both_ways(lambda: verify(path), monkeypatch)
            assert compiled == plain, done
            found += not plain[0].sound
    return found


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A store with all that records can have: long names, keys of all kinds, checksums, hosts of both sizes."""
    path = tmp_path / "store"
    with a_store(path, property_crc=True, store_host="[::1]:10911") as store:
        store.put_many(some_messages(150))
    with a_store(path) as store:
        store.put_many(some_messages(150))
        store.put_many(some_messages(40, topic="%RETRY%" + "t" * 130))
        store.put_many([Message("sizes", "ü".encode(), tags="grün", keys=["a", "b", "ä"], queue=0)] * 30)
        store.put_many([Message("plain", bytes(5_000), queue=number % 4) for number in range(40)])
    return path


def test_what_is_sound_is_found_by_kernels(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[int] = []
    make = found_records.FileRecords.take

    def take(self: found_records.FileRecords, at: int, stop: int, most: int) -> found_records.FoundRecords | None:
        records = make(self, at, stop, most)
        taken.append(0 if records is None else len(records))
        return records

    monkeypatch.setattr(found_records.FileRecords, "take", take)
    plain, compiled = both_ways(lambda: verify(stopped), monkeypatch)
    assert compiled == plain
    assert plain[0].sound
    assert sum(taken) == plain[0].records == 410


@pytest.mark.parametrize("name", STORES)
def test_a_store_of_rocketmq(golden: Golden, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = golden.store(name)
    plain, compiled = both_ways(lambda: verify(path), monkeypatch)
    assert compiled == plain
    assert verify_damaged(path, 6, monkeypatch) > 0


@pytest.mark.parametrize("count", DAMAGES)
@pytest.mark.parametrize(("batch", "room"), [(4_096, 4_096), (7, 5), (5, 7), (1, 3), (50, 1)])
def test_a_damaged_store(stopped: Path, batch: int, room: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_log, "BATCH", batch)
    monkeypatch.setattr(found_records, "_ROOM", room)
    assert verify_damaged(stopped, count, monkeypatch) > count // 2


def test_a_store_that_was_not_closed(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (stopped / "abort").touch()
    for file in files_of(stopped)[-3:]:
        with file.open("r+b") as opened:
            opened.truncate(file.stat().st_size // 2)
            opened.truncate(2 * file.stat().st_size)
    plain, compiled = both_ways(lambda: verify(stopped), monkeypatch)
    assert compiled == plain
    assert verify_damaged(stopped, 30, monkeypatch) > 0
