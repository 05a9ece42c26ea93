"""MessageBatch: put by kernels or one by one, the store is the same."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from embermq import MessageBatch, Store
from embermq.errors import BodyTooLarge, IllegalMessage, IllegalProperty, IllegalQueue
from embermq.kernels import loading
from embermq.log.placed import Batch, Placed, codes_by_queue, queues_of
from embermq.model.topic import TopicConfig
from embermq.store.settings import StoreSettings
from tests.builders import SMALL_SIZES, ManualClock, wait_until


@pytest.fixture(autouse=True, scope="module")
def kernels() -> None:
    loading.load()


def a_store(path: Path, **settings: Any) -> Store:
    values = {**SMALL_SIZES, "durability": "async", "reserve_bytes": 0, "max_message_size": 8_000, **settings}
    store = Store(path, StoreSettings.make(values), clock=ManualClock(), report=lambda done, total: None)
    store.save_topic(TopicConfig("orders", read_queues=3, write_queues=3))
    return store


def a_batch(random: Random) -> MessageBatch:
    bodies = [random.randbytes(random.choice([0, 1, 100, 3000])) for _ in range(random.randrange(1, 80))]
    return MessageBatch.of(
        "orders", bodies, queue=random.choice([None, 0, 2]), tags=random.choice([None, "TagA", "ä"]),
        properties=random.choice([{}, {"a": "b", "c": "ü"}]),
    )  # fmt: skip


def files_of(path: Path) -> dict[str, bytes]:
    folders = [path / name for name in ("commitlog", "consumequeue", "index")]
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
@pytest.mark.parametrize("seed", range(4))
def test_a_batch_is_stored_as_its_messages_would_be(tmp_path: Path, seed: int, durability: str) -> None:
    random = Random(seed)
    batches = [a_batch(random) for _ in range(8)]  # several log files
    with a_store(tmp_path / "batch", durability=durability) as store:
        receipts = [list(store.put_many(batch)) for batch in batches]
    with a_store(tmp_path / "plain", durability=durability) as store:
        assert receipts == [list(store.put_many(list(batch))) for batch in batches]
    assert files_of(tmp_path / "batch") == files_of(tmp_path / "plain")


@pytest.mark.parametrize("durability", ["async", "sync", "pooled"])
def test_who_listens_hears_of_a_batch_what_its_messages_tell(tmp_path: Path, durability: str) -> None:
    random = Random(5)
    heard = []

    def hear(items: Sequence[Placed]) -> None:
        assert isinstance(items, Batch)
        assert queues_of(items, "orders") == queues_of(list(items), "orders") != set()
        assert queues_of(items, "payments") == queues_of(items, "nothing") == set()
        for wanted in (set(), {0}, {1, 2}):
            is_wanted = partial(operator.contains, {("orders", queue) for queue in wanted})
            assert codes_by_queue(items, is_wanted) == codes_by_queue(list(items), is_wanted)
        heard.append(len(items))

    with a_store(tmp_path / "store", durability=durability) as store:
        store.save_topic(TopicConfig("payments", read_queues=3, write_queues=3))
        store.put_many(MessageBatch.of("payments", [b"x"]))  # so that its queues are known
        wait_until(lambda: store.state().dispatch_behind == 0)
        store.listen(hear)
        batches = [a_batch(random) for _ in range(8)]
        for batch in batches:
            store.put_many(batch)
    assert sum(heard) == sum(map(len, batches))


def test_a_batch_is_refused_whole(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        refused: list[tuple[MessageBatch, type[Exception]]] = [
            (MessageBatch.of("orders", [b"x", b"y" * 8_001]), BodyTooLarge),
            (MessageBatch.of("orders", [b"x"], queue=3), IllegalQueue),
            (MessageBatch.of("orders", [b"x"], tags="a\x01"), IllegalProperty),
            (MessageBatch("orders", b"xy", array("q", [2, 1])), IllegalMessage),
            (MessageBatch("orders", b"xy", array("q", [1, 3])), IllegalMessage),
            (MessageBatch("orders", b"xy", array("q", [-1, 1])), IllegalMessage),
        ]
        for batch, error in refused:
            with pytest.raises(error):
                store.put_many(batch)
            with pytest.raises(error):
                store.put_many(list(batch))
        assert store.offsets("orders", queue=0) == (0, 0)
        assert store.put_many(MessageBatch.of("orders", [])) == []
        assert store.put_many(MessageBatch.of("orders", [b"z"]))[0].offset == 0


def test_ends_are_64_bit_numbers() -> None:
    with pytest.raises(IllegalMessage, match="64-bit"):
        MessageBatch("orders", b"xy", array("i", [1, 2]))


def test_without_kernels_a_batch_is_put_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "is_loaded", lambda: False)
    with a_store(tmp_path / "store") as store:
        receipts = store.put_many(MessageBatch.of("orders", [b"one", b"two"], queue=1))
        assert [(receipt.queue, receipt.offset) for receipt in receipts] == [(1, 0), (1, 1)]
        assert [message.body for message in store.get("orders", queue=1, offset=0)] == [b"one", b"two"]
