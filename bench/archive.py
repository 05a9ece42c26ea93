"""How fast a log becomes an archive: python3 dev.py bench archive

Logs of 1 KiB and of 100 B messages, with five properties each, over four topics: all columns, packed with zstd, parted
by topic and day, until they are on disk and part of the table; in one process a core, kernels loaded. As Parquet, Delta
and Iceberg in turn; the best of some rounds is shown, in MB of the log and messages a second, and how large the archive
is. Then how fast it is read back in the order of the log. Results also go to bench/results/archive.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.report.machine import machine
from bench.scan import BODIES, make_log
from embermq import open_store
from embermq.archive.history import read_history
from embermq.archive.job import ArchiveOptions, Archiver
from embermq.archive.tables import FORMATS, open_table
from embermq.jobs.local_runner import LocalRunner
from embermq.jobs.progress import Progress
from embermq.kernels import loading
from embermq.scan.splits import StorePlace
from embermq.scan.wanted import Wanted

RESULTS = Path(__file__).parent / "results" / "archive.json"
READ = "read back"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib", type=int, default=1024, help="size of each log")
    parser.add_argument("--folder", help="where logs are made; a temporary one by default")
    options = parser.parse_args()
    loading.load()
    results: list[dict[str, object]] = []
    for body in BODIES:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            _, size = make_log(Path(folder, "store"), body, options.mib << 20)
            with open_store(Path(folder, "store"), durability="async"):  # makes the queues that a log has
                pass
            results += measure(Path(folder), body, size, options.rounds)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine(), "archives": results}, indent=2) + "\n")


def measure(folder: Path, body: int, size: int, rounds: int) -> list[dict[str, object]]:
    """All lines of one log."""
    best: dict[str, float] = {}
    messages = packed = 0
    for _ in range(rounds):
        for format in FORMATS:
            target = folder / format
            shutil.rmtree(target, ignore_errors=True)
            seconds, messages = timed(lambda target=target, format=format: archive(folder / "store", target, format))  # type: ignore[misc]
            best[format] = min(best.get(format, seconds), seconds)
        packed = sum(path.stat().st_size for path in (folder / "parquet").rglob("*.parquet"))
        seconds, found = timed(lambda: read_back(folder / "parquet"))
        assert found == messages, f"{found} of {messages} messages read back"
        best[READ] = min(best.get(READ, seconds), seconds)
    return [show(body, name, seconds, size, messages, packed) for name, seconds in best.items()]


def archive(store: Path, target: Path, format: str) -> int:
    """Archive a store; how many messages it has."""
    table = open_table(str(target), format)
    archiver = Archiver(StorePlace(str(store)), table, ArchiveOptions(), LocalRunner(), Progress("archive"))
    with archiver.open():
        return archiver.run().messages


def read_back(target: Path) -> int:
    return sum(batch.num_rows for batch in read_history(open_table(str(target)), None, Wanted()))


def timed(work: Callable[[], int]) -> tuple[float, int]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def show(body: int, name: str, seconds: float, size: int, messages: int, packed: int) -> dict[str, object]:
    speed, rate, share = size / seconds / 1e6, messages / seconds, packed / size
    print(
        f"{body:>5} B  {name:<10} {seconds:>6.2f} s  {speed:>6,.0f} MB/s  {rate / 1e6:>5.2f} M messages/s"
        f"  {share:>4.0%} of the log's size"
    )
    return {"body": body, "format": name, "mb_per_s": round(speed), "messages_per_s": round(rate), "share": share}


if __name__ == "__main__":
    main()
