"""Damage of compacted files that RocketMQ wrote is found at its place: nothing else has their messages any more."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from embermq.compaction.pair import Pair
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.jobs.verify import verify
from embermq.store.reader import StoreReader
from embermq.store.verify import Damage, DamageKind, verify_store
from tests.unit.store.planting import overwrite

LOG = f"compaction/compactionLog/CompactTopic/0/{0:020d}"
QUEUE = f"compaction/compactionCq/CompactTopic/0/{0:020d}"
ENTRY = 46


class Kept(NamedTuple):
    """A store, and what the first pair of files of a compacted queue holds."""

    path: Path
    offsets: list[int]
    positions: list[int]


@pytest.fixture
def kept(golden: Any) -> Kept:
    path = golden.store("compaction")
    copy = path.parent / "copy"  # a pair that is loaded may be mended
    shutil.copytree(path, copy)
    pair = Pair.load(copy / LOG, copy / QUEUE, is_last=False)
    entries = [entry for entry, _ in pair.iter_records()]
    pair.close()
    assert len(entries) > 5
    return Kept(path, [entry.base_offset for entry in entries], [entry.position for entry in entries])


def found(path: Path) -> list[Damage]:
    with StoreReader(path) as reader:
        plain = verify_store(reader).damage
    parallel = verify(path, runner=LocalRunner(1), progress=Progress("verify"), range_size=9_000).damage
    assert sorted(plain, key=repr) == sorted(parallel, key=repr)
    return plain


def the_only(path: Path) -> Damage:
    (damage,) = found(path)
    return damage


def hides(damage: Damage, *offsets: int) -> bool:
    return all(any(each.begin <= offset < each.end for each in damage.hides) for offset in offsets)


def test_what_rocketmq_compacted_is_sound(kept: Kept) -> None:
    assert found(kept.path) == []


@pytest.mark.parametrize(
    ("at", "data"),
    [(90, b"\xff\xfe"), (4, b"zzzz"), (0, struct.pack(">i", 32)), (28, struct.pack(">q", 7)), (8, b"\1\2\3\4")],
    ids=["body", "magic", "size", "own position", "checksum"],
)
def test_a_damaged_record_is_found(kept: Kept, at: int, data: bytes) -> None:
    overwrite(kept.path / LOG, kept.positions[2] + at, data)
    damage = the_only(kept.path)
    assert (damage.file, damage.position, damage.kind) == (LOG, kept.positions[2], DamageKind.RECORD)
    assert hides(damage, kept.offsets[2]) and not hides(damage, kept.offsets[1])


@pytest.mark.parametrize(
    ("at", "data"),
    [(0, b"\1" * 8), (8, b"\1" * 4), (12, b"\1" * 8), (20, b"\1" * 8), (36, b"\1\1"), (0, bytes(ENTRY))],
    ids=["position", "size", "tags", "time", "count", "missing"],
)
def test_a_damaged_entry_is_found(kept: Kept, at: int, data: bytes) -> None:
    overwrite(kept.path / QUEUE, 2 * ENTRY + at, data)
    damage = the_only(kept.path)
    assert (damage.file, damage.position, damage.kind) == (QUEUE, 2 * ENTRY, DamageKind.QUEUE)
    assert hides(damage, kept.offsets[2])


def test_records_that_lost_their_entries_are_one_line(kept: Kept) -> None:
    overwrite(kept.path / QUEUE, 3 * ENTRY, bytes((kept.path / QUEUE).stat().st_size - 3 * ENTRY))
    damage = the_only(kept.path)
    assert (damage.file, damage.position, damage.kind) == (LOG, kept.positions[3], DamageKind.ORPHAN)
    assert hides(damage, *kept.offsets[3:]) and not hides(damage, kept.offsets[2])


@pytest.mark.parametrize(("lost", "other"), [(LOG, QUEUE), (QUEUE, LOG)])
def test_a_file_without_its_other_half_is_found(kept: Kept, lost: str, other: str) -> None:
    (kept.path / lost).unlink()
    damage = the_only(kept.path)
    assert (damage.file, damage.kind) == (lost, DamageKind.FILE)
    assert hides(damage, *kept.offsets)
    overwrite(kept.path / other, 0, bytes((kept.path / other).stat().st_size))
    assert found(kept.path) == []  # made just before a crash


def test_halves_while_files_are_swapped_are_no_damage(kept: Kept) -> None:
    (kept.path / LOG).unlink()
    (kept.path / LOG).with_name("compacting").mkdir()
    assert found(kept.path) == []


def test_what_a_crash_tears_off_the_newest_pair_is_no_damage(kept: Kept) -> None:
    newest = sorted((kept.path / QUEUE).parent.iterdir())[-1].name
    assert newest != Path(QUEUE).name
    (kept.path / "abort").touch()
    data = (kept.path / QUEUE).with_name(newest).read_bytes()
    end = len(data.rstrip(b"\0")) // ENTRY * ENTRY
    overwrite((kept.path / QUEUE).with_name(newest), end - ENTRY, bytes(2 * ENTRY)[: len(data) - end + ENTRY])
    assert found(kept.path) == []
    overwrite(kept.path / LOG, kept.positions[2] + 4, b"zzzz")
    assert the_only(kept.path).file == LOG
