"""Queues in a RocksDB: RocketMQ opens ours and we open its, also after a crash of either."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from embermq import Message, Store, open_store
from tests.compat.samples import SETTINGS
from tests.compat.store_tool import SMALL, StoreTool

pytest.importorskip("rocksdict")

ROCKS = {**SMALL, "storeType": "defaultRocksDB", "enableLmq": True, "enableMultiDispatch": True}
TOPIC, LIGHT = "orders", "%LMQ%größe"
PLACES = [(TOPIC, 0), (TOPIC, 1), (LIGHT, 0)]


def open_rocks(path: Path) -> Store:
    return open_store(path, **{**SETTINGS, "durability": "async", "queue_store": "rocksdb"})


def fill(store: Store, begin: int, end: int) -> None:
    for number in range(begin, end):
        light = {"INNER_MULTI_DISPATCH": LIGHT} if number % 3 == 0 else {}
        store.put(Message(TOPIC, b"%d" % number, tags=f"t{number % 4}", queue=number % 2, properties=light))


def messages(begin: int, end: int) -> list[dict[str, Any]]:
    """The same for RocketMQ."""
    return [
        {
            **{"topic": TOPIC, "queueId": number % 2, "bodyHex": (b"%d" % number).hex()},
            **{"tags": f"t{number % 4}", "properties": {"INNER_MULTI_DISPATCH": LIGHT} if number % 3 == 0 else {}},
        }
        for number in range(begin, end)
    ]


def units_of(store: Store) -> dict[str, Any]:
    found = {}
    for topic, queue in PLACES:
        entries = store.entries(topic, queue=queue, offset=0, limit=10_000)
        found[f"{topic}/{queue}"] = [*store.offsets(topic, queue=queue), [list(entry) for entry in entries]]
    return found


def units_of_rocketmq(tool: StoreTool, path: Path) -> dict[str, Any]:
    queues = tool.read(path, config=ROCKS, queues=PLACES)["consumeQueues"]
    found = {}
    for topic, queue in PLACES:
        facts = queues[topic][str(queue)]
        found[f"{topic}/{queue}"] = [facts["minOffset"], facts["maxOffset"], facts["units"]]
    return found


def test_rocketmq_opens_what_we_wrote_and_goes_on(store_tool: StoreTool, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with open_rocks(path) as store:
        fill(store, 0, 90)
        ours = units_of(store)
    assert units_of_rocketmq(store_tool, path) == ours
    # Killed at its end: a shutdown right after a put of RocketMQ's own may wait for ever.
    results = store_tool.write(path, messages(90, 120), config=ROCKS, crash=True)
    assert {result["status"] for result in results} == {"PUT_OK"}
    with open_rocks(path) as store:
        assert [end for _, end, _ in units_of(store).values()] == [60, 60, 40]
        fill(store, 120, 130)
        ours = units_of(store)
    assert units_of_rocketmq(store_tool, path) == ours


def test_we_go_on_where_rocketmq_was_killed(store_tool: StoreTool, tmp_path: Path) -> None:
    path = tmp_path / "s"
    store_tool.write(path, messages(0, 100), config=ROCKS, crash=True)
    with open_rocks(path) as store:
        assert [end for _, end, _ in units_of(store).values()] == [50, 50, 34]
        fill(store, 100, 110)
        ours = units_of(store)
    assert units_of_rocketmq(store_tool, path) == ours


def test_rocketmq_goes_on_where_we_were_killed(store_tool: StoreTool, tmp_path: Path) -> None:
    with open_rocks(tmp_path / "s") as store:
        fill(store, 0, 50)
        store.checkpoint()
        fill(store, 50, 100)
        ours = units_of(store)
        shutil.copytree(tmp_path / "s", tmp_path / "copy")
    assert units_of_rocketmq(store_tool, tmp_path / "copy") == ours
