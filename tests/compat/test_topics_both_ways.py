"""config/topics.json: RocketMQ loads what we saved, and we load what it saved, its backup included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embermq.errors import CorruptRecord
from embermq.model.topic import TopicConfig
from tests.builders import ManualClock, a_store
from tests.compat.store_tool import StoreTool, StoreToolError

TOPICS = [
    TopicConfig("plain"),
    TopicConfig("a|b_c-%d", read_queues=1, write_queues=8, permission=4, order=True, sys_flag=3),
    TopicConfig("many-tags", filter_type="MULTI_TAG", permission=7),
    TopicConfig("batches", attributes={"queue.type": "BatchCQ", "message.type": "NORMAL"}),
    TopicConfig("compacted", attributes={"cleanup.policy": "COMPACTION", "größe": '大 "😀"\\\t'}),
    TopicConfig("%RETRY%" + "g" * 248),
]


def as_rocketmq_says(topic: TopicConfig) -> dict[str, Any]:
    return {
        "attributes": dict(topic.attributes),
        "order": topic.order,
        "perm": topic.permission,
        "readQueueNums": topic.read_queues,
        "topicFilterType": topic.filter_type,
        "topicName": topic.name,
        "topicSysFlag": topic.sys_flag,
        "writeQueueNums": topic.write_queues,
    }


def save(path: Path, *topics: TopicConfig) -> None:
    with a_store(path, clock=ManualClock()) as store:
        for topic in topics:
            store.save_topic(topic)


def names(table: dict[str, Any]) -> list[str]:
    return sorted(table["topicConfigTable"])


def test_rocketmq_loads_the_topics_that_we_saved(store_tool: StoreTool, tmp_path: Path) -> None:
    save(tmp_path / "store", *TOPICS)
    table = store_tool.topics(tmp_path / "store")
    assert table["topicConfigTable"] == {topic.name: as_rocketmq_says(topic) for topic in TOPICS}
    assert table["dataVersion"] == {"counter": len(TOPICS), "stateVersion": 0, "timestamp": 1_700_000_000_000}


def test_a_table_that_both_change_keeps_all_topics_and_counts_on(store_tool: StoreTool, tmp_path: Path) -> None:
    path = tmp_path / "store"
    save(path, *TOPICS)
    theirs = {"name": "theirs", "queues": 16, "attributes": {"queue.type": "BatchCQ"}}
    store_tool.topics(path, add=[theirs])
    with a_store(path) as store:
        for topic in TOPICS:
            assert store.find_topic(topic.name) == topic
        assert store.find_topic("theirs") == TopicConfig(
            "theirs", read_queues=16, write_queues=16, attributes={"queue.type": "BatchCQ"}
        )
        store.save_topic(TopicConfig("ours"))
    table = store_tool.topics(path)
    assert names(table) == sorted([*(topic.name for topic in TOPICS), "theirs", "ours"])
    assert table["dataVersion"]["counter"] == len(TOPICS) + 2


@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_rocketmq_falls_back_to_the_backup_that_we_left(
    store_tool: StoreTool, tmp_path: Path, content: bytes | None
) -> None:
    save(tmp_path / "store", TopicConfig("first"), TopicConfig("second"))
    spoil(tmp_path / "store", content)
    assert names(store_tool.topics(tmp_path / "store")) == ["first"]


@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_we_fall_back_to_the_backup_that_rocketmq_left(
    store_tool: StoreTool, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "store"
    for name in ("first", "second"):
        store_tool.topics(path, add=[{"name": name}])
    spoil(path, content)
    with a_store(path) as store:
        assert store.topics() == ["first"]


def spoil(path: Path, content: bytes | None) -> None:
    """Leave `content`, or nothing at all, where the topics were."""
    file = path / "config" / "topics.json"
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)


def test_neither_opens_a_store_whose_topics_are_lost_in_both_files(store_tool: StoreTool, tmp_path: Path) -> None:
    save(tmp_path / "store", TopicConfig("first"), TopicConfig("second"))
    spoil(tmp_path / "store", b"{")
    (tmp_path / "store" / "config" / "topics.json.bak").write_bytes(b"{")
    with pytest.raises(CorruptRecord):
        a_store(tmp_path / "store")
    with pytest.raises(StoreToolError, match="could not load"):
        store_tool.topics(tmp_path / "store")
