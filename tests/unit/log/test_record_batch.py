"""What a batch that kernels stored tells of itself is what its records tell."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from embermq import MessageBatch, open_store
from embermq.kernels import loading
from embermq.log.placed import Batch, Placed
from embermq.model.topic import TopicConfig

pytest.importorskip("numba", reason="kernels need numba")


@pytest.mark.parametrize("queues", [1, 4, 32, 33, 100])
@pytest.mark.parametrize("durability", ["async", "sync"])
def test_a_batch_knows_its_sizes_and_its_queues(tmp_path: Path, queues: int, durability: str) -> None:
    loading.load()
    told: list[Sequence[Placed]] = []
    with open_store(tmp_path, durability=durability) as store:
        store.save_topic(TopicConfig("others", read_queues=3, write_queues=3))
        store.save_topic(TopicConfig("orders", read_queues=queues, write_queues=queues))
        store.put_many(MessageBatch.of("others", [b"body"] * 3))
        store.listen(told.append)
        store.put_many(MessageBatch.of("orders", [bytes(10 + 7 * (number % 50)) for number in range(200)]))
        mine, others = (set(store.queue_table().rows(topic).values()) for topic in (b"orders", b"others"))
        (batch,) = told
        assert isinstance(batch, Batch)
        sizes = [item.size for item in batch]
        assert batch.spread() == (min(sizes), max(sizes), sum(sizes))
        assert {item.queue for item in batch} == set(range(queues))
        assert len(mine) == queues
        assert all(batch.may_be_in({row}) for row in mine)
        assert not batch.may_be_in(others)
        assert not batch.may_be_in(set())
        assert batch.may_be_in(mine | others)
