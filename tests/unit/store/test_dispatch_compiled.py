"""Queues and index made again from the log: by kernels or by plain code, they are the same."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from embermq import Message, Store
from embermq.format.record import Draft
from embermq.kernels import loading
from embermq.model.flags import SysFlag
from embermq.model.topic import SCHEDULE_TOPIC, TopicConfig
from embermq.store.settings import StoreSettings
from tests.builders import SMALL_SIZES, ManualClock


def open_at(path: Path) -> Store:
    values: dict[str, Any] = {**SMALL_SIZES, "durability": "async", "reserve_bytes": 0}
    return Store(path, StoreSettings.make(values), clock=ManualClock(), report=lambda done, total: None)


def a_draft(random: Random) -> Draft:
    """A record that kernels know, or one that they leave to plain code."""
    topic = random.choice([b"orders", b"bills", SCHEDULE_TOPIC.encode()])
    flag = random.choice([0, 0, 0, SysFlag.PREPARED, SysFlag.ROLLED_BACK, SysFlag.COMMITTED])
    properties = b"".join(
        random.sample([b"TAGS\x01TagA\x02", b"KEYS\x01k1 k2\x02", b"UNIQ_KEY\x01u%d\x02" % random.getrandbits(20)], 2)
    )
    if topic == SCHEDULE_TOPIC.encode():
        properties += b"DELAY\x013\x02"
    return Draft(
        topic, random.randrange(3), random.randbytes(random.randrange(1, 3000)), properties, sys_flag=int(flag)
    )


def fill(path: Path, random: Random) -> None:
    with open_at(path) as store:
        store.save_topic(TopicConfig("orders"), TopicConfig("bills"), TopicConfig(SCHEDULE_TOPIC))
        for _ in range(random.randrange(2, 30)):
            drafts = [a_draft(random) for _ in range(random.randrange(1, 12))]
            store.put_drafts(lambda drafts=drafts: drafts)  # type: ignore[misc]
        store.put_many([Message("orders", b"%d" % number, tags="ä", keys=["k"]) for number in range(200)])


def derived(path: Path) -> dict[str, bytes]:
    """What was made from the log; index files are named after the moment they were made, which stands still here."""
    folders = [path / "consumequeue", path / "index"]
    return {
        str(file.relative_to(path)): file.read_bytes()
        for folder in folders
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def made_again(source: Path, path: Path) -> dict[str, bytes]:
    shutil.copytree(source, path)
    for name in ("consumequeue", "index"):
        shutil.rmtree(path / name)
    (path / "abort").touch()
    open_at(path).close()
    return derived(path)


@pytest.mark.parametrize("seed", range(8))
def test_what_is_made_again_is_the_same(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    loading.load()
    fill(tmp_path / "store", Random(seed))
    before = derived(tmp_path / "store")
    assert made_again(tmp_path / "store", tmp_path / "compiled") == before
    monkeypatch.setattr(loading, "is_wanted", lambda: False)
    assert made_again(tmp_path / "store", tmp_path / "plain") == before
