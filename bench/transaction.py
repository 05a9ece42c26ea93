"""Transactions beside RocketMQ's broker, in one run: python3 dev.py bench transaction

The compiled generator (bench/loadgen) sends half messages over some connections, so many at a time each, and commits
every one as soon as it is answered, as transactional producers do whose own transactions take no time. Measured is how
many committed messages a second can be read, and the server's CPU time for each. A commit is not answered, and
RocketMQ's broker forgets some under load, which it would ask about later: those are counted as lost; EmberMQ may lose
none. The server has one core and the generator another; RocketMQ's may use all, and is warmed up first. Rounds take
turns, and the medians count.

    python3 dev.py bench transaction --only ember-async --rounds 1 --seconds 1
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import sys
import time
from pathlib import Path
from typing import Final

from bench.delay import ask_end
from bench.loadgen.generator import Load, Shape, drive
from bench.report.machine import machine
from bench.servers.peers import PEERS
from bench.servers.server import QUEUES, PeerError, Server, running

RESULTS: Final = Path(__file__).parent / "results" / "transaction.json"
NAMES: Final = ("ember-async", "rocketmq-async", "ember-sync", "rocketmq-sync")
TARGET: Final = 2.0  # times RocketMQ's rate
TOPIC: Final = "transactions"
PATIENCE_SECONDS: Final = 5.0  # without one more message, after which the rest is taken for lost


def measure(server: Server, options: argparse.Namespace, *, seconds: float) -> dict[str, float]:
    """Transactions a second, until all of them can be read."""
    load = Load("send", Shape(options.connections, options.window), size=options.size, commits=True)
    before, used = readable(server.port), server.cpu_seconds()
    began = time.monotonic()
    sent = drive(server, load, TOPIC, seconds=seconds, warmup=0)
    ended = sent["acknowledged"]
    found, grown = readable(server.port), time.monotonic()
    while found < before + ended and time.monotonic() < grown + PATIENCE_SECONDS:
        time.sleep(0.01)
        last, found = found, readable(server.port)
        grown = time.monotonic() if found > last else grown
    found -= before
    if found > ended:
        raise PeerError(f"{ended} transactions were committed, {found} messages are there")
    server.stored[TOPIC] += found - ended  # RocketMQ may have lost some
    return {
        "rate": found / (grown - began),
        "ended": ended,
        "lost": ended - found,
        "refused": sent["errors"],
        "cpu_us": (server.cpu_seconds() - used) / found * 1e6,
        "generator_share": sent["generator_share"],
    }


def readable(port: int) -> int:
    """How many committed messages consumers can read."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        return sum(ask_end(connection, answers, TOPIC, queue) for queue in range(QUEUES))


def parse_options() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(NAMES), help=f"of {','.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warmup", type=float, default=15, help="seconds, for RocketMQ's broker")
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--window", type=int, default=64, help="transactions under way at each")
    parser.add_argument("--size", type=int, default=256, help="bytes of a message")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    names = [name for name in NAMES if name in options.only.split(",")]
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            with running(PEERS[name]) as server:
                server.need_topic(TOPIC)
                if PEERS[name].stays:
                    measure(server, options, seconds=options.warmup)
                sample = measure(server, options, seconds=options.seconds)
                samples[name].append(sample)
                print(
                    f"{name:16} {sample['rate']:10,.0f} transactions/s, {sample['lost']:,.0f} lost, "
                    f"{sample['cpu_us']:.1f} µs of CPU each; generator {sample['generator_share']:.0%}",
                    flush=True,
                )
                if name.startswith("ember") and sample["lost"]:
                    return 1
    rates = {name: statistics.median(each["rate"] for each in samples[name]) for name in names}
    failed = show(rates)
    if len(names) == len(NAMES):
        RESULTS.parent.mkdir(exist_ok=True)
        results = {"machine": machine(), "options": vars(options), "rates": rates, "samples": samples}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return int(failed)


def show(rates: dict[str, float]) -> bool:
    """Print the medians; whether one is below its target."""
    failed = False
    for name, rate in rates.items():
        beside = rates.get(name.replace("ember", "rocketmq")) if name.startswith("ember") else None
        words = "" if beside is None else f"   {rate / beside:.1f} times RocketMQ's, {TARGET:g} wanted"
        failed |= beside is not None and rate < TARGET * beside
        print(f"{name:16} {rate:10,.0f} transactions/s{words}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
