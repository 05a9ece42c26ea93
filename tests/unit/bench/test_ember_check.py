"""What a bench demands of EmberMQ's store after a run."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.servers.ember import check_store, read_counts
from bench.servers.server import PeerError, Server
from embermq.model.topic import TopicConfig
from tests.builders import a_store, some_messages

MESSAGES = 12


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """One that ended, and left a store with MESSAGES messages."""
    with a_store(tmp_path / "data") as store:
        store.put_many(some_messages(MESSAGES, topic="bench"))
    with subprocess.Popen(["true"]) as process:
        process.wait()
        yield Server("rocketmq", 0, process, tmp_path, lambda name, queues: None)


def test_a_store_that_holds_what_was_acknowledged_passes(server: Server) -> None:
    server.stored["bench"] = MESSAGES
    check_store(server)
    assert server.notes["verified"] == MESSAGES


@pytest.mark.parametrize("acknowledged", [MESSAGES - 1, MESSAGES + 1])
def test_one_message_too_many_or_too_few_fails(server: Server, acknowledged: int) -> None:
    server.stored["bench"] = acknowledged
    with pytest.raises(PeerError, match=f"{acknowledged} messages were acknowledged and {MESSAGES} are stored"):
        check_store(server)


def test_a_refused_message_may_be_stored_or_not(server: Server) -> None:
    server.stored["bench"], server.refused = MESSAGES - 1, 1
    check_store(server)
    assert server.notes["verified"] == MESSAGES


def test_a_damaged_record_fails(server: Server) -> None:
    server.stored["bench"] = MESSAGES
    log = min((server.folder / "data" / "commitlog").iterdir())
    with log.open("r+b") as file:
        file.seek(95)  # within the body of the first record
        byte = file.read(1)
        file.seek(95)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(PeerError, match="verify"):
        check_store(server)


def test_topics_with_numbers_count_as_one(tmp_path: Path) -> None:
    with a_store(tmp_path / "data") as store:
        for topic in ("bench0000", "bench0999", "other"):
            store.save_topic(TopicConfig(topic, read_queues=2, write_queues=2))
            store.put_many(some_messages(MESSAGES, topic=topic))
    assert read_counts(tmp_path / "data") == {"bench": 2 * MESSAGES, "other": MESSAGES}
