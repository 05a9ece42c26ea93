"""Reading what is far behind: its pages go again, those of the log's end stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq import Message, open_store
from embermq.store.store import Store
from tests.builders import wait_until
from tests.pages import skip_unless_forgotten

MIB = 1024 * 1024
FILE_SIZE = 256 * 1024
HOT_FILES = 2


def resident(store: Store) -> list[bool]:
    """Whether each log file, from the first to the last, is in memory: its first half, which is always written."""
    return [file.is_resident(0, file.size // 2) for file in store.log_files().files]


def fill(store: Store, files: int) -> None:
    while len(store.log_files().files) <= files:
        store.put_many([Message("orders", b"x" * 8_000, queue=0) for _ in range(16)])


def read_all(store: Store) -> int:
    count = 0
    while batch := list(store.get("orders", queue=0, offset=count, limit=32)):
        count += len(batch)
    return count


@pytest.mark.parametrize("durability", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_what_is_read_far_behind_does_not_stay_in_memory(tmp_path: Path, durability: str) -> None:
    skip_unless_forgotten(tmp_path)
    sizes = {"log_file_size": FILE_SIZE, "hot_bytes": HOT_FILES * FILE_SIZE}
    with open_store(tmp_path / "store", durability=durability, flush_interval_ms=50, **sizes) as store:
        fill(store, 8)
        count = store.offsets("orders", queue=0)[1]
        wait_until(lambda: not any(resident(store)[: -HOT_FILES - 2]))
        assert read_all(store) == count
        wait_until(lambda: not any(resident(store)[: -HOT_FILES - 2]))
        assert all(resident(store)[-HOT_FILES - 1 : -1])
        assert read_all(store) == count


def test_a_log_that_grows_fast_keeps_its_end_in_memory_alone(tmp_path: Path) -> None:
    skip_unless_forgotten(tmp_path)
    with open_store(tmp_path / "store", durability="async", recent_bytes=4 * MIB, recent_bytes_per_s=0) as store:
        for _ in range(32):
            store.put_many([Message("orders", b"x" * MIB, queue=0)])
        (file,) = store.log_files().files
        store.wait_for_disk(file.written)
        wait_until(lambda: not any(file.is_resident(begin * MIB, (begin + 1) * MIB) for begin in range(24)))
        assert file.is_resident(file.written - 4 * MIB, file.written)
        assert read_all(store) == 32
