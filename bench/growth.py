"""Whether EmberMQ stays as fast when it grows: python3 dev.py bench growth

The send rate of messages of 1 KiB, 4 connections × 128 in flight, with 1, 100 and 10 000 queues, over all of which the
messages are spread, and with 1 MiB and 1 GiB of log already there; with --all also with 20 GiB, once, if the disk has
40 GB to spare. Every case has a fresh server, cases are interleaved in rounds, and medians shown, also as a share of
the first case's. All queues have their files open: the limit of open files is raised for that, or it is said.
As in `peers`, every log must hold exactly what was acknowledged, and be sound. Results of a run with
--all go to bench/results/growth.json, and into docs/performance.md with `dev.py bench peers --document`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.loadgen.full_memory import FullMemory
from bench.loadgen.generator import FILL_BATCH, Load, Shape, drive, fill
from bench.loadgen.rounds import say
from bench.report.machine import machine
from bench.report.page import RESULTS
from bench.servers.peers import PEERS
from bench.servers.remoting import make_topics
from bench.servers.server import QUEUES, ROOT, PeerError, Server, running

GROWN, SENT = "grown", "bench"  # topics: of what is there before, of what is measured
SHAPE = Shape(4, 128)
MIB = 1 << 20
RECORD_SIZE = 1200  # of a message of 1 KiB, about
DISK_TO_SPARE = 40 * 10**9  # bytes
LARGEST = 20 * 1024 * MIB


@dataclass(frozen=True)
class Case:
    """A server that has grown, and the load on it."""

    kind: str  # queues or log
    title: str
    load: Load
    log: int = 0  # bytes that are there before
    once: bool = False  # not in every round

    def prepare(self, server: Server) -> None:
        """Make the topics, and the log that is to be there before."""
        names = [f"{SENT}{number:04}" for number in range(self.load.topics)] if self.load.topics > 1 else [SENT]
        make_topics(server.port, names, self.load.queues)
        if self.load.topics > 1:  # every queue has a message, so that no file of one has to be made later
            every = SHAPE.connections * self.load.topics * self.load.queues
            done = drive(server, replace(self.load, work="fill"), SENT, seconds=0, limit=every)
            if done["acknowledged"] != every:
                raise PeerError(f"{self.title}: {done['acknowledged']} of {every} messages were taken: {done['error']}")
        if self.log:
            server.need_topic(GROWN)
            share = QUEUES * FILL_BATCH
            fill(server, GROWN, self.log // RECORD_SIZE // share * share)
            os.sync()  # what is measured is a log that is there, not one that is still being written to the disk


def _queues(topics: int, queues: int) -> Case:
    count = topics * queues
    load = Load("send", SHAPE, topics=topics, queues=queues)
    return Case("queues", f"{count:,} queue{'s' * (count > 1)}".replace(",", " "), load)


def _log(title: str, size: int, *, once: bool = False) -> Case:
    return Case("log", f"{title} of log", Load("send", SHAPE), log=size, once=once)


CASES = (
    _queues(1, 1),
    _queues(10, 10),
    _queues(1000, 10),
    _log("1 MiB", MIB),
    _log("1 GiB", 1024 * MIB),
    _log("20 GiB", LARGEST, once=True),
)


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2, help="of one measurement, after half a second of warm-up")
    parser.add_argument("--kinds", default="queues,log", help="some of queues,log")
    parser.add_argument("--all", action="store_true", help="with 20 GiB of log, too, if the disk has 40 GB to spare")
    options = parser.parse_args()
    raise_file_limit()
    cases = choose(options.kinds.split(","), everything=options.all)
    try:
        samples = measure(cases, rounds=options.rounds, seconds=options.seconds)
    except PeerError as error:
        print(f"growth was not measured: {error}")
        return 1
    rows = conclude(cases, samples)
    for row in rows:
        print(
            f"{row['title']:<16}{row['rate']:>12,.0f}/s{row['cpu_us']:>8.2f} us of CPU{row['ratio']:>8.0%} of the first"
        )
    if options.all and options.kinds == "queues,log":
        results = {"machine": machine(), "rounds": options.rounds, "seconds": options.seconds, "rows": rows}
        (RESULTS / "growth.json").write_text(json.dumps(results, indent=1) + "\n")
    return 0


def raise_file_limit() -> None:
    """Let servers have the files of all queues open, which have one descriptor each; three quarters are for them."""
    wanted = 2 * max(case.load.topics * case.load.queues for case in CASES)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except (ValueError, OSError):
            print(f"only {hard} files may be open, and {wanted} are wanted: queues have to take turns")


def choose(kinds: Sequence[str], *, everything: bool) -> list[Case]:
    """The cases of these kinds that the disk has room for; the largest only if asked for."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if everything and free < DISK_TO_SPARE:
        print(f"20 GiB of log are left out: the disk has {free / 1e9:.0f} GB to spare, and 40 are wanted")
    has_room = everything and free >= DISK_TO_SPARE
    return [case for case in CASES if case.kind in kinds and (has_room or not case.once)]


def measure(cases: Sequence[Case], *, rounds: int, seconds: float) -> dict[Case, list[dict[str, Any]]]:
    """Take every case in every round, the largest in the first alone. Raises PeerError if a log is not right."""
    samples: dict[Case, list[dict[str, Any]]] = {case: [] for case in cases}
    memory = FullMemory(ROOT / ".cache")
    for turn in range(rounds):
        for case in cases:
            if turn == 0 or not case.once:
                samples[case].append(take(case, memory, seconds=seconds))
    return samples


def take(case: Case, memory: FullMemory, *, seconds: float) -> dict[str, Any]:
    with running(PEERS["ember-async"]) as server:
        case.prepare(server)
        memory.fill()
        sample = drive(server, case.load, SENT, seconds=seconds)
    if sample["errors"]:
        raise PeerError(f"{case.title}: {sample['errors']} refused, first of all: {sample['error']}")
    say(f"  {case.title}: {sample['rate']:,.0f}/s, {server.notes['verified']:,} messages stored and sound")
    return sample


def conclude(cases: Sequence[Case], samples: dict[Case, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One row per case: medians, and the rate as a share of the first case's of its kind."""

    def middle(case: Case, name: str) -> float:
        return float(statistics.median(sample[name] for sample in samples[case]))

    def first(case: Case) -> Case:
        return next(one for one in cases if one.kind == case.kind)

    return [
        {
            **{"kind": case.kind, "title": case.title, "samples": len(samples[case])},
            **{name: middle(case, name) for name in ("rate", "p50_us", "p99_us", "cpu_us")},
            "ratio": middle(case, "rate") / middle(first(case), "rate"),
        }
        for case in cases
    ]


if __name__ == "__main__":
    sys.exit(main())
