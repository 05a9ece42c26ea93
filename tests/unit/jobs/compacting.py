"""How tests of compactions make stores, and look at what was made."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from embermq import Message
from embermq.compaction.compacted_queue import CompactedQueue, Sizes
from embermq.format.compacted import keys_of
from embermq.format.record import decode_record
from embermq.jobs.compact import Compacted, compact
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.model.topic import TopicConfig
from embermq.store.settings import StoreSettings
from embermq.store.store import Store
from tests.builders import a_store
from tests.unit.jobs.rebuilding import SIZES

TABLE = TopicConfig("table", read_queues=2, write_queues=2, attributes={"cleanup.policy": "COMPACTION"})
SMALL = Sizes.of(5_000, 920)
Content = dict[int, dict[int, tuple[str, bytes]]]  # keys and body by queue and offset


def a_table_store(path: Path, count: int = 400, *, seed: int = 1) -> None:
    """A store with a compacted topic and others, written in turn; some messages have no body."""
    with a_store(path) as store:
        store.save_topic(TABLE)
        fill(store, count, seed=seed)


def fill(store: Store, count: int, *, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(count):
        if chance.random() < 0.3:
            store.put(Message("clicks", b"click", keys=["k1"]))
        keys = [f"k{chance.randrange(40)}", *(["more"] if chance.random() < 0.1 else [])]
        body = b"" if chance.random() < 0.2 else b"%d" % number + b"." * chance.randrange(90)
        store.put(
            Message("table", body, keys=keys, tags=chance.choice(["red", "blue", None])), queue=chance.randrange(2)
        )


def all_messages(path: Path) -> Content:
    """Every message of the topic that the store still shows, by queue and offset."""
    found: Content = {}
    with a_store(path) as store:
        for queue in store.queues("table"):
            offset, end = store.offsets("table", queue=queue)
            found[queue] = {}
            while offset < end:
                for message in store.get("table", queue=queue, offset=offset, limit=32):
                    found[queue][message.offset] = (" ".join(message.keys), message.body)
                    offset = message.offset + 1
    return found


def newest_of(messages: Content) -> Content:
    """What is to stay, worked out with a dict for each queue."""
    kept: Content = {}
    for queue, by_offset in messages.items():
        last: dict[str, int] = {}
        for offset in sorted(by_offset):
            last[by_offset[offset][0]] = offset
        end = max(by_offset)
        kept[queue] = {at: by_offset[at] for at in sorted(last.values()) if by_offset[at][1] or at == end}
    return kept


def compacted(path: Path, out: Path, *, workers: int = 2, **options: Any) -> Compacted:
    given = {"range_size": 9_000, "sizes": SMALL, "settings": StoreSettings(**SIZES), **options}
    return compact(path, out, runner=LocalRunner(workers), progress=Progress("compact"), **given)


def read_compacted(root: Path, topic: str = "table") -> Content:
    """What a broker gives out of the compacted files, queue by queue, a few messages at a time."""
    found: Content = {}
    for folder in sorted((root / "compaction" / "compactionLog" / topic).iterdir()):
        queue = CompactedQueue(folder, root / "compaction" / "compactionCq" / topic / folder.name, SMALL)
        queue.load()
        messages = found[int(folder.name)] = {}
        offset = queue.min_offset
        while offset < queue.max_offset:
            batch = queue.read(offset, limit=7, max_bytes=100_000)
            for part in batch.parts:
                position = int.from_bytes(part[28:36], "big")
                record = decode_record(part, position)
                messages[record.offset] = (keys_of(record), record.body)
            offset = batch.next_offset
        queue.close()
    return found
