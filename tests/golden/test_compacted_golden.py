"""RocketMQ's compacted topic: its files are read, and made again byte for byte from their records."""

from __future__ import annotations

from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.client.incoming import decode_messages
from embermq.format.compacted import (
    FilePair,
    compacted_log_size,
    compacted_queue_size,
    decode_compacted_positions,
    encode_compacted_positions,
    is_kept,
    iter_compacted_entries,
    keys_of,
    moved,
)
from embermq.format.record import decode_record
from embermq.model.message import StoredMessage
from tests.conftest import Golden
from tests.unit.broker.brokers import Client, with_broker

QUEUES = ("CompactTopic/0", "CompactTopic/1")


@pytest.mark.parametrize("queue", QUEUES)
def test_files_are_made_again_from_their_records(golden: Golden, queue: str) -> None:
    folder = golden.store("compaction") / "compaction"
    for path in sorted((folder / "compactionLog" / queue).iterdir()):
        log, entries = path.read_bytes(), (folder / "compactionCq" / queue / path.name).read_bytes()
        pair = FilePair(int(path.name), len(log), len(entries))
        for entry in iter_compacted_entries(entries):
            record = log[entry.position - pair.start :][: entry.size]
            assert pair.has_room(entry.size)
            pair.add(moved(record, 12345))  # as it came from elsewhere
        assert pair.records
        assert b"".join(pair.log_parts(is_closed=False)).ljust(len(log), b"\0") == log
        assert b"".join(pair.queue_parts(is_closed=False)).ljust(len(entries), b"\0") == entries


def test_sizes_are_rocketmqs(golden: Golden) -> None:
    assert compacted_queue_size(4600) == 4600
    assert compacted_log_size(32_768, 4600) == 32_200
    assert compacted_queue_size(10 << 20) == 10_485_746
    assert compacted_log_size(100 << 20, 10_485_746) == 104_857_460


def test_positions_are_read_and_written(golden: Golden) -> None:
    data = (golden.store("compaction") / "compaction" / "position-checkpoint").read_bytes()
    positions = decode_compacted_positions(data)
    assert positions == golden.expected("compaction")["compaction"]["position"]["queueOffsetMap"]
    assert encode_compacted_positions(positions) == data


@pytest.mark.parametrize("queue", QUEUES)
def test_what_rocketmq_kept_is_what_is_kept(golden: Golden, queue: str) -> None:
    """From all messages of the log, as far as it was compacted, the rule leaves what RocketMQ left."""
    store, expected = golden.store("compaction"), golden.expected("compaction")
    last = expected["compaction"]["position"]["queueOffsetMap"][queue.replace("/", "_")]
    topic, number = queue.split("/")
    sent = [
        record
        for record in expected["commitLog"]["records"]
        if (record["topic"], record["queueId"]) == (topic, int(number)) and record["queueOffset"] <= last
    ]
    newest = {record["properties"]["KEYS"]: record["queueOffset"] for record in sent}
    kept = [
        record["queueOffset"]
        for record in sent
        if is_kept(
            record["queueOffset"],
            newest[record["properties"]["KEYS"]],
            has_body=record["bodySize"] > 0,
            last_offset=last,
        )
    ]
    first = store / "compaction" / "compactionLog" / queue / ("0" * 20)
    assert kept == found_offsets(first)


def found_offsets(path: Path) -> list[int]:
    data, at, found = path.read_bytes(), 0, []
    while size := int.from_bytes(data[at : at + 4], "big"):
        record = decode_record(data[at : at + size], at)
        assert keys_of(record)
        found.append(record.offset)
        at += size
    return found


@pytest.mark.parametrize("queue", [0, 1])
def test_a_compacted_topic_of_rocketmq_is_served_with_its_gaps_and_grows_on(golden: Golden, queue: int) -> None:
    store = golden.store("compaction")
    expected = golden.expected("compaction")["compaction"][f"CompactTopic/{queue}"]["records"]
    offsets = [record["queueOffset"] for record in expected]

    async def work(broker: Broker) -> None:
        client = Client(broker)
        found = await pulled(client, queue)
        assert [message.offset for message in found] == offsets
        assert [message.properties["KEYS"] for message in found] == [
            record["properties"]["KEYS"] for record in expected
        ]
        answer = await client.send("CompactTopic", b"more", queue=queue, KEYS="k1")
        assert answer.fields["queueOffset"] == str(offsets[-1] + 1)
        assert [message.offset for message in await pulled(client, queue)] == [*offsets, offsets[-1] + 1]

    sizes = {"log_file_size": 65_536, "queue_file_size": 2_000, "index_slots": 50, "index_entries": 200}
    with_broker(store, work, **sizes)


async def pulled(client: Client, queue: int) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    offset = 0
    while (answer := await client.pull("CompactTopic", offset, queue=queue)).code == 0:
        found += decode_messages(answer.data)
        offset = int(answer.fields["nextBeginOffset"])
    return found
