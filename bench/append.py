"""How fast a store takes messages, and how fast it opens: python3 dev.py bench append

Puts of three sizes, alone and in batches, in each durability, as messages a second and as a share of what copying the
same bytes into the same kind of map reaches. A copy finds its pages in memory; a store that is put to without a pause
has to get them from the system first and to bring them to the disk, so batches of 1000 × 1 KiB are measured once more
where they are there already and, as beside a copy, nothing is flushed meanwhile.
Rounds of all cases are interleaved, and medians shown, so that a machine that is busy for a while harms all of them
alike. Then a store of 1 GiB with 1 000 queues: opened after a clean stop and after a crash. Results also go to
bench/results/append.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.loadgen.full_memory import FullMemory
from bench.report.bars import PUT_MANY_SHARE, put_many_share
from bench.report.machine import machine
from embermq import Message, MessageBatch, Store, open_store
from embermq.files.mapped_file import MappedFile
from embermq.kernels import loading
from embermq.model.topic import TopicConfig

SIZES = (100, 1024, 4096)
BATCHES = (1, 32, 1000)
DURABILITIES = ("async", "pooled", "sync")
MIB = 1024 * 1024
CHUNK = MIB
WARM = 256 * MIB  # bytes of a map that are in memory before a measurement begins
NEVER_MS = 3_600_000
RESULTS = Path(__file__).parent / "results" / "append.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="for one case in one round")
    parser.add_argument("--folder", help="where stores are made; a temporary one by default")
    parser.add_argument("--skip-open", action="store_true", help="leave out the store of 1 GiB")
    options = parser.parse_args()
    has_engine = loading.is_installed()
    if has_engine:
        loading.load()  # so that no case pays for it
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        results: dict[str, object] = {"machine": machine(), "engine": has_engine, **bench_puts(Path(folder), options)}
        if not options.skip_open:
            results["open"] = bench_open(Path(folder))
        share = put_many_share(results)
        assert share is not None
        print(f"\nput_many of 1000 × 1 KiB into warm pages: {share:.1%} of a copy; the bar is {PUT_MANY_SHARE:.0%}")
        results["resident_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"\nlargest resident memory {results['resident_mib']} MiB")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def bench_puts(folder: Path, options: argparse.Namespace) -> dict[str, object]:
    cases = [(durability, size, batch) for durability in DURABILITIES for size in SIZES for batch in BATCHES]
    rates: dict[tuple[str, int, int], list[float]] = {case: [] for case in cases}
    copies: list[float] = []
    warm: list[float] = []
    memory = FullMemory(folder)
    for _ in range(options.rounds):
        memory.fill()
        copies.append(copy_rate(folder))
        warm.append(warm_put_rate(folder / "store"))
        for case in cases:
            memory.fill()
            rates[case].append(put_rate(folder / "store", *case, options.seconds))
    copied = statistics.median(copies)
    print(f"copying into a warm map: {copied / 1e9:.1f} GB/s\n")
    print(f"{'durability':<11}{'size':>6}{'batch':>7}{'msgs/s':>12}{'us/msg':>9}{'of copy':>9}")
    rows = []
    for case in cases:
        rate = statistics.median(rates[case])
        record = 91 + len("bench") + case[1]
        share = rate * record / copied
        print(f"{case[0]:<11}{case[1]:>6}{case[2]:>7}{rate:>12,.0f}{1e6 / rate:>9.2f}{share:>9.1%}")
        rows.append({"durability": case[0], "size": case[1], "batch": case[2], "rate": rate, "of_copy": share})
    return {"puts": rows, "put_many_of_copy": statistics.median(warm) / copied}


def copy_rate(folder: Path) -> float:
    """Bytes a second of plain copies into a mapped file whose pages are warm."""
    path = folder / f"{0:020d}"
    file = MappedFile.open(path, WARM)
    file.reserve(file.size)
    file.warm(0, file.size)
    chunk = os.urandom(CHUNK)
    began = time.perf_counter()
    for _ in range(file.size // CHUNK):
        file.append(chunk)
    elapsed = time.perf_counter() - began
    file.destroy(force=True)
    return file.size / elapsed


def put_rate(path: Path, durability: str, size: int, batch: int, seconds: float) -> float:
    """Messages a second; the last put ends the clock."""
    messages = [Message("bench", os.urandom(size)) for _ in range(batch)]
    with fresh_store(path, durability) as store:
        many = MessageBatch.of("bench", [message.body for message in messages])
        put: Callable[[], object] = (lambda: store.put(messages[0])) if batch == 1 else lambda: store.put_many(many)
        put()  # the first makes topic, queues and files
        count, began = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds:
            put()
            count += batch
        return count / elapsed


def warm_put_rate(path: Path) -> float:
    """Bytes of log a second of batches of 1000 × 1 KiB, where its pages are in memory as those of `copy_rate` are.

    As there, nothing is flushed.
    """
    many = MessageBatch.of("bench", [os.urandom(1024) for _ in range(1000)])
    with fresh_store(path, "async", flush_interval_ms=NEVER_MS, max_unflushed_bytes=8 * WARM) as store:
        store.put_many(many)
        file = store.log_files().last
        assert file is not None
        file.warm(0, WARM)
        begin, began = file.written, time.perf_counter()
        while file.written < WARM - 2 * len(many.bodies):
            store.put_many(many)
        return (file.written - begin) / (time.perf_counter() - began)


@contextmanager
def fresh_store(path: Path, durability: str, **settings: object) -> Iterator[Store]:
    with open_store(path, durability=durability, log_file_size=512 * MIB, **settings) as store:
        yield store
    shutil.rmtree(path)


def bench_open(folder: Path) -> dict[str, object]:
    """A store of 1 GiB with 1 000 queues: opened after a clean stop, after a crash, and without its checkpoint."""
    path = folder / "large"
    with open_store(path, durability="async", checkpoint_interval_ms=3_600_000, checkpoint_bytes=1 << 40) as store:
        for topic in range(100):
            store.save_topic(TopicConfig(f"topic{topic}", read_queues=10, write_queues=10))
        fill(store, 960 * MIB)
        store.checkpoint()
        fill(store, 1024 * MIB)
        copy_sparse(path, folder / "crashed")
        state = store.state()
        messages, queues = state.puts.messages, state.queues
    copy_sparse(folder / "crashed", folder / "no-checkpoint")
    (folder / "no-checkpoint" / "checkpoint").unlink()
    print(f"\na store of 1 GiB, {messages:,} messages, {queues:,} queues")
    times = {
        "clean_s": open_time("opened after a clean stop", path),
        "crashed_s": open_time("opened after a crash, 64 MiB after the checkpoint", folder / "crashed"),
        "no_checkpoint_s": open_time("opened after a crash, without a checkpoint", folder / "no-checkpoint"),
    }
    return {"messages": messages, "queues": queues, **times}


def copy_sparse(source: Path, target: Path) -> None:
    """A copy as a crash leaves it: space that was never written takes none."""
    subprocess.run(["cp", "-r", "--sparse=always", source, target], check=True)


def fill(store: Store, end: int) -> None:
    body = os.urandom(1024)
    number = 0
    while store.state().log_written < end:
        store.put_many(Message(f"topic{(number + step) % 100}", body) for step in range(1000))
        number += 1000


def open_time(what: str, path: Path) -> float:
    began = time.perf_counter()
    store = open_store(path)
    elapsed = time.perf_counter() - began
    recovered = store.state().recovered
    print(f"  {what:<52}{elapsed:>7.2f} s   {recovered.scan.records:,} records read ({recovered.reason})")
    store.close()
    return elapsed


if __name__ == "__main__":
    main()
