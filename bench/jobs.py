"""How fast jobs go over whole stores: python3 dev.py bench jobs [stores] [rebuild] [verify] [compact] [archive]

Stores of 1 KiB messages (6 GiB) and of 100 B messages (1 GiB), see bench/whole_stores. Each part takes some minutes:

    stores    makes the stores and measures nothing; they stay if --folder says where
    rebuild   live dispatcher     the store itself, opened without queues and index
              rebuild queues      from the log, into a new directory, until it is on disk
              rebuild all         the same with the index
              RocketMQ            its own store, opened without queues and index, until both are there again
    verify    verify              every record, queue entry and key
    compact   compaction plan     which message of each key survives, and where it goes
              compact             the same, and the survivors copied, until they are on disk
    archive   archive FORMAT      all columns of all messages, packed with zstd, until they are on disk and in the table

What is rebuilt must be, byte for byte, what the live dispatcher wrote. Jobs run in one process a core, kernels are
loaded; the best of some rounds is shown, in MB of the log and messages a second. Results go to bench/results/jobs.json,
where a job that is not measured keeps what it had, and to docs/performance.md.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.archive import archive
from bench.scan import TOPICS
from bench.servers.rocketmq import JVM
from bench.whole_stores.making import DERIVED, QUEUES, Store, get_or_make, remove_derived
from bench.whole_stores.results import save, write_page
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

STORES = {1024: 6, 100: 1}  # bytes of a body, and log files
MIB = 1 << 20
PATIENCE = 280  # seconds that RocketMQ may take
Work = Callable[[Store, Path], None]


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all of them unless some are named")
    parser.add_argument("--body", type=int, choices=STORES, help="only the store with messages of so many bytes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024, help="size of a log file")
    parser.add_argument("--folder", help="where stores are made, and kept for the next run; a temporary one by default")
    options = parser.parse_args()
    loading.load()
    with tempfile.TemporaryDirectory() as temporary:
        for body in [options.body] if options.body else STORES:
            folder = Path(options.folder or temporary, f"{body}")
            store = get_or_make(folder, body, STORES[body], options.mib * MIB)
            for part in options.parts or PARTS:
                print(f"-- {part}, {body} B", flush=True)
                PARTS[part](store, options.rounds)
    if set(options.parts) != {"stores"} and options.mib == parser.get_default("mib"):
        write_page()


def measure_nothing(store: Store, rounds: int) -> None:
    """The stores are made before any part."""


def measure_rebuild(store: Store, rounds: int) -> None:
    """What is rebuilt is compared with what the live dispatcher writes first."""
    live = []
    for _ in range(rounds):
        remove_derived(store.path)
        live.append(timed(lambda: dispatch_live(store)))
    save(store, {"live dispatcher": live})
    measure({"rebuild queues": partial(run_rebuild, with_index=False), "rebuild all": run_rebuild}, store, rounds)
    if store_tool.missing() is None:
        save(store, {"RocketMQ": [recover_with_rocketmq(store)]})


def measure(jobs: Mapping[str, Work], store: Store, rounds: int) -> None:
    """All jobs in turn, some rounds of them, on a store with the queues and the index of the live dispatcher."""
    if not (store.path / "checkpoint").exists():
        dispatch_live(store)
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    out = store.path.with_name("made")
    for _ in range(rounds):
        for name, work in jobs.items():
            shutil.rmtree(out, ignore_errors=True)
            seconds[name].append(timed(lambda work=work: work(store, out)))  # type: ignore[misc]
            check_same(store, out)
    shutil.rmtree(out, ignore_errors=True)
    save(store, seconds)


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
    try:
        yield
    finally:
        path.write_bytes(before)


def check_same(store: Store, out: Path) -> None:
    """What was rebuilt must be what the live dispatcher wrote."""
    for folder in DERIVED:
        made = sorted(path for path in (out / folder).rglob("*") if path.is_file())
        live = sorted(path for path in (store.path / folder).rglob("*") if path.is_file())
        if made and not (len(made) == len(live) and all(map(filecmp.cmp, made, live, [False] * len(made)))):
            raise SystemExit(f"{out / folder} is not what the live dispatcher wrote")


def recover_with_rocketmq(store: Store) -> float:
    """How long RocketMQ takes to open a store with this log, without queues and index, and to have both again."""
    twin = store.path.with_name("twin")
    shutil.rmtree(twin, ignore_errors=True)
    shutil.copytree(store.path / "config", twin / "config")
    shutil.copytree(store.path / "commitlog", twin / "commitlog", copy_function=os.link)
    home = twin.with_name("home")
    home.mkdir()
    jvm = (*JVM, f"-DdispatchTimeoutMs={PATIENCE * 1000}")
    tool = store_tool.StoreTool(store_tool.class_path(), home, jvm=jvm, answer_timeout=PATIENCE)
    try:
        tool.write(twin.with_name("empty"), [], config={})  # starts the process
        return timed(lambda: tool.write(twin, [], config={"mappedFileSizeCommitLog": store.file_size}))
    finally:
        tool.close()
        for folder in (twin, home, twin.with_name("empty")):
            shutil.rmtree(folder, ignore_errors=True)


PARTS: dict[str, Callable[[Store, int], None]] = {
    "stores": measure_nothing,
    "rebuild": measure_rebuild,
    "verify": partial(measure, {"verify": run_verify}),
    "compact": partial(measure, {"compaction plan": run_compaction_plan, "compact": run_compact}),
    "archive": partial(measure, {f"archive {format}": partial(run_archive, format=format) for format in FORMATS}),
}


if __name__ == "__main__":
    main()
