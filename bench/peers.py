"""EmberMQ beside Redis, NATS, RocketMQ and Kafka on one machine: python3 dev.py bench peers

Messages from a compiled load generator that checks every answer (bench/loadgen): sends in several shapes and sizes,
batches, sends that wait for the disk, pulls, and consuming what is being sent. Every server has one core and the
generator another; those on a JVM may use all, and are warmed up for 20 s. Every round takes every measure on every
server; the tables show medians. After each run of EmberMQ its log is read: it must hold exactly the messages that were
acknowledged, and `ember store verify` must find nothing, or the bench fails.

A whole run takes the better part of an hour, keeps its results in bench/results/peers.json, and writes them into
docs/performance.md. For daily use, some servers and measures are enough, which takes seconds and is only printed:

    python3 dev.py bench send                   sends 4 × 128 of all that need not wait for the disk: two minutes
    python3 dev.py bench consume                pulls of 32, and consuming what is being sent
    python3 dev.py bench peers --only ember-async,redis-everysec --measures send-4x128 --rounds 1 --seconds 1
    python3 dev.py bench peers --document       write docs/performance.md from the results that are there
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from bench.loadgen.measures import MEASURES
from bench.loadgen.rounds import Rounds
from bench.report.bars import outcomes
from bench.report.machine import machine
from bench.report.medians import medians
from bench.report.page import RESULTS, read_results, write_page
from bench.report.tables import text_bars, text_ratios, text_rows
from bench.servers.peers import PEERS

LEAST_ROUNDS = 5  # of a run that is kept
WITH_ENGINE = ("ember-async", "ember-sync")


def main() -> int:
    options = parse_options()
    if options.document:
        write_page()
        return 0
    rounds = Rounds(
        [PEERS[name] for name in options.only],
        [MEASURES[name] for name in options.measures],
        rounds=options.rounds,
        seconds=options.seconds,
        warmup=min(options.seconds, 0.5),
        long_warmup=options.warmup,
    )
    rounds.run()
    results = conclude(rounds)
    show(results, rounds)
    is_whole = len(options.only) == len(PEERS) and len(options.measures) == len(MEASURES)
    if is_whole and options.rounds >= LEAST_ROUNDS and not rounds.failures:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "peers.json").write_text(json.dumps(results, indent=1) + "\n")
        write_page()
    return int(bool(rounds.failures) or any(sample["errors"] for sample in rounds.samples if is_ours(sample["peer"])))


def parse_options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=_some_of(PEERS), default=list(PEERS), help=f"of {','.join(PEERS)}")
    parser.add_argument("--measures", type=_some_of(MEASURES), default=list(MEASURES), help=f"of {','.join(MEASURES)}")
    parser.add_argument("--rounds", type=int, default=LEAST_ROUNDS)
    parser.add_argument("--seconds", type=float, default=2, help="of one measurement, after half a second of warm-up")
    parser.add_argument(
        "--warmup", type=float, default=20, help="seconds for a server on a JVM, once per kind of measure"
    )
    parser.add_argument("--document", action="store_true", help="measure nothing; write docs/performance.md anew")
    return parser.parse_args()


def _some_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """An option's type: names with commas between them, all of which are known."""
    names = list(known)

    def chosen(text: str) -> list[str]:
        if unknown := set(text.split(",")) - set(names):
            raise argparse.ArgumentTypeError(f"no {', '.join(sorted(unknown))}; there are {', '.join(names)}")
        return [name for name in names if name in text.split(",")]

    return chosen


def conclude(rounds: Rounds) -> dict[str, Any]:
    """What is kept of a run."""
    order = [(measure.name, peer.name) for measure in rounds.measures for peer in rounds.peers]
    rows = sorted(medians(rounds.samples), key=lambda row: order.index((row["measure"], row["peer"])))
    measured = {row["peer"] for row in rows}
    return {
        "machine": machine(),
        "versions": {peer.name: peer.version() for peer in rounds.peers if peer.name in measured},
        "rounds": rounds.rounds,
        "seconds": rounds.seconds,
        "verified": sum(int(sample.get("verified", 0)) for sample in rounds.samples),
        "failures": rounds.failures,
        "medians": rows,
        "samples": rounds.samples,
    }


def show(results: dict[str, Any], rounds: Rounds) -> None:
    rows = results["medians"]
    print("\n" + "\n".join(text_rows(rows)))
    print("\n" + "\n".join(text_ratios(rows)))
    found = [one for one in outcomes(rows, read_results("append"), read_results("growth")) if one.found is not None]
    if found:
        print("\n" + "\n".join(text_bars(found)))
    if results["verified"]:
        print(f"\nEmberMQ acknowledged {results['verified']:,} messages: all are stored, once each, in sound stores")
    if any(sample.get("engine") is False for sample in rounds.samples if sample["peer"] in WITH_ENGINE):
        print("\nEmberMQ's log never said that its engine is on: these may be rates of plain code")
    if os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        print(f"\nthe machine was busy with other work (load {os.getloadavg()[0]:.0f}): trust CPU time, not rates")
    for peer, reason in rounds.failures.items():
        print(f"\n{peer} is left out: {reason}")
    for error in dict.fromkeys(f"{one['peer']}: {one['error']}" for one in rounds.samples if one["errors"]):
        print(f"\nrefused, first of all: {error}")


def is_ours(peer: str) -> bool:
    return peer.startswith("ember")


if __name__ == "__main__":
    sys.exit(main())
