"""The bars: how many times another server's speed EmberMQ must reach, and whether a run reached it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report.medians import Row, find_ratio

PUT_MANY_SHARE = 0.35  # of copying the same bytes into the same kind of map
GROWTH_SHARE = 0.8  # of the largest rate that the smallest must have


@dataclass(frozen=True)
class Outcome:
    """A bar, and what was found; `found` is None where it was not measured."""

    text: str
    wanted: float
    found: float | None
    unit: str = "×"
    cpu: float | None = None  # the same ratio per CPU second, where the bar is one of messages a second

    @property
    def word(self) -> str:
        if self.found is None:
            return "not measured"
        return "reached" if self.found >= self.wanted else "not reached"


@dataclass(frozen=True)
class Bar:
    """`ours` has at least `wanted` times the speed of `theirs`; each is a measure and a server."""

    text: str
    wanted: float
    ours: tuple[str, str]
    theirs: tuple[str, str]
    per_cpu: bool = False

    def outcome(self, rows: Sequence[Row]) -> Outcome:
        ratio = find_ratio(rows, self.ours, self.theirs)
        if ratio is None:
            return Outcome(self.text, self.wanted, None)
        if self.per_cpu:
            return Outcome(self.text, self.wanted, ratio.cpu)
        return Outcome(self.text, self.wanted, ratio.rate, cpu=ratio.cpu)


def _bar(text: str, wanted: float, measure: str, theirs: str, *, ours: str = "ember-async") -> Bar:
    return Bar(text, wanted, (measure, ours), (measure, theirs))


BARS = (
    _bar("send 4 × 128, to Redis everysec", 3, "send-4x128", "redis-everysec"),
    _bar("send 4 × 128, to NATS", 2.5, "send-4x128", "nats"),
    _bar("send 4 × 128, to RocketMQ", 10, "send-4x128", "rocketmq-async"),
    _bar("send 4 × 128 without engine, to Redis everysec", 0.4, "send-4x128", "redis-everysec", ours="ember-plain"),
    _bar("send 4 × 128 without engine, to RocketMQ", 1.5, "send-4x128", "rocketmq-async", ours="ember-plain"),
    Bar("batches of 32, to Redis everysec", 6, ("batch-32", "ember-async"), ("send-4x128", "redis-everysec")),
    Bar(
        "batches of 32, to Kafka, per CPU second", 10, ("batch-32", "ember-async"), ("batch-32", "kafka"), per_cpu=True
    ),
    _bar("send 64 × 1, to Redis everysec", 0.9, "send-64x1", "redis-everysec"),
    _bar("sync, 512 in flight, to Redis always", 3, "sync-4x128", "redis-always", ours="ember-sync"),
    _bar("sync, 512 in flight, to RocketMQ SYNC_FLUSH", 5, "sync-4x128", "rocketmq-sync", ours="ember-sync"),
    _bar("pulls of 32, to Redis XRANGE", 1.5, "pull-32", "redis-everysec"),
    _bar("pulls of 1000, to Redis XRANGE", 2.5, "pull-1000", "redis-everysec"),
)


def outcomes(rows: Sequence[Row], append: Mapping[str, Any], growth: Mapping[str, Any]) -> list[Outcome]:
    """Every bar: those of `peers`, and those of `append` and `growth`, whose results may be empty."""
    text = "put_many in process, 1000 × 1 KiB, of a copy into the same warm map"
    found = [bar.outcome(rows) for bar in BARS]
    found.append(Outcome(text, PUT_MANY_SHARE, put_many_share(append), unit="share"))
    for kind, what in (("queues", "1, 100 and 10 000 queues"), ("log", "1 MiB, 1 GiB and 20 GiB of log")):
        text = f"growth: the smallest rate to the largest, with {what}"
        found.append(Outcome(text, GROWTH_SHARE, growth_share(growth, kind), unit="share"))
    return found


def put_many_share(append: Mapping[str, Any]) -> float | None:
    """What puts of 1000 messages of 1 KiB into warm pages have of a plain copy's speed."""
    share: float | None = append.get("put_many_of_copy")
    return share


def growth_share(growth: Mapping[str, Any], kind: str) -> float | None:
    """What the smallest rate has of the largest; None unless all three were measured."""
    rates = [row["rate"] for row in growth.get("rows", ()) if row["kind"] == kind]
    return min(rates) / max(rates) if len(rates) == 3 else None
