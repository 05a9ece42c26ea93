"""Transactions beside RocketMQ's broker, in one run: python3 dev.py bench transaction

Connections send half messages, so many at a time each, and commit every one as soon as it is answered, as
transactional producers do whose own transactions take no time. Measured is how many committed messages a second can be
read. A commit is not answered, and RocketMQ's broker forgets some under load, which it would ask about later: those
are counted as lost; EmberMQ may lose none. The server has one core and the generator another; RocketMQ's may use all,
and is warmed up first. Rounds take turns, and the medians count.

    python3 dev.py bench transaction --only ember-async --rounds 1 --seconds 1
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import statistics
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from bench.report.machine import machine
from bench.servers.peers import PEERS
from bench.servers.server import GENERATOR_CORE, QUEUES, Server, running

RESULTS: Final = Path(__file__).parent / "results" / "transaction.json"
NAMES: Final = ("ember-async", "rocketmq-async", "ember-sync", "rocketmq-sync")
TARGET: Final = 2.0  # times RocketMQ's rate
TOPIC: Final = "transactions"
GROUP: Final = "PID_bench"
PATIENCE_SECONDS: Final = 5.0  # without one more message, after which the rest is taken for lost
_HEAD: Final = struct.Struct(">II")
_SIZE: Final = struct.Struct(">I")


@dataclass
class Connection:
    """One producer: what it has sent and not yet been answered, and what it has received of the next answer."""

    socket: socket.socket
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)


class Generator:
    """Begins and commits transactions at several connections."""

    def __init__(self, port: int, *, connections: int, window: int, size: int) -> None:
        self._port = port
        self._window = window
        self._body = b"x" * size
        self._numbers = count(1)
        self._selector = selectors.DefaultSelector()
        self._connections = [self._connect() for _ in range(connections)]
        self.ended = 0
        self.refused = 0
        self._is_going = True

    def _connect(self) -> Connection:
        made = Connection(socket.create_connection(("127.0.0.1", self._port)))
        made.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.socket.setblocking(False)
        self._selector.register(made.socket, selectors.EVENT_READ, made)
        return made

    def run(self, seconds: float) -> int:
        """Work for so long, and until everything is answered; how many transactions were committed."""
        before = self.ended
        self._is_going, deadline = True, time.monotonic() + seconds
        for connection in self._connections:
            connection.unsent += b"".join(self._half() for _ in range(self._window))
            _flush(connection)
        open_halves = self._window * len(self._connections)
        while open_halves > 0:
            self._is_going = self._is_going and time.monotonic() < deadline
            for key, _ in self._selector.select(1.0):
                open_halves -= self._receive(key.data)
            for connection in self._connections:
                _flush(connection)
        return self.ended - before

    def _receive(self, connection: Connection) -> int:
        """Commit what was answered, and begin as many; how many were not begun again."""
        try:
            data = connection.socket.recv(1 << 18)
        except BlockingIOError:
            return 0
        if not data:
            raise SystemExit("the server closed a connection")
        connection.received += data
        parts, closed = [], 0
        for header in _take_headers(connection.received):
            end = self._end(header)
            if end:
                parts.append(end)
                self.ended += 1
            else:
                self.refused += 1
            if self._is_going:
                parts.append(self._half())
            else:
                closed += 1
        connection.unsent += b"".join(parts)
        return closed

    def _half(self) -> bytes:
        number = next(self._numbers)
        properties = (
            f"TRAN_MSG\\u0001true\\u0002UNIQ_KEY\\u0001{number:032X}\\u0002WAIT\\u0001true\\u0002PGROUP\\u0001{GROUP}"
        )
        fields = (
            f'"a":"{GROUP}","b":"{TOPIC}","c":"TBW102","d":"4","e":"{number % QUEUES}","f":"4",'
            f'"g":"{int(time.time() * 1000)}","h":"0","i":"{properties}\\u0002","j":"0","k":"false","m":"false"'
        )
        return _frame(310, fields, number, self._body)

    def _end(self, header: bytes) -> bytes:
        """The commit of the half message that an answer is for; nothing if it was refused."""
        message_id, offset = _field(header, b'"msgId":"'), _field(header, b'"queueOffset":"')
        if b'"code":0' not in header or not message_id:
            return b""
        position = int(message_id[16:32], 16)
        fields = (
            f'"producerGroup":"{GROUP}","tranStateTableOffset":"{offset.decode()}","commitLogOffset":"{position}",'
            '"commitOrRollback":"8","fromTransactionCheck":"false","msgId":"x","transactionId":"x"'
        )
        return _frame(37, fields, next(self._numbers), flag=2)

    def ask(self, code: int, fields: str) -> bytes:
        """The header of the answer to one request, on a connection of its own."""
        with socket.create_connection(("127.0.0.1", self._port), 10) as asking:
            asking.sendall(_frame(code, fields, 1))
            received = bytearray()
            while True:
                received += asking.recv(65536)
                for header in _take_headers(received):
                    return header

    def close(self) -> None:
        for connection in self._connections:
            connection.socket.close()


def _flush(connection: Connection) -> None:
    if connection.unsent:
        try:
            sent = connection.socket.send(connection.unsent)
        except BlockingIOError:
            return
        del connection.unsent[:sent]


def _frame(code: int, fields: str, opaque: int, body: bytes = b"", *, flag: int = 0) -> bytes:
    header = (
        f'{{"code":{code},"extFields":{{{fields}}},"flag":{flag},"language":"JAVA","opaque":{opaque},'
        '"serializeTypeCurrentRPC":"JSON","version":479}'
    ).encode()
    return _HEAD.pack(4 + len(header) + len(body), len(header)) + header + body


def _take_headers(received: bytearray) -> Iterator[bytes]:
    """The headers of whole frames, which are taken out."""
    at = 0
    data = bytes(received)
    while len(data) - at >= _HEAD.size:
        size, header = _HEAD.unpack_from(data, at)
        if len(data) - at < _SIZE.size + size:
            break
        yield data[at + _HEAD.size : at + _HEAD.size + (header & 0xFF_FFFF)]
        at += _SIZE.size + size
    del received[:at]


def _field(header: bytes, name: bytes) -> bytes:
    begin = header.find(name)
    return header[begin + len(name) : header.index(b'"', begin + len(name))] if begin >= 0 else b""


def measure(server: Server, options: argparse.Namespace, *, seconds: float) -> dict[str, float]:
    """Transactions a second, until all of them can be read."""
    generator = Generator(server.port, connections=options.connections, window=options.window, size=options.size)
    before = readable(generator)
    began = time.monotonic()
    ended = generator.run(seconds)
    found, grown = readable(generator), time.monotonic()
    while found < before + ended and time.monotonic() < grown + PATIENCE_SECONDS:
        time.sleep(0.01)
        last, found = found, readable(generator)
        grown = time.monotonic() if found > last else grown
    generator.close()
    found -= before
    if found > ended:
        raise SystemExit(f"{ended} transactions were committed, {found} messages are there")
    server.stored[TOPIC] += found
    return {"rate": found / (grown - began), "ended": ended, "lost": ended - found, "refused": generator.refused}


def readable(generator: Generator) -> int:
    """How many committed messages consumers can read."""
    return sum(
        int(_field(generator.ask(30, f'"topic":"{TOPIC}","queueId":"{queue}"'), b'"offset":"') or 0)
        for queue in range(QUEUES)
    )


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
    if (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {int(GENERATOR_CORE)})
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
                print(f"{name:16} {sample['rate']:10,.0f} transactions/s, {sample['lost']:,.0f} lost", flush=True)
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
