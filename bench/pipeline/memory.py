"""What a read of 6 GiB needs in memory: python3 dev.py bench spark memory

A log of 1 KiB messages is read with all columns, by two tasks at a time, under a JVM with 1 GiB. What the Python
processes that read hold is looked at all the time: in the last third of the read it must be what it was in the first.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import embermq_spark
from bench.pipeline.reads import ALL, SETTINGS, TOPICS, read, time_of
from bench.pipeline.results import Bar, save
from bench.scan import make_log
from embermq import open_store

FILE_SIZE: Final = 1 << 30
LOOK_S: Final = 0.1
SPARE: Final = 2 << 30  # bytes of disk, besides the log


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=int, default=6)
    parser.add_argument("--folder", help="where the store is made, and found by the next run; else it does not stay")
    parser.add_argument("--make-only", action="store_true", help="leave it at the store, for a run that measures")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        store = Path(options.folder or temporary, "store")
        if not store.exists():
            make_store(store, options.gib)
        if options.make_only:
            return
        found = measure(store)
    third = len(found["workers_mib"]) // 3
    first, last = max(found["workers_mib"][:third]), max(found["workers_mib"][-third:])
    bars = [
        Bar(f"memory of readers at the end of {options.gib} GiB, to the beginning", 1.1, last / first, is_limit=True)
    ]
    summary = {"seconds": found["seconds"], "first_mib": first, "last_mib": last, "jvm_mib": max(found["jvm_mib"])}
    print(summary, flush=True)
    save("memory", {"gib": options.gib, **summary}, bars)


def make_store(path: Path, gib: int) -> None:
    wanted = gib * FILE_SIZE + SPARE
    if shutil.disk_usage(path.parent).free < wanted:
        raise SystemExit(f"{path.parent} has less than {wanted >> 30} GiB free; name another with --folder")
    make_log(path, 1024, FILE_SIZE, TOPICS, files=gib)
    with open_store(path):
        pass  # which makes its queues


def measure(store: Path) -> dict[str, Any]:
    """Memory in MiB while all of a store is read."""
    settings = {**SETTINGS, "spark.driver.memory": "1g"}
    spark = embermq_spark.session("bench", master="local[2]", settings=settings)
    time_of(read(spark, str(store), ALL).limit(1000))  # so that all processes are there
    frame = read(spark, str(store), ALL)
    workers: list[int] = []
    jvm: list[int] = []
    is_done = threading.Event()

    def look() -> None:
        while not is_done.wait(LOOK_S):
            sizes = _sizes_of_children(os.getpid())
            workers.append(sum(size for name, size in sizes if "python" in name) >> 20)
            jvm.append(max((size for name, size in sizes if "java" in name), default=0) >> 20)

    thread = threading.Thread(target=look)
    thread.start()
    began = time.perf_counter()
    try:
        time_of(frame)
    finally:
        is_done.set()
        thread.join()
    spark.stop()
    return {"seconds": time.perf_counter() - began, "workers_mib": workers, "jvm_mib": jvm}


def _sizes_of_children(root: int) -> list[tuple[str, int]]:
    """Names and private memory of all processes below one."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = []
    for process in parents:
        above = process
        while above in parents and above != root:
            above = parents[above]
        if above == root and process != root:
            try:
                status = dict(line.split(":", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
                found.append((status["Name"].strip(), int(status["RssAnon"].split()[0]) << 10))
            except (OSError, KeyError):
                continue
    return found


if __name__ == "__main__":
    main()
