"""How fast a log becomes Arrow columns on one core: python3 dev.py bench scan

Logs of 1 KiB and of 100 B messages, with five properties each, over four topics; as all columns but the broker's name,
as the seven that most jobs read, as four ids, and one topic of four; by the compiled engine and by numpy's. Bodies
are checked against their checksums wherever they are read. Rounds are interleaved and the best is shown, in MB of the
log and messages a second of the processor's time. Results also go to bench/results/scan.json.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.report.machine import machine
from embermq.format.record import BLANK_SIZE, Draft, encode_blank, encode_drafts
from embermq.kernels import loading
from embermq.scan.columns import ALL_COLUMNS, BROKER
from embermq.scan.numpy_engine import NumpyEngine
from embermq.scan.reading import read_split
from embermq.scan.split_context import MakeEngine
from embermq.scan.splits import LogFile, LogSplit, StorePlace
from embermq.scan.wanted import Wanted

BODIES = (1024, 100)
TOPICS = (b"orders", b"payments", b"shipping-events", b"audit")
HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
TOGETHER = 1_000  # messages made at once
IDS = ("topic", "queueId", "queueOffset", "physicalOffset")
SEVEN = ("topic", "queueId", "queueOffset", "storeTimestamp", "keys", "tags", "body")
CASES = {
    "19 columns": Wanted(columns=tuple(name for name in ALL_COLUMNS if name != BROKER)),
    "7 columns": Wanted(columns=SEVEN),
    "4 ids": Wanted(columns=IDS),
    "7 columns of 1 topic in 4": Wanted(columns=SEVEN, topics=frozenset({"audit"})),
}
RESULTS = Path(__file__).parent / "results" / "scan.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=256, help="size of each log")
    parser.add_argument("--folder", help="where logs are made; a temporary one by default")
    options = parser.parse_args()
    engines = make_engines()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        logs = {size: make_log(Path(folder, str(size)), size, options.mib << 20) for size in BODIES}
        results = measure(logs, engines, options.rounds)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine(), "scans": results}, indent=2) + "\n")


def make_engines() -> dict[str, MakeEngine]:
    engines: dict[str, MakeEngine] = {"numpy": NumpyEngine}
    if loading.is_installed():
        loading.load()
        from embermq.scan.compiled_engine import CompiledEngine

        engines = {"compiled": CompiledEngine, **engines}
    return engines


def make_log(
    path: Path, body_size: int, size: int, topics: Sequence[bytes] = TOPICS, *, files: int = 1
) -> tuple[LogSplit, int]:
    """A log of files of this size, and how many bytes of it are records."""
    (path / "commitlog").mkdir(parents=True)
    made = iter_drafts(body_size, topics)
    drafts, offsets = next(made)
    found, records = [], 0
    for start in range(0, size * files, size):
        name = f"commitlog/{start:020d}"
        found.append(LogFile(name, start, size))
        position = start
        with (path / name).open("wb") as file:
            while True:
                parts, sizes = encode_drafts(drafts, offsets, position, 1_700_000_000_000, HOST)
                if position + sum(sizes) > start + size - BLANK_SIZE:
                    break
                file.write(b"".join(parts))
                position += sum(sizes)
                drafts, offsets = next(made)
            file.write(encode_blank(start + size - position))
            file.truncate(size)
        records += position - start
    split = LogSplit(StorePlace(str(path)), tuple(found), 0, size * files, size * files)
    return split, records


def iter_drafts(body_size: int, topics: Sequence[bytes]) -> Iterator[tuple[list[Draft], list[int]]]:
    """Messages of these topics in turn, and their offsets, some at a time; without an end."""
    chance, number = random.Random(1), 0
    while True:
        drafts, offsets = [], []
        for _ in range(TOGETHER):
            properties = (
                f"KEYS\x01order-{number}\x02UNIQ_KEY\x01{chance.randbytes(16).hex().upper()}\x02"
                f"CLUSTER\x01DefaultCluster\x02WAIT\x01true\x02TAGS\x01{'eu' if number % 2 else 'us'}\x02"
            )
            body = chance.randbytes(body_size // 2).hex().encode()
            topic, queue = topics[number % len(topics)], number // len(topics) % 6
            drafts.append(Draft(topic, queue, body, properties.encode(), born_time=number, born_host=HOST))
            offsets.append(number // len(topics) // 6)
            number += 1
        yield drafts, offsets


def measure(
    logs: dict[int, tuple[LogSplit, int]], engines: dict[str, MakeEngine], rounds: int
) -> list[dict[str, object]]:
    best: dict[tuple[int, str, str], tuple[float, int]] = {}
    for _ in range(rounds):
        for size, (split, _) in logs.items():
            for case, wanted in CASES.items():
                for name, engine in engines.items():
                    began = time.process_time()
                    rows = sum(batch.num_rows for batch in read_split(split, wanted, make_engine=engine))
                    seconds = time.process_time() - began
                    best[size, case, name] = min(best.get((size, case, name), (seconds, rows)), (seconds, rows))
    results: list[dict[str, object]] = []
    for (size, case, name), (seconds, rows) in best.items():
        speed, rate = logs[size][1] / seconds / 1e6, rows / seconds
        print(f"{size:>5} B  {case:<26} {name:<9} {speed:>7,.0f} MB/s  {rate / 1e6:>6.2f} M messages/s")
        results.append(
            {"body": size, "case": case, "engine": name, "mb_per_s": round(speed), "messages_per_s": round(rate)}
        )
    return results


if __name__ == "__main__":
    main()
