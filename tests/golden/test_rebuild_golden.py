"""Rebuilt queues and index files against those that RocketMQ itself wrote, byte for byte.

What RocketMQ leaves undefined, and is excepted:

- the names of index files, which tell when a file was made;
- the seconds of the first entry of each index file but the first: it counts them from the end of the file before;
- queues in a RocksDB: there are no files to compare.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embermq.format.index_entry import ENTRY, FIRST_ENTRY, entry_at
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.jobs.rebuild import Rebuilt, rebuild
from embermq.store.settings import StoreSettings
from tests.golden.test_queues_golden import STORES

FOLDERS = ("consumequeue", "consumequeue_ext", "batchconsumequeue")
SLOTS, ENTRIES = 50, 200
LEVELS = "1s 2s 2s 3s 30s 1m"  # of the stores that were made with other delay levels
WITH_LEVELS = ("retry-dlq", "ordered", "v2-topic")


def rebuilt(store: Path, out: Path, name: str, *, range_size: int) -> Rebuilt:
    settings = StoreSettings(delay_levels=LEVELS) if name in WITH_LEVELS else StoreSettings()
    return rebuild(
        store, out, runner=LocalRunner(2), progress=Progress("rebuild"), settings=settings, range_size=range_size
    )


def files_of(root: Path, folder: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted((root / folder).rglob("*")) if path.is_file()
    }


def index_files(root: Path) -> list[bytes]:
    """The files in their order, without what is undefined."""
    found = []
    for number, path in enumerate(sorted((root / "index").iterdir())):
        data = bytearray(path.read_bytes())
        if number:
            at = entry_at(SLOTS, FIRST_ENTRY)
            key_hash, position, _, previous = ENTRY.unpack_from(data, at)
            ENTRY.pack_into(data, at, key_hash, position, 0, previous)
        found.append(bytes(data))
    return found


@pytest.mark.parametrize("range_size", [5_000, 1 << 20], ids=["small ranges", "whole files"])
@pytest.mark.parametrize("name", STORES)
def test_a_rebuilt_store_is_rocketmqs_own_to_the_byte(golden: Any, tmp_path: Path, name: str, range_size: int) -> None:
    store, out = golden.store(name), tmp_path / "rebuilt"
    before = files_of(store, ".")
    result = rebuilt(store, out, name, range_size=range_size)
    for folder in FOLDERS:
        assert files_of(out, folder) == files_of(store, folder)
    assert index_files(out) == index_files(store)
    assert result.damage == [] and result.left_out == {}
    assert result.records == len(golden.expected(name)["commitLog"]["records"])
    assert files_of(store, ".") == before


RECOVERED = ("crashed", "torn-cut", "torn-properties", "torn-garbage", "torn-body", "torn-queues")


@pytest.mark.parametrize("name", RECOVERED)
def test_a_store_that_crashed_is_rebuilt_as_rocketmq_recovers_it(golden: Any, tmp_path: Path, name: str) -> None:
    out = tmp_path / "rebuilt"
    rebuilt(golden.store(name), out, name, range_size=5_000)
    expected = golden.expected(f"{name}.recovered")
    from tests.golden.test_queues_golden import open_simple

    for topic, queues in expected["consumeQueues"].items():
        for number, facts in queues.items():
            queue = open_simple(out, topic, number, read_only=True)
            assert [list(entry) for entry in queue.read(0, queue.max_offset)] == facts["units"]
