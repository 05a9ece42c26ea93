"""A store is read from any file system: local, one of pyarrow's, one of fsspec's."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from pyarrow import fs

from embermq.errors import StoreMissing
from embermq.scan import file_system
from embermq.scan.columns import ALL_COLUMNS
from embermq.scan.file_system import ArrowFiles, LocalFile, LocalFiles, open_file_system
from embermq.scan.numpy_engine import NumpyEngine
from embermq.scan.planner import list_queues, plan
from embermq.scan.reading import read_split
from embermq.scan.splits import LogSplit, QueueSplit, RecordSplit, StorePlace
from embermq.scan.wanted import OffsetRange, Wanted
from tests.builders import wait_until
from tests.conftest import Golden

WANTED = Wanted(system_topics=True, columns=ALL_COLUMNS)


def rows(place: StorePlace | str, wanted: Wanted) -> list[dict[str, object]]:
    splits = plan(place, wanted, split_size=100_000)
    batches = (batch for split in splits for batch in read_split(split, wanted, make_engine=NumpyEngine))
    return [row for batch in batches for row in batch.to_pylist()]


def is_wanted(row: dict[str, object], wanted: Wanted) -> bool:
    assert wanted.keys is not None
    return wanted.accepts_topic(str(row["topic"])) and not wanted.keys.isdisjoint(str(row["keys"]).split())


def in_memory(path: Path, name: str) -> StorePlace:
    """A copy of a store in fsspec's memory."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    for file in path.rglob("*"):
        if file.is_file():
            system.pipe_file(f"/{name}/{file.relative_to(path)}", file.read_bytes())
    return StorePlace(f"memory://{name}")


def test_a_store_in_memory_reads_as_the_one_it_was_copied_from(golden: Golden) -> None:
    path = golden.store("basic")
    place = in_memory(path, "basic")
    assert rows(place, WANTED) == rows(str(path), WANTED)
    assert list_queues(place) == list_queues(str(path))


def test_queues_are_read_from_afar(golden: Golden) -> None:
    path = golden.store("basic")
    place = in_memory(path, "afar")
    state = list_queues(str(path))[0]
    wanted = Wanted(columns=ALL_COLUMNS, ranges=(OffsetRange(*state),))
    assert all(isinstance(split, QueueSplit) for split in plan(place, wanted))
    assert rows(place, wanted) == rows(str(path), wanted)


def test_keys_are_looked_up_in_the_index_from_afar(golden: Golden) -> None:
    path = golden.store("basic")
    place = in_memory(path, "indexed")
    for wanted in (
        Wanted(columns=ALL_COLUMNS, keys=frozenset({"order-11", "order-200"})),
        Wanted(columns=ALL_COLUMNS, topics=frozenset({"TopicAlpha"}), keys=frozenset({"order-11"})),
    ):
        kinds = Counter(type(split) for split in plan(place, wanted))
        assert kinds[RecordSplit] == 1
        assert kinds[LogSplit] <= 1  # what lies behind the last key
        found = rows(place, wanted)
        assert found == rows(str(path), wanted) == [row for row in rows(str(path), WANTED) if is_wanted(row, wanted)]
        assert found


def test_an_index_that_lost_a_file_is_not_asked(golden: Golden) -> None:
    path = golden.store("basic")
    first, *rest = sorted((path / "index").iterdir())
    assert rest
    first.write_bytes(b"")
    wanted = Wanted(columns=ALL_COLUMNS, keys=frozenset({"order-11"}))
    assert not any(isinstance(split, RecordSplit) for split in plan(str(path), wanted))
    assert rows(str(path), wanted) == [row for row in rows(str(path), WANTED) if is_wanted(row, wanted)]


def test_a_file_system_of_pyarrow_is_used_as_it_is(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    path = golden.store("ordered")
    monkeypatch.setattr(file_system, "_open", lambda _: ArrowFiles(fs.LocalFileSystem(), str(path)))
    assert rows("of no matter", WANTED) == rows(str(path), WANTED)


def test_local_addresses_are_read_locally(tmp_path: Path) -> None:
    for address in (str(tmp_path), f"file://{tmp_path}"):
        found = open_file_system(StorePlace(address))
        assert isinstance(found, LocalFiles)
        assert found.root == str(tmp_path)


def test_an_address_that_nobody_knows_is_refused() -> None:
    with pytest.raises(StoreMissing, match="no store at nothing://here"):
        plan("nothing://here", WANTED)


def test_what_is_expected_comes_into_memory(tmp_path: Path) -> None:
    path, size = tmp_path / "file", 1 << 20
    path.write_bytes(bytes(size))
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def is_in_memory() -> bool:
        try:
            return os.preadv(descriptor, [bytearray(size)], 0, os.RWF_NOWAIT) == size
        except OSError as error:
            return error.errno == errno.EOPNOTSUPP  # this file system cannot tell

    with LocalFile(descriptor) as file:
        for _ in range(2):  # the second time it is there
            file.expect(0, size)
            wait_until(is_in_memory)
