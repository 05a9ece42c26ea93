"""Every store that RocketMQ wrote is opened by us, and what we read equals what RocketMQ read.

The crashed and torn ones must recover to what RocketMQ recovered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embermq import Store, StoredMessage, open_store
from embermq.model.message import time_of
from embermq.store.opening import Begin
from tests.conftest import GOLDEN, Golden

NAMES = sorted(path.name.removesuffix(".tar.xz") for path in (GOLDEN / "stores").glob("*.tar.xz"))
DAMAGED = [name for name in NAMES if name == "crashed" or name.startswith("torn-")]


EMPTY: dict[str, Any] = {"topicConfigTable": {}}  # of rocksdb-cq, which keeps its tables elsewhere


class Opened:
    """A golden store, opened by us, and what RocketMQ says of it."""

    def __init__(self, name: str, path: Path, golden: Golden) -> None:
        self.name = name
        self.expected = golden.expected(f"{name}.recovered" if name in DAMAGED else name)
        self.store = open_golden(path)


def open_golden(path: Path) -> Store:
    return open_store(path, durability="async", reserve_bytes=0, retention_hours=10**6)


@pytest.fixture(scope="module", params=NAMES)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    name, golden = request.param, Golden(tmp_path_factory.mktemp("golden"))
    opened = Opened(name, golden.store(name), golden)
    yield opened
    opened.store.close()


def queues_of(expected: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for topic, queues in expected["consumeQueues"].items():
        for queue, facts in queues.items():
            yield topic, int(queue), facts


def read_queue(store: Store, topic: str, queue: int) -> list[StoredMessage]:
    offset, end = store.offsets(topic, queue=queue)
    messages: list[StoredMessage] = []
    while offset < end:
        batch = store.get(topic, queue=queue, offset=offset, limit=100)
        messages += batch
        offset = batch.next_offset
    return messages


def check_message(message: StoredMessage, facts: dict[str, Any]) -> None:
    properties = dict(message.properties)
    if message.tags:
        properties["TAGS"] = message.tags
    wanted = dict(facts["properties"])
    keys = wanted.pop("KEYS", "")
    assert message.keys == tuple(key for key in keys.split(" ") if key)
    assert properties == wanted
    assert message.position == facts["physicalOffset"]
    assert message.size == facts["totalSize"]
    assert (message.topic, message.queue, message.offset) == (facts["topic"], facts["queueId"], facts["queueOffset"])
    assert message.born_time == time_of(facts["bornTimestamp"])
    assert message.store_time == time_of(facts["storeTimestamp"])
    assert (message.flag, message.sys_flag) == (facts["flag"], facts["sysFlag"])
    assert message.reconsume_times == facts["reconsumeTimes"]
    assert message.message_id == facts["msgId"]
    assert len(message.body) == facts["bodySize"]
    if "bodyHex" in facts:
        assert message.body.hex() == facts["bodyHex"].lower()
    else:
        assert hashlib.sha256(message.body).hexdigest() == facts["bodySha256"].lower()


def test_every_record_reads_as_rocketmq_reads_it(opened: Opened) -> None:
    records = opened.expected["commitLog"]["records"]
    assert records
    for facts in records:
        message = opened.store.find(facts["msgId"])
        assert message is not None
        check_message(message, facts)


def test_the_log_begins_and_ends_where_rocketmq_says(opened: Opened) -> None:
    state = opened.store.state()
    log = opened.expected["commitLog"]
    assert state.log_written == log["endOfRecords"]
    assert state.log_begin == log.get("minOffset", 0)
    assert state.dispatch_behind == 0


def test_every_queue_holds_what_rocketmq_says(opened: Opened) -> None:
    for topic, queue, facts in queues_of(opened.expected):
        low, high = opened.store.offsets(topic, queue=queue)
        assert high == facts["maxOffset"]
        assert low == max(facts["minOffset"], 0)
        found = [(message.position, message.size) for message in read_queue(opened.store, topic, queue)]
        assert found == [(unit[0], unit[1]) for unit in facts["units"]]


def test_time_searches_answer_as_rocketmq_answers(opened: Opened) -> None:
    for topic, queue, facts in queues_of(opened.expected):
        for answer in facts.get("offsetByTime", []):
            time = time_of(answer["timestamp"])
            lower = opened.store.find_offset(topic, queue=queue, time=time)
            upper = opened.store.find_offset(topic, queue=queue, time=time, upper=True)
            assert lower == answer["lower"], (topic, queue, answer)
            if answer["upper"] != -1:  # a defect of its batch queues, which knows no better
                assert upper == answer["upper"], (topic, queue, answer)


def test_every_key_finds_its_messages_and_no_other(opened: Opened) -> None:
    records = {facts["physicalOffset"]: facts for facts in opened.expected["commitLog"]["records"]}
    for query in opened.expected.get("index", {}).get("queries", []):
        topic, key = query["topic"], query["key"]
        since = time_of(query["begin"]) if query["begin"] else None
        until = time_of(query["end"]) if query["end"] < 10**14 else None
        found = opened.store.query(topic, key, since=since, until=until, limit=query["maxNum"])
        positions = [message.position for message in found]
        # RocketMQ lists a message with two keys of one hash twice, and one with another key of that hash wrongly.
        wanted = {position for position in query["physicalOffsets"] if has_key(records[position], topic, key)}
        if len(query["physicalOffsets"]) < query["maxNum"]:
            assert positions == sorted(wanted), query
        else:  # what is wrong or double there took places that belong to older messages
            assert wanted <= set(positions), query
            assert len(positions) <= query["maxNum"]
            assert all(has_key(records[position], topic, key) for position in positions)


def has_key(facts: dict[str, Any], topic: str, key: str) -> bool:
    properties = facts["properties"]
    return facts["topic"] == topic and (
        key in properties.get("KEYS", "").split(" ") or key == properties.get("UNIQ_KEY")
    )


def test_every_topic_has_the_settings_rocketmq_wrote(opened: Opened) -> None:
    for name, facts in opened.expected["config"].get("topics.json", EMPTY)["topicConfigTable"].items():
        config = opened.store.find_topic(name)
        assert config is not None
        assert (config.read_queues, config.write_queues) == (facts["readQueueNums"], facts["writeQueueNums"])
        assert (config.permission, config.order) == (facts["perm"], facts["order"])


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_recovered_once_and_then_the_store_is_clean(name: str, golden: Golden) -> None:
    path = golden.store(name)
    with open_golden(path) as store:
        first = store.state()
        assert not first.recovered.clean
    with open_golden(path) as store:
        second = store.state()
    assert second.recovered.clean
    assert second.recovered.reason is Begin.CHECKPOINT
    assert (second.log_written, second.queues, second.index_entries) == (
        first.log_written,
        first.queues,
        first.index_entries,
    )
    assert second.recovered.scan.records == 0


@pytest.mark.parametrize("name", [name for name in NAMES if name not in DAMAGED])
def test_opening_and_closing_changes_no_byte_of_log_queues_and_index(name: str, golden: Golden) -> None:
    path = golden.store(name)
    before = derived(path)
    with open_golden(path):
        pass
    after = derived(path)
    if name == "rocksdb-cq":  # its queues are no files; ours are added
        after = {file: data for file, data in after.items() if file in before}
    assert after == before


def derived(path: Path) -> dict[str, bytes]:
    folders = ("commitlog", "consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
    return {
        str(file.relative_to(path)): file.read_bytes()
        for folder in folders
        for file in (path / folder).rglob("*")
        if file.is_file()
    }
