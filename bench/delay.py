"""Messages for a time of their own, EmberMQ beside RocketMQ: python3 dev.py bench delay

Each server is sent messages that are all due in the same second, some seconds ahead, over several connections with
many sends under way, by the compiled generator (bench/loadgen); then it is watched as it delivers them. Shown are, for
each server, the medians of some rounds: how many it accepts in a second, how many it delivers in a second from the
moment they are due until the last one can be read, and its CPU time for a message in both. No message may come early,
and all must come, or the bench fails. EmberMQ has one core, the generator another; RocketMQ may use both. The first
round of each, which warms it up, does not count.
Results also go to bench/results/delay.json.

    python3 dev.py bench delay --messages 20000 --rounds 1 --only ember-async,rocketmq-async
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import struct
import time
from pathlib import Path
from typing import Any, Final

from bench.loadgen.generator import Load, Shape, drive
from bench.report.machine import machine
from bench.servers.peers import PEERS
from bench.servers.server import QUEUES, PeerError, Server, running
from embermq.format.command import encode_command, make_request
from embermq.model.codes import RequestCode

RESULTS = Path(__file__).parent / "results" / "delay.json"
SERVERS = ("ember-async", "rocketmq-async", "ember-sync", "rocketmq-sync")
SHAPE: Final = Shape(connections=4, window=256)
TARGET: Final = 2.0  # times RocketMQ's rates
RATES: Final = ("accepted/s", "delivered/s")
POLL_S = 0.005
PATIENCE_S = 120.0
_HEAD = struct.Struct(">II")


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=100_000, help="that are due in one second")
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(SERVERS), help="names of servers, with commas between them")
    options = parser.parse_args()
    samples: dict[str, list[dict[str, float]]] = {}
    for name in options.only.split(","):
        with running(PEERS[name]) as server:
            for number in range(options.rounds + 1):  # the first one warms up
                sample = measure(server, f"delay{number:04}", options)
                if number:
                    samples.setdefault(name, []).append(sample)
                print(f"{name:>15}  " + "  ".join(f"{key} {value:,.0f}" for key, value in sample.items()), flush=True)
            server.stored.clear()  # the timer's topic holds each message, too, so nothing can be compared with it
    results = conclude(samples)
    if set(SERVERS) <= set(samples):
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results | {"options": vars(options)}, indent=1) + "\n")
    return int(any(ratio < TARGET for each in results["ratios"].values() for ratio in each.values()))


def measure(server: Server, topic: str, options: argparse.Namespace) -> dict[str, float]:
    """Send, wait and watch, once."""
    server.make_topic(topic, QUEUES)
    count = options.messages // SHAPE.connections * SHAPE.connections
    lead_s = max(count / 3_000, 8.0)  # so that the slowest has accepted all before they are due
    due = (int(time.time() + lead_s) + 1) * 1000
    accepted = drive(server, Load("fill", SHAPE, size=options.size, due=due), topic, seconds=0, limit=count)
    if accepted["errors"] or accepted["acknowledged"] != count:
        raise PeerError(f"{accepted['acknowledged']} of {count} messages were accepted: {accepted['error']}")
    if time.time() * 1000 >= due:
        raise PeerError(f"{count} messages took {accepted['seconds']:.1f} s to be accepted, and some were due before")
    time.sleep(max(due / 1000 - 0.5 - time.time(), 0))
    before = server.cpu_seconds()
    first_s, last_s = watch(server.port, topic, count, due)
    return {
        "accepted/s": accepted["rate"],
        "delivered/s": count / max(last_s, 0.001),
        "first after ms": first_s * 1000,
        "last after ms": last_s * 1000,
        "accepting ns": accepted["cpu_us"] * 1000,
        "delivering ns": (server.cpu_seconds() - before) / count * 1e9,
    }


def watch(port: int, topic: str, count: int, due: int) -> tuple[float, float]:
    """How many seconds after they were due the first and the last message could be read."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        first = 0.0
        while True:
            there = sum(ask_end(connection, answers, topic, queue) for queue in range(QUEUES))
            now = time.time()
            if there and now * 1000 < due:
                raise PeerError(f"{there} messages came {due - now * 1000:.0f} ms early")
            if there and not first:
                first = now
            if there >= count:
                return max(first - due / 1000, 0.0), max(now - due / 1000, 0.0)
            if now > due / 1000 + PATIENCE_S:
                raise PeerError(f"{there} of {count} messages came in {PATIENCE_S:.0f} s")
            time.sleep(POLL_S)


def ask_end(connection: socket.socket, answers: Any, topic: str, queue: int) -> int:
    request = make_request(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": str(queue)})
    connection.sendall(encode_command(request))
    size, header_size = _HEAD.unpack(answers.read(_HEAD.size))
    answer = json.loads(answers.read(size - 4)[: header_size & 0xFFFFFF])
    return int(answer["extFields"]["offset"])


def conclude(samples: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Medians, and EmberMQ's beside RocketMQ's."""
    medians = {
        name: {key: statistics.median(sample[key] for sample in each) for key in each[0]}
        for name, each in samples.items()
    }
    ratios = {}
    for mode in ("async", "sync"):
        ours, theirs = medians.get(f"ember-{mode}"), medians.get(f"rocketmq-{mode}")
        if ours and theirs:
            ratios[mode] = {key: ours[key] / theirs[key] for key in RATES}
            print(
                f"EmberMQ to RocketMQ, {mode}: "
                + ", ".join(f"{key} × {ratio:.2f}" for key, ratio in ratios[mode].items())
                + f"; {TARGET:g} wanted"
            )
    return {"machine": machine(), "medians": medians, "ratios": ratios, "samples": samples}


if __name__ == "__main__":
    raise SystemExit(main())
