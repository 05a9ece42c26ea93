"""Compacted topics: the newest message of each key stays; consumers read over the gaps."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from embermq.broker.broker import Broker
from embermq.broker.settings import BrokerSettings
from embermq.client.incoming import decode_messages
from embermq.format.compacted import COMPACTING_FOLDER
from embermq.model.topic import TopicConfig
from tests.unit.broker.brokers import Client, until, with_broker

TOPIC = TopicConfig("table", read_queues=1, write_queues=1, attributes={"cleanup.policy": "COMPACTION"})
SETTINGS = BrokerSettings(compaction_file_size=5_000, compaction_queue_file_size=920)
KEYS = 5


async def read_all(client: Client, offset: int = 0) -> list[tuple[int, str]]:
    """Offsets and bodies, as a consumer that pulls from the beginning gets them."""
    found: list[tuple[int, str]] = []
    while True:
        answer = await client.pull("table", offset, maxMsgNums="7")
        if answer.code != 0:
            return found
        messages = decode_messages(answer.data)
        found += [(message.offset, message.body.decode()) for message in messages]
        offset = int(answer.fields["nextBeginOffset"])


async def fill(client: Client, begin: int, end: int) -> None:
    for number in range(begin, end):
        answer = await client.send("table", b"%d" % number, KEYS=f"k{number % KEYS}")
        assert answer.code == 0, answer.remark


def newest(end: int) -> dict[int, str]:
    """The last message of each key, of the messages before `end`."""
    return {number: str(number) for number in range(end - KEYS, end)}


def test_of_each_key_the_newest_stays(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        broker.topics.save(TOPIC)
        client = Client(broker)
        assert broker.compaction is not None
        await fill(client, 0, 100)
        assert await read_all(client) == [(number, str(number)) for number in range(100)]
        await broker.compaction.compact()
        kept = await read_all(client)
        assert len(kept) < 60
        assert newest(100).items() <= dict(kept).items()
        assert [offset for offset, _ in kept] == sorted(offset for offset, _ in kept)
        assert (await client.ask(31, {"topic": "table", "queueId": "0"})).fields["offset"] == str(kept[0][0])
        await fill(client, 100, 200)
        await broker.compaction.compact()
        assert newest(200).items() <= dict(await read_all(client)).items()
        assert len(await read_all(client)) < 60
        assert await read_all(client, offset=196) == [(number, str(number)) for number in range(196, 200)]

    with_broker(tmp_path / "store", work, settings=SETTINGS)


def test_a_compaction_reads_and_writes_no_faster_than_it_may(tmp_path: Path) -> None:
    rate = 100_000  # bytes a second

    async def work(broker: Broker) -> None:
        client = Client(broker)
        broker.topics.save(TOPIC)
        await fill(client, 0, 200)
        assert len(await read_all(client)) == 200
        assert broker.compaction is not None
        began = time.monotonic()
        await broker.compaction.compact()
        seconds = time.monotonic() - began
        compacted = broker.compaction.compacted
        records = compacted.dropped + 2 * compacted.kept  # those that are kept are read and written
        size = broker.store.state().log_written / 200
        assert compacted.dropped > 100
        assert seconds >= records * size / rate * 0.8

    with_broker(tmp_path / "store", work, settings=replace(SETTINGS, compaction_bytes_per_s=rate))


def test_what_was_kept_survives_a_restart_and_grows_on(tmp_path: Path) -> None:
    seen: list[list[tuple[int, str]]] = []

    async def before(broker: Broker) -> None:
        broker.topics.save(TOPIC)
        await fill(Client(broker), 0, 60)
        assert broker.compaction is not None
        await broker.compaction.compact()
        seen.append(await read_all(Client(broker)))

    async def after(broker: Broker) -> None:
        client = Client(broker)
        assert await read_all(client) == seen[0]
        await fill(client, 60, 64)
        assert await read_all(client) == seen[0] + [(number, str(number)) for number in range(60, 64)]

    with_broker(tmp_path / "store", before, settings=SETTINGS)
    with_broker(tmp_path / "store", after, settings=SETTINGS)


def test_a_message_without_keys_is_refused(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        broker.topics.save(TOPIC)
        answer = await Client(broker).send("table", b"x")
        assert answer.code == 13 and "with a key" in (answer.remark or "")

    with_broker(tmp_path / "store", work, settings=SETTINGS)


def test_a_pull_waits_for_a_message_and_tags_choose(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        broker.topics.save(TOPIC)
        client = Client(broker)
        await client.send("table", b"red", KEYS="a", TAGS="red")
        await client.send("table", b"blue", KEYS="b", TAGS="blue")
        answer = await client.pull("table", 0, subscription="blue")
        assert [message.body for message in decode_messages(answer.data)] == [b"blue"]
        await client.send("table", b"late", KEYS="c")
        assert await read_all(client, offset=2) == [(2, "late")]

    with_broker(tmp_path / "store", work, settings=SETTINGS)


def test_a_deleted_topic_leaves_nothing(tmp_path: Path) -> None:
    async def work(broker: Broker) -> None:
        broker.topics.save(TOPIC)
        await fill(Client(broker), 0, 5)
        folder = broker.store.path / "compaction" / "compactionLog" / "table"
        await until(folder.is_dir)
        broker.topics.delete("table")
        assert not folder.exists()

    with_broker(tmp_path / "store", work, settings=SETTINGS)


@pytest.mark.parametrize("moment", ["before the intent", "old renamed", "new moved", "intent gone"])
def test_a_crash_in_the_middle_of_a_swap_loses_nothing(tmp_path: Path, moment: str) -> None:
    """The steps of a swap, each as a crash behind it leaves the files."""
    path = tmp_path / "store"
    folders = [path / "compaction" / name / "table" / "0" for name in ("compactionLog", "compactionCq")]
    seen: list[list[tuple[int, str]]] = []

    async def before(broker: Broker) -> None:
        broker.topics.save(TOPIC)
        await fill(Client(broker), 0, 60)
        assert broker.compaction is not None
        compacted = broker.compaction.compacted
        await until(compacted.due)
        compacted.compact("table", 0, lambda size: None)
        seen.append(await read_all(Client(broker)))

    with_broker(path, before, settings=SETTINGS)
    new = {folder: folder / COMPACTING_FOLDER for folder in folders}
    old = sorted(each.name for each in folders[0].glob("[0-9]" * 20))[:-1]
    assert all(any(folder.iterdir()) for folder in new.values())
    if moment != "before the intent":
        (new[folders[0]] / "replace").write_text(str(old).replace("'", '"'))
        for folder in folders:
            for name in old:
                (folder / name).rename(folder / f"{name}.delete")
    if moment in ("new moved", "intent gone"):
        for folder in folders:
            for each in new[folder].glob("[0-9]" * 20):
                shutil.move(each, folder / each.name)
    if moment == "intent gone":
        (new[folders[0]] / "replace").unlink()

    async def after(broker: Broker) -> None:
        found = await read_all(Client(broker))
        assert newest(60).items() <= dict(found).items()
        assert set(found) <= set(seen[0])
        assert not any(each.suffix == ".delete" for folder in folders for each in folder.iterdir())
        assert not any(folder.exists() for folder in new.values())

    with_broker(path, after, settings=SETTINGS)
