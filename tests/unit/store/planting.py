"""How tests of `verify` plant damage, and look at what was found."""

from __future__ import annotations

from pathlib import Path

from embermq.format.record import Record
from embermq.store.reader import StoreReader
from embermq.store.verify import Damage, Verdict, verify_store
from tests.builders import SMALL_SIZES

COUNT = 500  # messages of some 115 KB: two log files, several files of queues and index
LOG_FILE = SMALL_SIZES["log_file_size"]
FIRST_LOG = f"commitlog/{0:020d}"
SECOND_LOG = f"commitlog/{LOG_FILE:020d}"


def verify(path: Path) -> Verdict:
    with StoreReader(path) as reader:
        return verify_store(reader)


def records_of(path: Path) -> list[Record]:
    with StoreReader(path) as reader:
        return list(reader.iter_records())


def the_only(verdict: Verdict) -> Damage:
    assert len(verdict.damage) == 1, verdict.damage
    assert not verdict.sound
    return verdict.damage[0]


def overwrite(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(data)


def flip(file: Path, at: int, mask: int = 0x10) -> None:
    data = file.read_bytes()
    overwrite(file, at, bytes([data[at] ^ mask]))


def overwrite_log(path: Path, position: int, data: bytes) -> None:
    overwrite(path / "commitlog" / f"{position // LOG_FILE * LOG_FILE:020d}", position % LOG_FILE, data)
