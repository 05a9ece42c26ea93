"""Pops and acks, EmberMQ beside RocketMQ: python3 dev.py bench pop

A topic is filled; then eight connections pop 32 messages at a time and acknowledge every one of them by a request of
its own, as RocketMQ's push consumer does in POP mode (popgen/pops.c). A message counts when its ack is answered. Both
brokers write a checkpoint for every pop and a record for every ack, in the same form. EmberMQ has one core, the
generator another; RocketMQ may use both. Rounds are interleaved, and the medians are shown, and kept in
bench/results/pop.json by a run of three rounds or more.

    python3 dev.py bench pop --rounds 1 --seconds 2 --only ember-async,rocketmq-async
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.loadgen.generator import CACHE, COMPILER, fill
from bench.report.machine import machine
from bench.servers.peers import PEERS
from bench.servers.server import GENERATOR_CORE, PeerError, Server, kill, pinned

SOURCE = Path(__file__).parent / "popgen" / "pops.c"
RESULTS = Path(__file__).parent / "results" / "pop.json"
NAMES = ("ember-async", "rocketmq-async", "ember-sync", "rocketmq-sync")
QUEUES, CONNECTIONS, SIZE = 8, 8, 256
MOST_A_SECOND = {"ember": 300_000, "rocketmq": 60_000}  # for which there are messages enough
FILLED = 12_000  # a multiple of what the generator fills in at once
KEPT_ROUNDS = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(NAMES), help=f"of {','.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=KEPT_ROUNDS)
    parser.add_argument("--seconds", type=float, default=4, help="of one measurement")
    parser.add_argument(
        "--warmup", type=float, default=8, help="seconds before it, for a broker on a JVM; a quarter else"
    )
    options = parser.parse_args()
    names = options.only.split(",")
    samples: list[dict[str, Any]] = []
    for number in range(options.rounds):
        for name in names:
            samples.append({"peer": name, "round": number, **measure(name, options.seconds, options.warmup)})
            last = samples[-1]
            print(f"{name:16} {last['rate']:>8,.0f} messages/s, {last['cpu_us']:.1f} µs of CPU each", flush=True)
    results = summarize(samples, names)
    show(results)
    if options.rounds >= KEPT_ROUNDS and names == list(NAMES):
        RESULTS.write_text(json.dumps({"machine": machine(), **results, "samples": samples}, indent=1) + "\n")
    return int(any(sample["errors"] or sample["doubles"] for sample in samples if sample["peer"].startswith("ember")))


def measure(name: str, seconds: float, warmup: float) -> dict[str, Any]:
    """Start a broker, fill a topic, and pop it."""
    if name.startswith("ember"):
        warmup /= 4
    with tempfile.TemporaryDirectory(prefix=f"bench-pop-{name}-") as folder:
        server = PEERS[name].start(Path(folder))
        try:
            server.need_topic("pops", QUEUES)
            filled = int(MOST_A_SECOND[name.partition("-")[0]] * (seconds + warmup)) // FILLED * FILLED
            fill(server, "pops", filled, size=SIZE)
            found = drive(server, seconds, warmup)
            if found["popped"] >= filled:
                raise PeerError(f"{name} popped all {filled} messages before the end; fill in more")
            return found
        finally:
            kill(server.process)


def drive(server: Server, seconds: float, warmup: float) -> dict[str, Any]:
    used = server.cpu_seconds()
    command = [*pinned(GENERATOR_CORE), str(program()), str(server.port), str(CONNECTIONS), str(warmup), str(seconds)]
    done = subprocess.run(
        [*command, "pops", "bench_pops"], capture_output=True, text=True, timeout=seconds + warmup + 120, check=False
    )
    if done.returncode:
        raise PeerError(done.stderr.strip() or f"the generator ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    cpu_us = (server.cpu_seconds() - used) / max(found["popped"], 1) * 1e6  # with the warm-up, as `popped` is
    return {**found, "rate": found["acked"] / found["seconds"], "cpu_us": cpu_us}


def program() -> Path:
    """Build the generator, unless that was done."""
    built = CACHE / f"pops-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}"
    if not built.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            unfinished = Path(folder) / "pops"
            subprocess.run([*COMPILER, "-o", str(unfinished), str(SOURCE)], check=True)
            unfinished.rename(built)
    return built


def summarize(samples: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    rates = {name: statistics.median(each["rate"] for each in samples if each["peer"] == name) for name in names}
    ratios = {
        mode: rates[f"ember-{mode}"] / rates[f"rocketmq-{mode}"]
        for mode in ("async", "sync")
        if f"ember-{mode}" in rates and rates.get(f"rocketmq-{mode}")
    }
    return {"rates": rates, "ratios": ratios}


def show(results: dict[str, Any]) -> None:
    print("\nmessages popped and acknowledged a second")
    for name, rate in results["rates"].items():
        print(f"  {name:16} {rate:>8,.0f}")
    for mode, ratio in results["ratios"].items():
        print(f"  EmberMQ, {mode}: {ratio:.1f} times RocketMQ")


if __name__ == "__main__":
    raise SystemExit(main())
