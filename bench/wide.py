"""What very many queues cost: python3 dev.py bench wide

Light queues, a million of them unless told otherwise, in a RocksDB: messages that name some each are put, some queues
are read, and the store is closed and opened again. Then 50 000 ordinary queues in files, and in a RocksDB: each gets
messages in two rounds, and all are read. Shown are times, rates, what the process has in memory, open and mapped, and
what lies on the disk. Every read must give what was put.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embermq import Message, Store, open_store
from embermq.model.topic import TopicConfig

NAMES = 10  # light queues that a message names
READ = 10_000  # light queues that are read
BATCH = 1_000
PER_TOPIC = 1_000
BODY = bytes(100)


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--light", type=int, default=1_000_000, help="light queues; 0: none")
    parser.add_argument("--queues", type=int, default=50_000, help="ordinary queues; 0: none")
    parser.add_argument("--forms", default="files,rocksdb", help="of ordinary queues")
    parser.add_argument("--light-form", default="rocksdb", help="files or rocksdb")
    options = parser.parse_args()
    if options.light:
        with _folder() as folder:
            show(f"{_spaced(options.light)} light queues, {options.light_form}", measure_light(folder, options))
    for form in options.forms.split(",") if options.queues else ():
        with _folder() as folder:
            show(f"{_spaced(options.queues)} queues, {form}", measure_queues(folder, options.queues, form))
    return 0


def show(title: str, figures: dict[str, float]) -> None:
    print(title)
    for name, value in figures.items():
        print(f"    {name:<34}{_spaced(value, 1):>14}", flush=True)


def _spaced(value: float, digits: int = 0) -> str:
    return f"{value:,.{digits}f}".replace(",", " ")


def measure_light(folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Make so many light queues, read some of them, and open the store again."""
    settings = {"queue_store": options.light_form, "light_queues": True, "durability": "async"}
    count, before = options.light, memory()
    with open_store(folder, **settings) as store:
        began = time.perf_counter()
        for begin in range(0, count, NAMES * BATCH):
            names = [f"%LMQ%device-{number}" for number in range(begin, min(count, begin + NAMES * BATCH))]
            store.put_many(_naming(names[at : at + NAMES]) for at in range(0, len(names), NAMES))
        made = time.perf_counter() - began
        figures = {"made per s": count / made, "memory per queue, bytes": (memory() - before) / count}
        figures |= _read_light(store, count) | limits()
        began = time.perf_counter()
    figures["closing, s"] = time.perf_counter() - began
    began = time.perf_counter()
    with open_store(folder, **settings) as store:
        figures["opening, s"] = time.perf_counter() - began
        _read_light(store, count)
    return figures | {"disk per queue, bytes": disk(folder / "consumequeue") / count}


def measure_queues(folder: Path, count: int, form: str) -> dict[str, float]:
    """Make so many queues, append to each twice, read all of them, and open the store again."""
    topics = [f"wide-{number}" for number in range(-(-count // PER_TOPIC))]
    with open_store(folder, queue_store=form, durability="async") as store:
        store.save_topic(*(TopicConfig(topic, read_queues=PER_TOPIC, write_queues=PER_TOPIC) for topic in topics))
        before = memory()
        figures = {"first message of each, per s": count / _put_round(store, topics, count)}
        figures["second message of each, per s"] = count / _put_round(store, topics, count)
        figures["memory per queue, bytes"] = (memory() - before) / count
        figures["queues read per s"] = count / _read_all(store, topics, count, 2)
        figures |= limits()
        began = time.perf_counter()
        store.checkpoint()
        figures["checkpoint, s"] = time.perf_counter() - began
        began = time.perf_counter()
    figures["closing, s"] = time.perf_counter() - began
    began = time.perf_counter()
    with open_store(folder, queue_store=form, durability="async") as store:
        figures["opening, s"] = time.perf_counter() - began
        figures["reading all after it, per s"] = count / _read_all(store, topics, count, 2)
    return figures | {"disk per queue, bytes": disk(folder / "consumequeue") / count}


def _naming(names: list[str]) -> Message:
    return Message("devices", BODY, queue=0, properties={"INNER_MULTI_DISPATCH": ",".join(names)})


def _read_light(store: Store, count: int) -> dict[str, float]:
    chosen = random.Random(7).sample(range(count), min(count, READ))
    began = time.perf_counter()
    for number in chosen:
        (message,) = store.get(f"%LMQ%device-{number}", queue=0, offset=0)
        assert f"%LMQ%device-{number}" in message.properties["INNER_MULTI_DISPATCH"].split(",")
    return {"read per s": len(chosen) / (time.perf_counter() - began)}


def _put_round(store: Store, topics: list[str], count: int) -> float:
    began = time.perf_counter()
    for number, topic in enumerate(topics):
        store.put_many(Message(topic, BODY, queue=queue) for queue in range(min(PER_TOPIC, count - number * PER_TOPIC)))
    return time.perf_counter() - began


def _read_all(store: Store, topics: list[str], count: int, expected: int) -> float:
    began = time.perf_counter()
    for number, topic in enumerate(topics):
        for queue in range(min(PER_TOPIC, count - number * PER_TOPIC)):
            assert len(store.get(topic, queue=queue, offset=0)) == expected
    return time.perf_counter() - began


def memory() -> int:
    """Bytes of this process's own memory, files that are mapped aside."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def limits() -> dict[str, float]:
    """What the system counts."""
    maps = Path("/proc/self/maps").read_text().count("\n")
    return {"open files": len(os.listdir("/proc/self/fd")), "maps": maps}


def disk(folder: Path) -> int:
    """Bytes of the disk that a folder takes."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


@contextmanager
def _folder() -> Iterator[Path]:
    made = tempfile.mkdtemp(prefix="ember-wide-")
    try:
        yield Path(made) / "store"
    finally:
        shutil.rmtree(made)


if __name__ == "__main__":
    raise SystemExit(main())
