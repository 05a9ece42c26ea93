"""Whether puts stall when the log goes on in a new file: python3 dev.py bench roll

Batches are put one after the other, as fast as they go, through several log files, and each is timed. Shown are the
usual times, the longest of those that went on in a new file and of all, and for the longest what the thread did
meanwhile: how long it had the processor, how often it waited by itself and how often another thread was given the
processor instead, page faults, and how far the disk was behind. Results also go to bench/results/roll.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.loadgen.full_memory import FullMemory
from embermq import Message, Store, open_store

MIB = 1024 * 1024
RESULTS = Path(__file__).parent / "results" / "roll.json"
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Put:
    """One put of a batch."""

    number: int
    ms: float
    cpu_ms: float
    has_rolled: bool
    waits: int  # the thread waited by itself
    preempted: int  # another thread got its processor
    faults: int
    behind_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file-size", type=int, default=64, help="MiB of one log file")
    parser.add_argument("--files", type=int, default=12, help="how many are filled")
    parser.add_argument("--batch", type=int, default=100, help="messages in a put")
    parser.add_argument("--size", type=int, default=1024, help="bytes in a message")
    parser.add_argument("--pause-us", type=int, default=0, help="between two puts, for a load that is not the highest")
    parser.add_argument("--durability", default="async")
    parser.add_argument("--folder", help="where the store is made; a temporary one by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        memory = FullMemory(Path(folder))
        memory.fill()
        puts, seconds = run(Path(folder) / "store", options)
    results = summarize(puts, seconds, options)
    show(results, puts)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def run(path: Path, options: argparse.Namespace) -> tuple[list[Put], float]:
    messages = [Message("bench", os.urandom(options.size)) for _ in range(options.batch)]
    file_size = options.file_size * MIB
    with open_store(path, durability=options.durability, log_file_size=file_size) as store:
        for _ in range(50):  # the first ones make topic, queues and files
            store.put_many(messages)
        began = time.perf_counter()
        puts: list[Put] = []
        while store.state().log_written < options.files * file_size:
            puts.append(put_one(store, messages, len(puts), file_size))
            if options.pause_us:
                time.sleep(options.pause_us / 1e6)
        return puts, time.perf_counter() - began


def put_one(store: Store, messages: list[Message], number: int, file_size: int) -> Put:
    before, usage = store.state().log_written, resource.getrusage(resource.RUSAGE_THREAD)
    cpu, began = time.thread_time(), time.perf_counter()
    store.put_many(messages)
    elapsed, used = time.perf_counter() - began, time.thread_time() - cpu
    after, state = resource.getrusage(resource.RUSAGE_THREAD), store.state()
    return Put(
        number=number,
        ms=elapsed * 1e3,
        cpu_ms=used * 1e3,
        has_rolled=before // file_size != state.log_written // file_size,
        waits=after.ru_nvcsw - usage.ru_nvcsw,
        preempted=after.ru_nivcsw - usage.ru_nivcsw,
        faults=after.ru_minflt + after.ru_majflt - usage.ru_minflt - usage.ru_majflt,
        behind_mib=state.flush_behind / MIB,
    )


def summarize(puts: list[Put], seconds: float, options: argparse.Namespace) -> dict[str, object]:
    times = sorted(put.ms for put in puts)
    count = len(puts) * options.batch
    return {
        "date": time.strftime("%Y-%m-%d"),
        "load": os.getloadavg()[0],
        "options": {name: value for name, value in vars(options).items() if name != "folder"},
        "messages_per_s": count / seconds,
        "mb_per_s": options.files * options.file_size * MIB / seconds / 1e6,
        "cpu_us_per_message": sum(put.cpu_ms for put in puts) / count * 1e3,
        "faults_per_mib": sum(put.faults for put in puts) / (options.files * options.file_size),
        "p50_ms": times[len(times) // 2],
        "p99_ms": times[len(times) * 99 // 100],
        "longest_ms": times[-1],
        "longest_rolling_ms": max((put.ms for put in puts if put.has_rolled), default=0.0),
        "longest": [asdict(put) for put in sorted(puts, key=lambda put: -put.ms)[:SHOWN]],
        "rolling": [asdict(put) for put in puts if put.has_rolled],
    }


def show(results: dict[str, object], puts: list[Put]) -> None:
    for name, value in results.items():
        if isinstance(value, float):
            print(f"{name:<20}{value:>12,.2f}")
    names = f"{'put':>8}{'ms':>8}{'cpu ms':>8}{'waits':>7}{'preempted':>11}{'faults':>8}{'behind MiB':>12}"
    print(f"\n{names}  of {len(puts)}")
    longest = sorted(puts, key=lambda put: -put.ms)[:SHOWN]
    for put in [*longest, *(put for put in puts if put.has_rolled and put not in longest)]:
        line = f"{put.number:>8}{put.ms:>8.2f}{put.cpu_ms:>8.2f}{put.waits:>7}{put.preempted:>11}{put.faults:>8}"
        print(f"{line}{put.behind_mib:>12.1f}{'  new file' if put.has_rolled else ''}")


if __name__ == "__main__":
    main()
