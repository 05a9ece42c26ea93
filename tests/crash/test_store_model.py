"""A store and a plain list of what was put do the same things in any order, crashes included.

A crash is a copy of the directory of the open store: what a killed process leaves.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from embermq import Message, Receipt, Store, StoredMessage, open_store
from embermq.errors import TopicNotFound
from embermq.model.message import time_of
from embermq.store.reading import ReadStatus
from tests.builders import ManualClock, a_store
from tests.crash.conftest import MEMORY

TOPICS = ["orders", "bills"]
KEYS = ["a", "b", "c"]
QUEUES = 2
RETENTION_MS = 3_600_000
SETTINGS: dict[str, Any] = {
    "log_file_size": 8_192,
    "queue_file_size": 200,  # ten entries
    "index_slots": 5,
    "index_entries": 20,
    "default_queues": QUEUES,
    "reserve_bytes": 0,
    "retention_hours": 1,
    "delete_when": "",
    "delete_pause_ms": 0,
}

messages = st.builds(
    Message,
    st.sampled_from(TOPICS),
    st.binary(max_size=20) | st.integers(0, 3_000).map(bytes),
    tags=st.sampled_from([None, "red", "green"]),
    keys=st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
    queue=st.sampled_from([None, *range(QUEUES)]),
)
topics = st.sampled_from(TOPICS)
queues = st.integers(0, QUEUES - 1)


@dataclass(frozen=True, slots=True)
class Put:
    """One message that was put."""

    message: Message
    receipt: Receipt


class StoreMachine(RuleBasedStateMachine):
    durability: ClassVar[str] = "async"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="embermq-", dir=MEMORY if MEMORY.is_dir() else None))
        self.clock = ManualClock()
        self.lives = 0
        self.log: list[Put] = []  # all that has not expired, in the order of the log
        self.queues: dict[tuple[str, int], list[Put]] = defaultdict(list)
        self.next_offsets: dict[tuple[str, int], int] = defaultdict(int)
        self.last_time = 0
        self.was_deleted = False

    @initialize()
    def begin(self) -> None:
        self.open(self.folder / "0")

    def open(self, path: Path) -> None:
        self.store: Store = open_store(path, clock=self.clock, durability=self.durability, **SETTINGS)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(message=messages)
    def put(self, message: Message) -> None:
        self.take([message], [self.store.put(message)])

    @rule(batch=st.lists(messages, max_size=12))
    def put_many(self, batch: list[Message]) -> None:
        self.take(batch, self.store.put_many(batch))

    def take(self, batch: list[Message], receipts: list[Receipt]) -> None:
        assert len(batch) == len(receipts)
        for message, receipt in zip(batch, receipts, strict=True):
            key = (message.topic, receipt.queue)
            assert receipt.topic == message.topic and message.queue in (None, receipt.queue)
            assert receipt.offset == self.next_offsets[key]
            assert receipt.store_time_ms == max(self.clock.now_ms(), self.last_time)
            assert not self.log or receipt.position > self.log[-1].receipt.position
            self.last_time = receipt.store_time_ms
            self.next_offsets[key] += 1
            put = Put(message, receipt)
            self.queues[key].append(put)
            self.log.append(put)

    @rule(ms=st.integers(-10_000, 3 * RETENTION_MS))
    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms=ms)

    @rule(topic=topics, queue=queues, offset=st.integers(0, 60), limit=st.integers(1, 40), size=st.integers(0, 9_000))
    def get(self, topic: str, queue: int, offset: int, limit: int, size: int) -> None:
        batch = self.store.get(topic, queue=queue, offset=offset, limit=limit, max_bytes=size)
        expected = [put for put in self.queues[topic, queue] if put.receipt.offset >= offset][:limit]
        if not self.low(topic, queue) <= offset < self.next_offsets[topic, queue]:
            assert not batch.messages and batch.status is not ReadStatus.FOUND
            return
        assert batch.status is ReadStatus.FOUND and 1 <= len(batch) <= len(expected)
        assert batch.next_offset == offset + len(batch)
        for found, put in zip(batch, expected, strict=False):
            assert_same(found, put)
        sizes = [message.size for message in batch]
        assert len(sizes) == 1 or sum(sizes) <= size
        assert len(batch) == len(expected) or sum(sizes) + len(expected[len(batch)].message.body) + 91 > size - 100

    @rule(topic=topics, key=st.sampled_from(KEYS), limit=st.integers(1, 40))
    def query(self, topic: str, key: str, limit: int) -> None:
        # What was put into a topic before it was deleted is found until its log files expire.
        expected = [put for put in self.log if put.message.topic == topic and key in put.message.keys][-limit:]
        found = self.store.query(topic, key, limit=limit)
        assert [message.position for message in found] == [put.receipt.position for put in expected]
        for message, put in zip(found, expected, strict=True):
            assert_same(message, put)

    @rule(topic=topics, queue=queues, back_ms=st.integers(-10, 2 * RETENTION_MS), upper=st.booleans())
    def find_offset(self, topic: str, queue: int, back_ms: int, upper: bool) -> None:
        held = self.queues[topic, queue]
        if not held:
            return
        time_ms = self.clock.now_ms() - back_ms
        found = self.store.find_offset(topic, queue=queue, time=time_of(time_ms), upper=upper)
        if upper:
            early = [put.receipt.offset for put in held if put.receipt.store_time_ms <= time_ms]
            assert found == (early[-1] if early else held[0].receipt.offset)
        else:
            late = [put.receipt.offset for put in held if put.receipt.store_time_ms >= time_ms]
            assert found == (late[0] if late else self.next_offsets[topic, queue])

    @rule(topic=topics)
    def delete_topic(self, topic: str) -> None:
        try:
            self.store.delete_topic(topic)
        except TopicNotFound:
            assert topic not in self.store.topics()
            return
        self.was_deleted = True
        for queue in range(QUEUES):
            self.queues.pop((topic, queue), None)
            self.next_offsets.pop((topic, queue), None)

    @precondition(lambda self: self.log)
    @rule()
    def clean(self) -> None:
        self.store.clean()
        begin = self.store.state().log_begin
        gone = [put for put in self.log if put.receipt.position < begin]
        assert all(put.receipt.store_time_ms + RETENTION_MS <= self.clock.now_ms() for put in gone)
        self.log = self.log[len(gone) :]
        for key, held in self.queues.items():
            self.queues[key] = [put for put in held if put.receipt.position >= begin]

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open(self.store.path)
        assert self.store.state().recovered.clean
        assert self.store.state().recovered.scan.records == 0
        self.compare_all()

    @rule()
    def crash(self) -> None:
        self.open(self.die())
        assert not self.store.state().recovered.clean
        self.compare_all()

    @precondition(lambda self: not self.was_deleted)  # what is deleted comes back when queues are made again
    @rule(lost=st.sampled_from(["consumequeue", "index", "checkpoint", "consumequeue/orders/0"]))
    def crash_and_lose(self, lost: str) -> None:
        path = self.die()
        if not (path / lost).exists():
            self.open(path)
            return
        shutil.rmtree(path / lost) if (path / lost).is_dir() else (path / lost).unlink()
        self.open(path)
        for (topic, queue), held in list(self.queues.items()):
            if not held and lost in ("consumequeue", f"consumequeue/{topic}/{queue}"):
                # All of its messages have expired, so that nothing in the log tells its next offset.
                self.next_offsets[topic, queue] = 0
        self.compare_all()

    def die(self) -> Path:
        """A copy of what is on disk now; the process that owned it is gone."""
        self.lives += 1
        path = self.folder / str(self.lives)
        shutil.copytree(self.store.path, path)
        self.store.close()
        shutil.rmtree(self.store.path)
        return path

    def low(self, topic: str, queue: int) -> int:
        held = self.queues[topic, queue]
        return held[0].receipt.offset if held else self.next_offsets[topic, queue]

    def compare_all(self) -> None:
        for (topic, queue), held in list(self.queues.items()):
            found: list[StoredMessage] = []
            offset, end = self.store.offsets(topic, queue=queue)
            while offset < end:
                batch = self.store.get(topic, queue=queue, offset=offset)
                assert batch.next_offset > offset
                found += batch.messages
                offset = batch.next_offset
            assert len(found) == len(held)
            for message, put in zip(found, held, strict=True):
                assert_same(message, put)
        for topic in TOPICS:
            for key in KEYS:
                self.query_all(topic, key)

    def query_all(self, topic: str, key: str) -> None:
        expected = [put for put in self.log if put.message.topic == topic and key in put.message.keys]
        found = self.store.query(topic, key, limit=10_000)
        assert [message.position for message in found] == [put.receipt.position for put in expected]

    @invariant()
    def every_queue_has_the_offsets_of_the_model(self) -> None:
        for topic in TOPICS:
            for queue in range(QUEUES):
                end = self.next_offsets[topic, queue]
                assert self.store.offsets(topic, queue=queue) == (self.low(topic, queue) if end else 0, end)


def assert_same(found: StoredMessage, put: Put) -> None:
    sent, receipt = put.message, put.receipt
    assert (found.topic, found.body, found.tags, list(found.keys)) == (sent.topic, sent.body, sent.tags, sent.keys)
    assert (found.queue, found.offset, found.position) == (receipt.queue, receipt.offset, receipt.position)
    assert (found.store_time_ms, found.message_id) == (receipt.store_time_ms, receipt.message_id)


class SyncMachine(StoreMachine):
    durability = "sync"


_EXAMPLES = settings.default.max_examples if settings.default else 100
TestAsync = StoreMachine.TestCase
TestAsync.settings = settings(max_examples=_EXAMPLES * 3 // 5, stateful_step_count=40)
TestSync = SyncMachine.TestCase
TestSync.settings = settings(max_examples=_EXAMPLES * 3 // 10, stateful_step_count=40)


def test_cleaning_a_store_without_a_log_does_nothing(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        assert store.clean() == 0


def test_queues_are_made_again_when_a_topic_was_deleted_and_used_again(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put_many([Message("orders", b"old", queue=0)] * 3)
        store.delete_topic("orders")
        store.put_many([Message("orders", b"new", queue=0)] * 2)
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    with a_store(tmp_path / "store") as store:
        assert [message.body for message in store.get("orders", queue=0, offset=0)] == [b"new", b"new"]


def test_a_deleted_topic_does_not_come_back_when_queues_are_made_again(tmp_path: Path) -> None:
    with a_store(tmp_path / "store") as store:
        store.put(Message("orders", b"old", queue=0))
        store.put(Message("bills", b"kept", queue=0))
        store.delete_topic("orders")
    shutil.rmtree(tmp_path / "store" / "consumequeue")
    with a_store(tmp_path / "store") as store:
        assert store.offsets("bills", queue=0) == (0, 1)
        assert store.offsets("orders", queue=0) == (0, 0)
