"""Reading what is far behind: its pages go again, those of the log's end stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from embermq import Message, open_store
from embermq.files.memory import forget, is_resident, map_file
from embermq.store.store import Store
from tests.builders import wait_until

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


def forgets(folder: Path) -> bool:
    """Whether the file system is on a disk at all."""
    descriptor, mapping, _ = map_file(folder / "probe", FILE_SIZE, read_only=False)
    mapping[:] = b"x" * FILE_SIZE
    os.fsync(descriptor)
    forget(mapping)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    return not is_resident(mapping, 0, FILE_SIZE)


@pytest.mark.parametrize("durability", ["sync", pytest.param("async", marks=pytest.mark.slow)])
def test_what_is_read_far_behind_does_not_stay_in_memory(tmp_path: Path, durability: str) -> None:
    if not forgets(tmp_path):
        pytest.skip("this file system keeps its files in memory")
    sizes = {"log_file_size": FILE_SIZE, "hot_bytes": HOT_FILES * FILE_SIZE}
    with open_store(tmp_path / "store", durability=durability, flush_interval_ms=50, **sizes) as store:
        fill(store, 8)
        count = store.offsets("orders", queue=0)[1]
        wait_until(lambda: not any(resident(store)[: -HOT_FILES - 2]))
        assert read_all(store) == count
        wait_until(lambda: not any(resident(store)[: -HOT_FILES - 2]))
        assert all(resident(store)[-HOT_FILES - 1 : -1])
        assert read_all(store) == count
