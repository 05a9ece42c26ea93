"""Messages for a time of their own, EmberMQ beside RocketMQ: python3 dev.py bench delay

Each server is sent messages that are all due in the same second, some seconds ahead, over several connections with
many sends under way; then it is watched as it delivers them. Shown are, for each server, the medians of some rounds:
how many it accepts in a second, and how many it delivers in a second from the moment they are due until the last one
can be read. No message may come early, and all must come, or the bench fails.
Results also go to bench/results/delay.json.
"""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import struct
import threading
import time
from pathlib import Path
from typing import Any

from bench.report.machine import machine
from bench.servers.peers import PEERS
from bench.servers.server import QUEUES, Server, running
from embermq.format.command import Command, encode_command, make_request
from embermq.model.codes import RequestCode

RESULTS = Path(__file__).parent / "results" / "delay.json"
SERVERS = ("ember-async", "rocketmq-async", "ember-sync", "rocketmq-sync")
CONNECTIONS, WINDOW = 4, 256
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
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    return 0


def measure(server: Server, topic: str, options: argparse.Namespace) -> dict[str, float]:
    """Send, wait and watch, once."""
    server.make_topic(topic, QUEUES)
    lead_s = max(options.messages / 5_000, 5.0)  # so that the slowest has accepted all before they are due
    due = (int(time.time() + lead_s) + 1) * 1000
    body = b"x" * options.size
    parts = [options.messages // CONNECTIONS] * CONNECTIONS
    frames = [make_frames(topic, body, due, count, number) for number, count in enumerate(parts)]
    began = time.monotonic()
    senders = [threading.Thread(target=send, args=(server.port, each)) for each in frames]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    accepted_s = time.monotonic() - began
    if time.time() * 1000 >= due:
        raise SystemExit(f"{sum(parts)} messages took {accepted_s:.1f} s to be accepted, and some were due before")
    first_s, last_s = watch(server.port, topic, sum(parts), due)
    return {
        "accepted/s": sum(parts) / accepted_s,
        "delivered/s": sum(parts) / max(last_s, 0.001),
        "first after ms": first_s * 1000,
        "last after ms": last_s * 1000,
    }


def make_frames(topic: str, body: bytes, due: int, count: int, part: int) -> list[bytes]:
    """The requests of one connection, made before time is taken."""
    frames = []
    for number in range(count):
        properties = f"UNIQ_KEY\x01{part:02X}{number:030X}\x02WAIT\x01true\x02TIMER_DELIVER_MS\x01{due}\x02"
        fields = {
            "a": "bench", "b": topic, "c": "TBW102", "d": str(QUEUES), "e": str(number % QUEUES), "f": "0",
            "g": str(due), "h": "0", "i": properties, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        frames.append(encode_command(Command(RequestCode.SEND_MESSAGE_V2, fields, body, opaque=number + 1)))
    return frames


def send(port: int, frames: list[bytes]) -> None:
    """Send all, with so many under way at most; every answer must be a success."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sent = answered = 0
        rest = b""
        while answered < len(frames):
            if sent < len(frames) and sent - answered <= WINDOW // 2:
                batch = frames[sent : answered + WINDOW]
                connection.sendall(b"".join(batch))
                sent += len(batch)
            data = rest + connection.recv(1 << 18)
            count, rest = count_answers(data)
            answered += count


def count_answers(data: bytes) -> tuple[int, bytes]:
    """How many whole answers there are, and what follows them. Ends the bench if one is no success."""
    count = at = 0
    while len(data) - at >= _HEAD.size:
        (size,) = struct.unpack_from(">I", data, at)
        if len(data) - at < 4 + size:
            break
        frame = data[at + _HEAD.size : at + 4 + size]
        if b'"code":0,' not in frame and b'"code":0}' not in frame:
            raise SystemExit(f"a send was refused: {frame[:500]!r}")
        at += 4 + size
        count += 1
    return count, data[at:]


def watch(port: int, topic: str, count: int, due: int) -> tuple[float, float]:
    """How many seconds after they were due the first and the last message could be read."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        first = 0.0
        while True:
            there = sum(ask_end(connection, answers, topic, queue) for queue in range(QUEUES))
            now = time.time()
            if there and now * 1000 < due:
                raise SystemExit(f"{there} messages came {due - now * 1000:.0f} ms early")
            if there and not first:
                first = now
            if there >= count:
                return max(first - due / 1000, 0.0), max(now - due / 1000, 0.0)
            if now > due / 1000 + PATIENCE_S:
                raise SystemExit(f"{there} of {count} messages came in {PATIENCE_S:.0f} s")
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
            ratios[mode] = {key: ours[key] / theirs[key] for key in ("accepted/s", "delivered/s")}
            print(
                f"EmberMQ to RocketMQ, {mode}: "
                + ", ".join(f"{key} × {ratio:.2f}" for key, ratio in ratios[mode].items())
            )
    return {"machine": machine(), "medians": medians, "ratios": ratios, "samples": samples}


if __name__ == "__main__":
    raise SystemExit(main())
