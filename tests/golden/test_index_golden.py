"""The key index against index files that RocketMQ wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest

from embermq.clock import SystemClock
from embermq.format.index_entry import IndexHeader
from embermq.log.dispatching import iter_placed
from embermq.log.index_file import IndexFile
from embermq.log.key_index import KeyIndex, detect_shape
from embermq.log.placed import Placed
from embermq.model.delay import DEFAULT_DELAY_LEVELS

STORES = sorted(
    path.name.removesuffix(".tar.xz") for path in (Path(__file__).parent / "data" / "stores").glob("*.tar.xz")
)
STOPPED = [name for name in STORES if not name.startswith(("crashed", "torn-"))]
FOREVER = 2**63 - 1


class Golden(Protocol):
    def store(self, name: str) -> Path: ...

    def expected(self, name: str) -> dict[str, Any]: ...


def index_of(folder: Path, expected: dict[str, Any], *, read_only: bool = False) -> KeyIndex:
    shape = {"slots": expected["hashSlotNum"], "entries": expected["indexNum"]}
    index = KeyIndex(folder, **shape, clock=SystemClock(), read_only=read_only)
    index.load()
    return index


def answers(index: KeyIndex, queries: list[dict[str, Any]]) -> list[list[int]]:
    return [
        index.find(
            query["topic"],
            query["key"],
            begin_ms=query["begin"],
            end_ms=query["end"],
            limit=query["maxNum"],
        )
        for query in queries
    ]


def found_by_rocketmq(queries: list[dict[str, Any]]) -> list[list[int]]:
    return [query["physicalOffsets"] for query in queries]


def headers(folder: Path, expected: dict[str, Any]) -> list[IndexHeader]:
    shape = {"slots": expected["hashSlotNum"], "entries": expected["indexNum"]}
    return [IndexFile.open(path, **shape, read_only=True).header for path in sorted(folder.iterdir())]


def expected_headers(expected: dict[str, Any]) -> list[IndexHeader]:
    return [
        IndexHeader(
            file["beginTimestamp"],
            file["endTimestamp"],
            file["beginPhyOffset"],
            file["endPhyOffset"],
            file["hashSlotCount"],
            file["indexCount"],
        )
        for file in expected["files"]
    ]


def records_of(store: Path) -> list[Placed]:
    found: list[Placed] = []
    for path in sorted((store / "commitlog").iterdir()):
        found += iter_placed(memoryview(path.read_bytes()), int(path.name), DEFAULT_DELAY_LEVELS)
    return found


@pytest.mark.parametrize("name", STORES)
def test_headers_are_read_as_rocketmq_reads_them(golden: Golden, name: str) -> None:
    folder, expected = golden.store(name) / "index", golden.expected(name)["index"]
    assert headers(folder, expected) == expected_headers(expected)


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("read_only", [False, True])
def test_every_query_finds_what_rocketmq_finds_in_its_order(golden: Golden, name: str, read_only: bool) -> None:
    folder, expected = golden.store(name) / "index", golden.expected(name)["index"]
    index = index_of(folder, expected, read_only=read_only)
    assert answers(index, expected["queries"]) == found_by_rocketmq(expected["queries"])


@pytest.mark.parametrize("name", STORES)
def test_the_shape_is_detected_from_every_file(golden: Golden, name: str) -> None:
    files = list((golden.store(name) / "index").iterdir())
    assert {detect_shape(path) for path in files} == {(50, 200)}


@pytest.mark.parametrize("name", STORES)
def test_a_cut_behind_everything_changes_no_byte(golden: Golden, name: str) -> None:
    folder, expected = golden.store(name) / "index", golden.expected(name)["index"]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    index = index_of(folder, expected)
    index.cut(FOREVER)
    index.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", ["basic", "batch", "transaction"])
def test_a_cut_in_the_middle_keeps_exactly_what_was_found_before_it(golden: Golden, name: str) -> None:
    store, expected = golden.store(name), golden.expected(name)["index"]
    records = records_of(store)
    position = records[len(records) // 2].position
    endless = [dict(query, maxNum=64) for query in expected["queries"] if query["end"] == FOREVER]
    index = index_of(store / "index", expected)
    before = answers(index, endless)
    assert max(map(len, before)) < 64
    index.cut(position)
    assert answers(index, endless) == [[at for at in found if at < position] for found in before]
    index.put(records)
    assert answers(index, endless) == before


@pytest.mark.parametrize("name", STOPPED)
def test_an_index_filled_anew_from_the_log_is_like_rocketmqs(golden: Golden, tmp_path: Path, name: str) -> None:
    expected = golden.expected(name)["index"]
    index = index_of(tmp_path / "anew", expected)
    index.put(records_of(golden.store(name)))
    index.flush()
    endless = [query for query in expected["queries"] if (query["begin"], query["end"]) == (0, FOREVER)]
    assert answers(index, endless) == found_by_rocketmq(endless)
    assert headers(tmp_path / "anew", expected) == expected_headers(expected)
