"""The RocksDB of queues that RocketMQ wrote, opened as what it is."""

from __future__ import annotations

from typing import Any

import pytest

from embermq import open_store
from embermq.store.opening import Begin
from tests.conftest import Golden

pytest.importorskip("rocksdict")
NAME = "rocksdb-cq"


def test_queues_hold_what_rocketmq_put_there(golden: Golden) -> None:
    expected: dict[str, Any] = golden.expected(NAME)["consumeQueues"]
    with open_store(golden.store(NAME), queue_store="rocksdb", retention_hours=10**6, reserve_bytes=0) as store:
        recovered = store.state().recovered
        assert (recovered.reason, recovered.begin) == (Begin.QUEUE_DATABASE, store.state().log_written)
        for topic, queues in expected.items():
            for number, facts in queues.items():
                entries = store.entries(topic, queue=int(number), offset=0, limit=1000)
                assert [list(entry) for entry in entries] == [unit[:3] for unit in facts["units"]]
                assert store.offsets(topic, queue=int(number)) == (facts["minOffset"], facts["maxOffset"])


def test_settings_are_taken_over_from_rocketmqs_databases(golden: Golden) -> None:
    path = golden.store(NAME)
    with open_store(path, queue_store="rocksdb", retention_hours=10**6, reserve_bytes=0) as store:
        config = store.find_topic("RocksTopic")
        assert config is not None
        assert config.read_queues == len(golden.expected(NAME)["consumeQueues"]["RocksTopic"])
        version = store.topic_table().version
    assert (path / "config" / "subscriptionGroup.json").is_file()
    with open_store(path, queue_store="rocksdb", retention_hours=10**6, reserve_bytes=0) as store:
        assert store.topic_table().version == version  # ours are newer by now
