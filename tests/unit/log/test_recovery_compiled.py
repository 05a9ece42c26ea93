"""Recovery on kernels: the log ends where plain code says it ends, for the same reason."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from embermq.files.file_chain import FileChain
from embermq.kernels import found_records
from embermq.log.recovery import scan_log
from tests.both_ways import both_ways, damaged, files_of
from tests.builders import SMALL_SIZES, a_store, read_all, some_messages
from tests.conftest import GOLDEN, Golden

STORES = sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "stores").glob("*.xz"))
DAMAGES = [pytest.param(10), pytest.param(2_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]

Facts = tuple[object, ...]


def scan(path: Path) -> list[Facts]:
    """Everything that scan_log says of the log, for every way in which it can be asked."""
    size = max(file.stat().st_size for file in path.iterdir())
    chain = FileChain([path], size, read_only=True)
    chain.load()
    try:
        begins = [chain.begin, *(file.start for file in chain.files[1:])]
        return [
            _facts(chain, begin, verify_properties=verify_properties, is_ours=is_ours)
            for begin in begins
            for verify_properties in (False, True)
            for is_ours in (False, True)
        ]
    finally:
        chain.close()


def _facts(chain: FileChain, begin: int, *, verify_properties: bool, is_ours: bool) -> Facts:
    found = scan_log(chain, begin, verify_properties=verify_properties, is_ours=is_ours)
    damage = found.damage and (found.damage.position, found.damage.reason)
    return found.begin, found.end, found.records, found.last_store_time, damage


def scan_damaged(path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Damage a log again and again; returns the reasons that were given."""
    random, reasons = Random(path.parent.parent.name), set()
    files = [file for file in files_of(path.parent) if file.parent == path]
    for _ in range(count):
        with damaged(random, random.choice(files)) as done:
            plain, compiled = both_ways(lambda: scan(path), monkeypatch)
            assert compiled == plain, done
            reasons |= {str(damage[1])[:12] for *_, damage in plain if isinstance(damage, tuple)}
    return reasons


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """A log of several files, with records of both versions, with hosts of both sizes, with and without checksums."""
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(300))
        store.put_many(some_messages(30, topic="%RETRY%" + "t" * 130))
    with a_store(path, property_crc=True, store_host="[::1]:10911") as store:
        store.put_many(some_messages(300))
    yield path / "commitlog"


def test_records_are_passed_by_kernels(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[int] = []
    walk = found_records.pass_whole

    def pass_whole(data: memoryview, at: int, position: int, *, needs_crc: bool) -> found_records.Passed:
        found = walk(data, at, position, needs_crc=needs_crc)
        passed.append(found.records)
        return found

    monkeypatch.setattr(found_records, "pass_whole", pass_whole)
    plain, compiled = both_ways(lambda: scan(log), monkeypatch)
    assert compiled == plain
    assert plain[0][2] == 630
    assert sum(passed) >= 630


@pytest.mark.parametrize("name", [name for name in STORES if name != "rocksdb-cq"])
def test_a_log_of_rocketmq(golden: Golden, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = golden.store(name) / "commitlog"
    plain, compiled = both_ways(lambda: scan(path), monkeypatch)
    assert compiled == plain
    assert plain[0][2]
    assert scan_damaged(path, 6, monkeypatch)


@pytest.mark.parametrize("count", DAMAGES)
@pytest.mark.parametrize("room", [4_096, 3, 1])
def test_a_damaged_log(log: Path, room: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_records, "_ROOM", room)
    assert len(scan_damaged(log, count, monkeypatch)) > 1


def test_every_place_where_the_last_records_may_be_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with a_store(tmp_path / "store") as store:
        store.put_many(some_messages(3))
    folder = tmp_path / "store" / "commitlog"
    (file,) = sorted(folder.iterdir())[:1]
    data = file.read_bytes()
    end = len(data.rstrip(b"\0"))
    for at in range(end - 250, end):
        file.write_bytes(data[:at].ljust(len(data), b"\0"))
        plain, compiled = both_ways(lambda: scan(folder), monkeypatch)
        assert compiled == plain


def test_a_store_that_was_killed_is_the_same_store_afterwards(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, copies = golden.store("torn-body"), iter(range(2))

    def recover() -> tuple[object, ...]:
        path = tmp_path / f"copy-{next(copies)}"
        shutil.copytree(killed, path)
        with a_store(path, **dict.fromkeys(SMALL_SIZES)) as store:
            found = read_all(store)
        kept = sorted((file.name, file.read_bytes()) for file in (path / "broken").iterdir())
        return found, kept

    plain, compiled = both_ways(recover, monkeypatch)
    assert compiled == plain
    assert plain[1]
