"""Things that tests need, with defaults for all that does not matter to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embermq import Message, Store, open_store
from embermq.log.placed import Placed

SMALL_SIZES: dict[str, Any] = {
    "log_file_size": 65_536,
    "queue_file_size": 2_000,
    "index_slots": 50,
    "index_entries": 200,
    "batch_queue_file_size": 920,
    "extended_queue_file_size": 1_024,
}


class ManualClock:
    """A clock that a test moves."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return time.monotonic()  # waits and intervals stay real

    def advance(self, *, ms: int = 0, hours: float = 0) -> None:
        self.time_ms += ms + int(hours * 3_600_000)


def a_message(topic: str = "orders", body: bytes = b"hello", **fields: Any) -> Message:
    return Message(topic, body, **fields)


def some_messages(count: int, *, topic: str = "orders", size: int = 100) -> list[Message]:
    """Messages with different bodies, tags and keys."""
    return [
        Message(
            topic,
            (b"%d-" % number).ljust(size, b"."),
            tags=f"tag{number % 3}",
            keys=[f"key-{number}"],
            properties={"number": str(number)},
        )
        for number in range(count)
    ]


def a_placed(offset: int = 0, position: int = 0, **fields: Any) -> Placed:
    values: dict[str, Any] = {
        "topic": "orders",
        "queue": 0,
        "offset": offset,
        "position": position,
        "size": 100,
        "tags_code": 0,
        "store_time": 1_700_000_000_000,
        "sys_flag": 0,
        "properties": b"",
    }
    return Placed(**{**values, **fields})


def a_store(path: Path, **settings: Any) -> Store:
    """A store with small files and without a flush that a test would wait for."""
    return open_store(path, **{**SMALL_SIZES, "durability": "async", "reserve_bytes": 0, **settings})


def read_all(store: Store) -> dict[tuple[str, int], list[bytes]]:
    """The bodies of every queue, in order."""
    found: dict[tuple[str, int], list[bytes]] = {}
    for topic in store.topics():
        for queue in store.queues(topic):
            begin, end = store.offsets(topic, queue=queue)
            bodies: list[bytes] = []
            while begin < end:
                batch = store.get(topic, queue=queue, offset=begin, limit=1000)
                assert batch.next_offset > begin, f"{topic}/{queue} stands still at {begin}: {batch.status}"
                bodies += [message.body for message in batch]
                begin = batch.next_offset
            found[topic, queue] = bodies
    return found


def wait_until(
    condition: Callable[[], object], *, seconds: float = 10.0, show: Callable[[], object] = lambda: ""
) -> None:
    """Return as soon as `condition` holds; fail when it does not in time, with what `show` has to say."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so after {seconds} s {show()}"
        time.sleep(0.005)
