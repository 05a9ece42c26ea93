"""The tool that the other compatibility tests trust: RocketMQ reads back what RocketMQ wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.compat.store_tool import SMALL, StoreTool, StoreToolError
from tests.conftest import Golden

OPENED = [
    *("basic", "batch", "batch-cq", "compaction", "cq-ext", "delay", "ipv6", "lmq", "ordered", "pooled", "pop"),
    *("prop-crc", "retry-dlq", "sync-flush", "timer", "transaction", "v2-topic"),
]
DAMAGED = ["crashed", "torn-body", "torn-cut", "torn-garbage", "torn-properties", "torn-queues"]


def test_what_rocketmq_puts_it_reads_back(store_tool: StoreTool, tmp_path: Path) -> None:
    message = {
        "topic": "orders",
        "queueId": 2,
        "bodyHex": "00ff",
        "tags": "eu",
        "keys": "o-1 o-2",
        "properties": {"Größe": "大"},
        "flag": 7,
        "bornTimestamp": 1_700_000_000_123,
        "bornHost": "::1:4711",
        "reconsumeTimes": 3,
        "preparedTransactionOffset": 99,
    }
    puts = store_tool.write(tmp_path, [message, {"topic": "orders", "queueId": 2}])
    facts = store_tool.read(tmp_path, queries=[{"topic": "orders", "key": "o-2"}])

    first, second = facts["commitLog"]["records"]
    assert [put["status"] for put in puts] == ["PUT_OK", "PUT_OK"]
    assert [put["physicalOffset"] for put in puts] == [0, first["totalSize"]] == [0, second["physicalOffset"]]
    assert first["bornHost"] == "[0:0:0:0:0:0:0:1]:4711"
    assert first["properties"] == {"Größe": "大", "TAGS": "eu", "KEYS": "o-1 o-2"}
    for name in ("queueId", "bodyHex", "flag", "bornTimestamp", "reconsumeTimes", "preparedTransactionOffset"):
        assert first[name] == message[name]
    queue = facts["consumeQueues"]["orders"]["2"]
    assert [unit[:2] for unit in queue["units"]] == [[0, first["totalSize"]], [first["totalSize"], second["totalSize"]]]
    assert [pulled["bodyHex"] for pulled in queue["messages"]] == ["00ff", ""]
    assert [query["physicalOffsets"] for query in facts["index"]["queries"]] == [[0]]
    assert facts["abort"] is False


def test_a_client_batch_is_one_record_per_element_or_one_on_a_batch_topic(
    store_tool: StoreTool, tmp_path: Path
) -> None:
    batch = [{"bodyHex": "01", "keys": "a"}, {"bodyHex": "02"}, {"bodyHex": "03"}]
    topics = [{"name": "plain"}, {"name": "inner", "attributes": {"queue.type": "BatchCQ"}}]
    puts = store_tool.write(tmp_path, [{"topic": name, "batch": batch} for name in ("plain", "inner")], topics=topics)
    facts = store_tool.read(tmp_path)

    assert [put["count"] for put in puts] == [3, 3]
    assert [record["topic"] for record in facts["commitLog"]["records"]] == ["plain"] * 3 + ["inner"]
    assert [unit[3:] for unit in facts["consumeQueues"]["inner"]["0"]["units"]] == [[0, 3]]
    assert facts["consumeQueues"]["plain"]["0"]["maxOffset"] == 3


def test_a_delayed_message_waits_in_the_queue_of_its_level(store_tool: StoreTool, tmp_path: Path) -> None:
    [put] = store_tool.write(tmp_path, [{"topic": "orders", "queueId": 1, "delayLevel": 3}])
    facts = store_tool.read(tmp_path)

    [record] = facts["commitLog"]["records"]
    assert record["properties"] == {"DELAY": "3", "REAL_TOPIC": "orders", "REAL_QID": "1"}
    [[_, _, due]] = facts["consumeQueues"]["SCHEDULE_TOPIC_XXXX"]["2"]["units"]
    assert due == put["storeTimestamp"] + 10_000


def test_a_message_is_filed_under_its_light_queues_too(store_tool: StoreTool, tmp_path: Path) -> None:
    config = {**SMALL, "enableLmq": True, "enableMultiDispatch": True}
    message = {"topic": "orders", "bodyHex": "05", "properties": {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b"}}
    store_tool.write(tmp_path, [message, message], config=config)
    queues = store_tool.read(tmp_path, config=config)["consumeQueues"]

    assert {topic: queue["0"]["maxOffset"] for topic, queue in queues.items()} == {
        "orders": 2,
        "%LMQ%a": 2,
        "%LMQ%b": 2,
    }
    assert [pulled["topic"] for pulled in queues["%LMQ%a"]["0"]["messages"]] == ["orders", "orders"]


@pytest.mark.parametrize("dispatch", [True, False])
def test_rocketmq_recovers_what_it_wrote_before_a_crash(store_tool: StoreTool, tmp_path: Path, dispatch: bool) -> None:
    messages = [{"topic": "orders", "queueId": n % 4, "bodyHex": "aa" * 500, "keys": f"k{n}"} for n in range(300)]
    store_tool.write(tmp_path, messages, crash=True, dispatch=dispatch)
    assert (tmp_path / "abort").exists()
    facts = store_tool.read(tmp_path, queries=[{"topic": "orders", "key": "k299"}])

    assert facts["abort"] is True
    assert len(facts["commitLog"]["records"]) == 300
    assert sum(len(queue["messages"]) for queue in facts["consumeQueues"]["orders"].values()) == 300
    assert not (tmp_path / "abort").exists()


def test_a_put_that_rocketmq_refuses_says_why(store_tool: StoreTool, tmp_path: Path) -> None:
    config = {**SMALL, "maxMessageSize": 1000}
    fits, refused = store_tool.write(
        tmp_path, [{"topic": "t", "bodyHex": "00" * size} for size in (900, 1001)], config=config
    )
    assert (fits["status"], refused["status"]) == ("PUT_OK", "MESSAGE_ILLEGAL")


def test_a_store_that_rocketmq_cannot_load_is_an_error(store_tool: StoreTool, tmp_path: Path) -> None:
    store_tool.write(tmp_path, [{"topic": "t"}])
    with pytest.raises(StoreToolError, match="could not load"):
        store_tool.read(tmp_path, config={**SMALL, "mappedFileSizeCommitLog": 32768})


def observed(expected: dict[str, Any], tool: StoreTool, store: Path) -> dict[str, Any]:
    """Read the store and ask all that the expected file has answers to; put the answers where it has them."""
    times = [
        {"topic": topic, "queueId": int(queue), "timestamp": answer["timestamp"]}
        for topic, queues in expected["consumeQueues"].items()
        for queue, facts in queues.items()
        for answer in facts.get("offsetByTime", ())
    ]
    found = tool.read(store, config=expected["brokerConf"], queries=expected["index"]["queries"], times=times)
    for queues in found["consumeQueues"].values():
        for facts in queues.values():
            del facts["messages"]
    for answer in found.pop("offsetByTime"):
        queue = found["consumeQueues"][answer.pop("topic")][str(answer.pop("queueId"))]
        queue.setdefault("offsetByTime", []).append(answer)
    return found


@pytest.mark.parametrize("name", OPENED)
def test_a_golden_store_reads_as_it_did_when_it_was_made(store_tool: StoreTool, golden: Golden, name: str) -> None:
    expected = golden.expected(name)
    for queue in (queue for queues in expected["consumeQueues"].values() for queue in queues.values()):
        for answer in queue.get("offsetByTime", ()):
            answer["upper"] = max(answer["upper"], 0)  # a batch queue alone says -1, its store 0
    found = observed(expected, store_tool, golden.store(name))
    assert found == {part: expected[part] for part in found}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_golden_store_is_recovered_as_it_was(store_tool: StoreTool, golden: Golden, name: str) -> None:
    before, after = golden.expected(name), golden.expected(f"{name}.recovered")
    found = observed(after, store_tool, golden.store(name))
    assert found["abort"] is before["abort"] is True
    assert found["checkpoint"] == before["checkpoint"]
    assert found["commitLog"] == after["commitLog"]
    assert found["consumeQueues"] == after["consumeQueues"]
