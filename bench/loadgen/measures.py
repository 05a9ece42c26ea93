"""What is measured, by name, and which servers take part in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.loadgen.generator import FILL_BATCH, KIB, Load, Shape, drive, fill
from bench.servers.server import Server

ASYNC = ("ember-async", "ember-plain", "redis-everysec", "nats", "rocketmq-async", "kafka")
WITH_BATCHES = ("ember-async", "ember-plain", "rocketmq-async", "kafka")
SYNC = ("ember-sync", "redis-always", "rocketmq-sync")
FILLED = 128_000  # messages that a pull finds: whole pulls of 32 and of 1000 from each of 4 queues
Sample = dict[str, Any]


@dataclass(frozen=True)
class Measure:
    """One load, and what it is called."""

    name: str
    title: str
    load: Load
    peers: Sequence[str]

    @property
    def kind(self) -> str:
        """Measures of one kind run the same code of a server: one warm-up is enough for all of them."""
        return "batch" if self.load.work == "send" and self.load.batch > 1 else self.load.work

    def take(self, server: Server, turn: int, *, seconds: float, warmup: float) -> Sample:
        """Run it once; `turn` tells a server's runs of it apart."""
        topic = {"send": "bench", "pull": "pulls", "relay": f"relay-{turn}"}[self.load.work]
        load = self.load if server.has_batches else replace(self.load, batch=1)
        is_new = topic not in server.stored
        server.need_topic(topic)
        if load.work == "pull" and is_new:
            fill(server, topic, FILLED)
        limit = FILLED if load.work == "pull" else 0
        return drive(server, load, topic, seconds=seconds, warmup=warmup, limit=limit)


def _send(shape: str, *, size: int = KIB, name: str = "") -> Measure:
    parsed = Shape.parse(shape)
    words = f"{size // KIB} KiB" if size >= KIB else f"{size} B"
    title = f"send {words}, {parsed.connections} × {parsed.window}"
    return Measure(name or f"send-{shape}", title, Load("send", parsed, size=size), ASYNC)


def _pull(count: int, shape: str) -> Measure:
    load = Load("pull", Shape.parse(shape), batch=FILL_BATCH, per_pull=count)
    return Measure(f"pull-{count}", f"pulls of {count}", load, ASYNC)


MEASURES = {
    measure.name: measure
    for measure in (
        _send("4x128"),
        _send("8x16"),
        _send("64x1"),
        _send("1x1"),
        _send("4x128", size=100, name="send-100b"),
        _send("4x128", size=4 * KIB, name="send-4k"),
        Measure("batch-32", "batches of 32", Load("send", Shape(4, 16), batch=32), WITH_BATCHES),
        Measure("sync-4x128", "send 1 KiB, 4 × 128, to disk", Load("send", Shape(4, 128)), SYNC),
        _pull(32, "4x8"),
        _pull(1000, "4x2"),
        Measure("consume", "send and consume at once", Load("relay", Shape(4, 128)), ASYNC),
    )
}
