"""Rounds of a bench over several servers: every round drives each of them once, and the medians count.

So a machine that is busy for a while harms all of them alike. What is compared is always a ratio within one run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from loadgen.generator import Shape
from loadgen.peers import PEERS, Peer, PeerError, Server, missing, running

RESULTS = Path(__file__).parents[1] / "results"
MEDIANS = ("rate", "p50_us", "p99_us", "cpu_us", "cpu_share", "resident_mib", "anonymous_mib")
Sample = dict[str, Any]
Visit = Callable[[Server, Shape], Sample]


def parse_options(description: str, *, peers: Sequence[str], shapes: str, seconds: float) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", help=f"some of these, with commas: {','.join(peers)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=seconds, help="of one measurement, after its warm-up")
    parser.add_argument("--shapes", default=shapes, help="connections x requests in flight on each, with commas")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(peers)
    if unknown := set(names) - set(peers):
        parser.error(f"no {', '.join(unknown)}; there are {', '.join(peers)}")
    options.peers = [peer for peer in PEERS if peer.name in names]
    options.shapes = [Shape.parse(text) for text in options.shapes.split(",")]
    return options


class Rounds:
    """All measurements of a run; a server that fails is left out from then on, and said at the end."""

    def __init__(self, options: argparse.Namespace, *, prepare: Callable[[Server], None], visit: Visit) -> None:
        self.options = options
        self._prepare = prepare
        self._visit = visit
        self.samples: list[Sample] = []
        self.failures: dict[str, str] = {}

    def run(self) -> None:
        with ExitStack() as staying:
            for peer in self.options.peers:
                if absent := missing(peer):
                    self.failures[peer.name] = f"not installed: {', '.join(absent)}"
            kept = {peer.name: self._keep(peer, staying) for peer in self._chosen() if peer.stays}
            for _ in range(self.options.rounds):
                for peer in self._chosen():
                    self._take_turn(peer, kept.get(peer.name))

    def _chosen(self) -> list[Peer]:
        return [peer for peer in self.options.peers if peer.name not in self.failures]

    def _keep(self, peer: Peer, staying: ExitStack) -> Server | None:
        """Start a server that stays for all rounds, prepare it, and let it rest until its turn."""
        try:
            server = staying.enter_context(running(peer))
            self._prepare(server)
        except PeerError as error:
            self.failures[peer.name] = str(error)
            return None
        server.pause()
        return server

    def _take_turn(self, peer: Peer, kept: Server | None) -> None:
        try:
            if kept is not None:
                kept.go_on()
                self._measure(peer, kept)
                kept.pause()
                return
            with running(peer) as server:
                self._prepare(server)
                self._measure(peer, server)
        except PeerError as error:
            self.failures[peer.name] = str(error)

    def _measure(self, peer: Peer, server: Server) -> None:
        for shape in self.options.shapes:
            sample = self._visit(server, shape) | server.memory_mib()
            self.samples.append({"peer": peer.name, "shape": str(shape), **sample})
            print(f"  {peer.name} {shape}: {sample['rate']:,.0f}/s", file=sys.stderr, flush=True)


def medians(samples: list[Sample]) -> list[Sample]:
    """One row per shape and peer."""
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample["shape"], sample["peer"]), []).append(sample)
    return [
        {
            "shape": shape,
            "peer": peer,
            **{name: statistics.median(sample[name] for sample in group) for name in MEDIANS},
            "errors": sum(sample["errors"] for sample in group),
        }
        for (shape, peer), group in groups.items()
    ]


def ratios(rows: list[Sample], pairs: Sequence[tuple[str, str]]) -> list[Sample]:
    """How many times the messages a second, and the messages per second of CPU time, the first of a pair has."""
    found = []
    by_name = {(row["shape"], row["peer"]): row for row in rows}
    for shape in dict.fromkeys(row["shape"] for row in rows):
        for ours, theirs in pairs:
            one, other = by_name.get((shape, ours)), by_name.get((shape, theirs))
            if one and other and other["rate"] and one["cpu_us"]:
                rate, cpu = one["rate"] / other["rate"], other["cpu_us"] / one["cpu_us"]
                found.append({"shape": shape, "ours": ours, "theirs": theirs, "rate": rate, "cpu": cpu})
    return found


def report(name: str, rounds: Rounds, pairs: Sequence[tuple[str, str]]) -> int:
    """Print the tables, keep the results of a whole run, and give the exit code."""
    rows = medians(rounds.samples)
    compared = ratios(rows, pairs)
    print_rows(rows)
    print_ratios(compared)
    if os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        print(
            f"\nthe machine was busy with other work (load {os.getloadavg()[0]:.0f}): trust the CPU columns, not msgs/s"
        )
    for peer, reason in rounds.failures.items():
        print(f"\n{peer} is left out: {reason}")
    for error in dict.fromkeys(f"{one['peer']}: {one['error']}" for one in rounds.samples if one["errors"]):
        print(f"\nrefused, first of all: {error}")
    options = {"rounds": rounds.options.rounds, "seconds": rounds.options.seconds}
    results = {"machine": machine(), **options, "medians": rows, "ratios": compared, "failures": rounds.failures}
    if not rounds.options.only:  # some of the servers alone are no result to keep
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps({**results, "samples": rounds.samples}, indent=1) + "\n")
    return int(bool(rounds.failures) or any(row["errors"] for row in rows if row["peer"].startswith("ember")))


def machine() -> dict[str, object]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def print_rows(rows: list[Sample]) -> None:
    heads = ("msgs/s", "p50 us", "p99 us", "CPU us/msg", "CPU", "MiB", "anon MiB", "errors")
    print(f"\n{'shape':<8}{'server':<16}" + "".join(f"{head:>11}" for head in heads))
    for row in rows:
        numbers = (f"{row['rate']:,.0f}", f"{row['p50_us']:,.0f}", f"{row['p99_us']:,.0f}", f"{row['cpu_us']:.2f}")
        rest = (f"{row['cpu_share']:.0%}", f"{row['resident_mib']:,.0f}", f"{row['anonymous_mib']:,.0f}")
        print(
            f"{row['shape']:<8}{row['peer']:<16}" + "".join(f"{text:>11}" for text in (*numbers, *rest, row["errors"]))
        )


def print_ratios(compared: list[Sample]) -> None:
    if compared:
        print(f"\n{'shape':<8}{'ratio':<32}{'msgs/s':>9}{'per CPU':>9}")
    for one in compared:
        print(f"{one['shape']:<8}{one['ours'] + ' / ' + one['theirs']:<32}{one['rate']:>8.2f}x{one['cpu']:>8.2f}x")
