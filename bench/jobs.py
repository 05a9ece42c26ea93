"""How fast jobs go over whole stores: python3 dev.py bench jobs

Stores of 1 KiB messages (6 GiB) and of 100 B messages (1 GiB), four topics with six queues each, two keys a message. In
one run:

    verify                 every record, queue entry and key
    rebuild queues         from the log, into a new directory, until it is on disk
    rebuild all            the same with the index
    compaction plan        which message of each key survives, and where it goes
    compact                the same, and the survivors copied, until they are on disk
    archive FORMAT         all columns of all messages, packed with zstd, until they are on disk and in the table
    live dispatcher        the store itself, opened without queues and index
    RocketMQ               its own store, opened without queues and index, until both are there again

What is rebuilt must be, byte for byte, what the live dispatcher wrote. Jobs run in one process a core, kernels are
loaded; the best of some rounds is shown, in MB of the log and messages a second. Results also go to
bench/results/jobs.json.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.archive import archive
from bench.report.machine import machine
from bench.scan import TOPICS, make_log
from embermq import open_store
from embermq.archive.tables import FORMATS
from embermq.clock import SystemClock
from embermq.jobs.compact import CompactJob, compact
from embermq.jobs.compact_source import open_compact_source
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.jobs.rebuild import rebuild
from embermq.jobs.verify import verify
from embermq.kernels import loading
from embermq.model.topic import TopicConfig
from embermq.store.topics import Topics
from tests.compat import store_tool

GIB = 1 << 30
STORES = {1024: 6, 100: 1}  # bytes of a body, and GiB of the log
QUEUES = 6
DERIVED = ("consumequeue", "index")
RESULTS = Path(__file__).parent / "results" / "jobs.json"


class Store(NamedTuple):
    """A store to work on."""

    path: Path
    body: int
    size: int  # bytes of records
    records: int
    keys: int  # by queue, which compaction keeps one message of each of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024, help="size of a log file")
    parser.add_argument("--folder", help="where stores are made; a temporary one by default")
    options = parser.parse_args()
    loading.load()
    results: list[dict[str, object]] = []
    for body, files in STORES.items():
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            store = make_store(Path(folder, "store"), body, files, options.mib << 20)
            results += measure(store, options.rounds)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine(), "jobs": results}, indent=2) + "\n")


def measure(store: Store, rounds: int) -> list[dict[str, object]]:
    """All lines of one store. The live dispatcher comes first, because it makes what the others are compared with."""
    seconds = {"live dispatcher": timed(lambda: dispatch_live(store))}
    out = store.path.with_name("rebuilt")
    for _ in range(rounds):
        for name, work in JOBS.items():
            seconds[name] = min(seconds.get(name, 1e9), timed(lambda work=work: work(store, out)))  # type: ignore[misc]
            check_same(store, out)
            shutil.rmtree(out, ignore_errors=True)
    if store_tool.missing() is None:
        seconds["RocketMQ"] = recover_with_rocketmq(store)
    return [show(store, name, each) for name, each in seconds.items()]


def show(store: Store, name: str, seconds: float) -> dict[str, object]:
    speed, rate = store.size / seconds / 1e6, store.records / seconds
    print(f"{store.body:>5} B  {name:<16} {seconds:>7.2f} s  {speed:>6,.0f} MB/s  {rate / 1e6:>6.2f} M messages/s")
    return {"body": store.body, "job": name, "mb_per_s": round(speed), "messages_per_s": round(rate)}


def make_store(path: Path, body: int, files: int, file_size: int) -> Store:
    """A log of some files, the later ones like the first but for positions and offsets; no queues, no index."""
    with open_store(path, log_file_size=file_size) as store:
        for topic in TOPICS:
            store.save_topic(TopicConfig(topic.decode(), read_queues=QUEUES, write_queues=QUEUES))
    for name in ("commitlog", *DERIVED):
        shutil.rmtree(path / name, ignore_errors=True)
    (path / "checkpoint").unlink()
    _, size = make_log(path, body, file_size)
    first = path / "commitlog" / f"{0:020d}"
    data = np.fromfile(first, np.uint8)
    places = record_places(data)
    turns = np.arange(len(places)) % (len(TOPICS) * QUEUES)  # queues take turns
    in_queue = np.bincount(turns)[turns]  # how many messages of a file are in the queue of each
    for number in range(1, files):
        moved = data.copy()
        add(moved, places + 28, np.int64(number * file_size))
        add(moved, places + 20, number * in_queue)
        moved.tofile(path / "commitlog" / f"{number * file_size:020d}")
    os.sync()  # or what is measured would wait for the disk to take all this
    return Store(path, body, size * files, len(places) * files, len(places))  # the keys of a file come again in others


def record_places(data: np.ndarray) -> np.ndarray:
    """Where the records of a log file begin."""
    from embermq.kernels.columns import RECORD_POSITION, RECORD_WIDTH
    from embermq.kernels.record_scan import scan_records

    rows = np.empty((len(data) // 91, RECORD_WIDTH), np.int64)
    count, _, _ = scan_records(int(data.ctypes.data), len(data), 0, False, rows)
    return rows[:count, RECORD_POSITION].copy()


def add(data: np.ndarray, places: np.ndarray, numbers: np.ndarray | np.int64) -> None:
    """Add numbers to those of eight bytes at some places."""
    bytes_at = places[:, None] + np.arange(8)
    values = data[bytes_at].copy().view(">i8")[:, 0]
    data[bytes_at] = (values + numbers).astype(">i8")[:, None].view(np.uint8)


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def dispatch_live(store: Store) -> None:
    with open_store(store.path, durability="async"):
        pass


def run_verify(store: Store, out: Path) -> None:
    verdict = verify(store.path, runner=LocalRunner(), progress=Progress("verify"))
    if not verdict.sound or verdict.records != store.records:
        raise SystemExit(f"not sound: {verdict}"[:2000])


def run_rebuild(store: Store, out: Path, *, with_index: bool = True) -> None:
    rebuild(store.path, out, runner=LocalRunner(), progress=Progress("rebuild"), with_index=with_index)


def run_rebuild_queues(store: Store, out: Path) -> None:
    run_rebuild(store, out, with_index=False)


def run_archive(store: Store, out: Path, *, format: str) -> None:
    messages = archive(store.path, out, format)
    if messages != store.records:
        raise SystemExit(f"{messages} of {store.records} messages archived")


def run_compact(store: Store, out: Path) -> None:
    with compacted_topics(store):
        compact(store.path, out, runner=LocalRunner(), progress=Progress("compact"))


def run_compaction_plan(store: Store, out: Path) -> None:
    with compacted_topics(store):
        out.mkdir()
        job = CompactJob(open_compact_source(store.path), out, LocalRunner(), Progress("compact"))
        pairs = job.plan(job.read())
    kept = sum(pair.survivors.rows for parts in pairs.values() for pair in parts)
    if kept != store.keys:
        raise SystemExit(f"{kept} messages kept, of {store.keys} keys")


@contextmanager
def compacted_topics(store: Store) -> Iterator[None]:
    """All topics keep the newest message of each key, for now."""
    path = store.path / "config" / "topics.json"
    before = path.read_bytes()
    topics = Topics(path, clock=SystemClock(), default_queues=QUEUES, auto_create=False)
    attributes = {"cleanup.policy": "COMPACTION"}
    topics.save(*(TopicConfig(name.decode(), QUEUES, QUEUES, attributes=attributes) for name in TOPICS))
    yield
    path.write_bytes(before)


JOBS: dict[str, Callable[[Store, Path], None]] = {
    "verify": run_verify,
    "rebuild queues": run_rebuild_queues,
    "rebuild all": run_rebuild,
    "compaction plan": run_compaction_plan,
    "compact": run_compact,
    **{f"archive {format}": partial(run_archive, format=format) for format in FORMATS},
}


def check_same(store: Store, out: Path) -> None:
    """What was rebuilt must be what the live dispatcher wrote."""
    for folder in DERIVED:
        made = sorted(path for path in (out / folder).rglob("*") if path.is_file())
        live = sorted(path for path in (store.path / folder).rglob("*") if path.is_file())
        if made and not (len(made) == len(live) and all(map(filecmp.cmp, made, live, [False] * len(made)))):
            raise SystemExit(f"{out / folder} is not what the live dispatcher wrote")


def recover_with_rocketmq(store: Store) -> float:
    """How long RocketMQ takes to open the store without queues and index, and to have both again."""
    for folder in DERIVED:
        shutil.rmtree(store.path / folder)
    (store.path / "checkpoint").unlink()
    home = store.path.with_name("home")
    home.mkdir()
    tool = store_tool.StoreTool(store_tool.class_path(), home)
    try:
        tool.write(home / "empty", [], config={})  # starts the process
        return timed(lambda: tool.write(store.path, [], config={"mappedFileSizeCommitLog": GIB}))
    finally:
        tool.close()


if __name__ == "__main__":
    main()
