"""A process is killed while it deletes a topic, or closes its store with a put on its way.

A crash is a copy of the directory, made right before a call that changes it.
"""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from embermq import Message
from embermq.errors import StoreClosed
from embermq.model.topic import TopicConfig
from tests.builders import ManualClock, a_store, read_all, some_messages
from tests.crash.damage import verify
from tests.crash.faults import CALLS, Call, Faults

COUNT = 60


def copies_while_deleting(folder: Path, topic: TopicConfig) -> list[Path]:
    """The directory before each call that deleting `topic` makes."""
    copies: list[Path] = []

    def copy(call: Call) -> object:
        copies.append(folder / f"{len(copies)} before {call.kind} {Path(call.path).name}")
        shutil.copytree(folder / "store", copies[-1])
        return call.proceed()

    with a_store(folder / "store") as store, Faults() as faults:
        store.save_topic(topic)
        store.put_many(some_messages(COUNT, topic=topic.name))
        store.put_many(some_messages(COUNT, topic="kept"))
        store.checkpoint()
        store.put_many(some_messages(COUNT, topic="kept"))
        for call in CALLS:
            faults.add(copy, call=call, path=str(folder / "store"))
        store.delete_topic(topic.name)
        faults.clear()
    return copies


def check_copies(copies: list[Path]) -> None:
    assert len(copies) > 10
    for copy in copies:
        print(copy.name)
        with a_store(copy) as store:
            found = read_all(store)
            assert sum(len(bodies) for (topic, _), bodies in found.items() if topic == "kept") == 2 * COUNT
            assert sum(len(bodies) for (topic, _), bodies in found.items() if topic == "gone") in (0, COUNT)
            store.put_many(some_messages(COUNT, topic="gone"))
            store.put_many(some_messages(COUNT, topic="kept"))
        assert verify(copy).sound


def test_a_topic_is_deleted_or_not_whenever_the_process_dies(memory_path: Path) -> None:
    check_copies(copies_while_deleting(memory_path, TopicConfig("gone")))


def test_a_topic_of_batches_is_deleted_or_not_whenever_the_process_dies(memory_path: Path) -> None:
    check_copies(copies_while_deleting(memory_path, TopicConfig("gone", attributes={"queue.type": "BatchCQ"})))


class PausingClock(ManualClock):
    """Holds up the thread named `late` where a put has begun and has not changed anything."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()

    def monotonic(self) -> float:
        if threading.current_thread().name == "late":
            self.has_begun.set()
            self.may_go_on.wait(10)
        return super().monotonic()


def test_a_put_that_comes_too_late_changes_nothing(tmp_path: Path) -> None:
    clock = PausingClock()
    store = a_store(tmp_path / "store", clock=clock, max_bytes=2 * 65_536, delete_pause_ms=0)
    for _ in range(4):
        store.put_many(some_messages(400))
    store.clean()
    assert store.state().log_begin > 0
    outcome: list[object] = []

    def put() -> None:
        try:
            outcome.append(store.put(Message("orders", b"late")))
        except Exception as error:
            outcome.append(error)

    late = threading.Thread(target=put, name="late")
    late.start()
    clock.has_begun.wait(10)
    store.close()
    clock.may_go_on.set()
    late.join()
    with a_store(tmp_path / "store") as again:
        assert again.state().recovered.clean
    assert isinstance(outcome[0], StoreClosed)
