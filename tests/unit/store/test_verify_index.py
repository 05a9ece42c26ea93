"""What `verify` finds in the key index: each kind of damage is planted, and nothing else is found."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from embermq.store.verify import DamageKind
from tests.builders import SMALL_SIZES, a_store, some_messages
from tests.unit.store.planting import COUNT, flip, records_of, the_only, verify

SLOTS = SMALL_SIZES["index_slots"]
HEADER_SIZE = 40
FIRST_INDEX_ENTRY = HEADER_SIZE + 4 * SLOTS + 20  # entry 0 is never used


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A store that was closed."""
    path = tmp_path / "store"
    with a_store(path) as store:
        store.put_many(some_messages(COUNT))
    return path


def first_index_file(path: Path) -> Path:
    return sorted((path / "index").iterdir())[0]


@pytest.mark.parametrize(
    ("at", "mask", "what"),
    [
        (0, 0x10, "begin time"),
        (6, 0x10, "begin time"),
        (12, 0x10, "end time"),
        (22, 0x10, "begin position"),
        (30, 0x10, "end position"),
        (34, 0x10, "used slots"),
        (38, 0x10, "more entries than there can be"),
        (39, 0x08, "fewer entries than there are"),
    ],
)
def test_a_header_that_does_not_fit_is_named(stopped: Path, at: int, mask: int, what: str) -> None:
    file = first_index_file(stopped)
    flip(file, at, mask)
    damages = verify(stopped).damage
    assert (damages[0].file, damages[0].position, damages[0].kind) == (f"index/{file.name}", 0, DamageKind.INDEX), what
    assert len(damages) == 1


@pytest.mark.parametrize("at", range(0, 20, 3))
def test_an_index_entry_that_does_not_fit_is_named(stopped: Path, at: int) -> None:
    file, place = first_index_file(stopped), FIRST_INDEX_ENTRY + 50 * 20
    flip(file, place + at)
    damage = the_only(verify(stopped))
    assert (damage.file, damage.position, damage.kind) == (f"index/{file.name}", place, DamageKind.INDEX)
    assert "entry 51" in damage.detail


def test_a_slot_that_leads_elsewhere_is_named(stopped: Path) -> None:
    file = first_index_file(stopped)
    flip(file, HEADER_SIZE + 4 * 7 + 3, 0x01)
    damage = the_only(verify(stopped))
    assert (damage.file, damage.position, damage.kind) == (f"index/{file.name}", HEADER_SIZE + 4 * 7, DamageKind.INDEX)


def test_records_that_the_index_does_not_know_are_named_together(stopped: Path) -> None:
    files = sorted((stopped / "index").iterdir())
    begin, end = (struct.unpack_from(">qq", file.read_bytes(), 16) for file in (files[0], files[2]))
    files[1].unlink()
    damage = the_only(verify(stopped))
    first = next(record.position for record in records_of(stopped) if record.position > begin[1])
    assert (damage.position, damage.kind) == (first, DamageKind.UNINDEXED)
    assert f"to {max(r.position for r in records_of(stopped) if r.position < end[0])}" in damage.detail


@pytest.mark.parametrize("which", [0, -1])
def test_the_first_or_last_index_file_is_missed(stopped: Path, which: int) -> None:
    sorted((stopped / "index").iterdir())[which].unlink()
    assert the_only(verify(stopped)).kind is (DamageKind.INDEX if which == 0 else DamageKind.UNINDEXED)


def test_an_index_that_is_gone_is_missed_if_the_checkpoint_counted_it(stopped: Path) -> None:
    shutil.rmtree(stopped / "index")
    assert the_only(verify(stopped)).kind is DamageKind.INDEX
    (stopped / "checkpoint").unlink()
    assert verify(stopped).sound


def test_a_store_without_an_index_is_sound(tmp_path: Path) -> None:
    with a_store(tmp_path / "store", index_enabled=False) as store:
        store.put_many(some_messages(10))
    assert verify(tmp_path / "store").sound


def test_an_index_that_was_switched_off_is_no_damage(stopped: Path) -> None:
    with a_store(stopped, index_enabled=False) as store:
        store.put_many(some_messages(10))
    assert verify(stopped).sound
