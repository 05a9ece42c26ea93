"""`config/timermetrics`: how many messages wait for each topic, on one line of JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from embermq.format.json_fields import Fields, parse_fields
from embermq.format.tables import encode_metrics, read_version, version_members
from embermq.model.version import DataVersion


class Waiting(NamedTuple):
    """Messages that wait for one topic, and when that changed last."""

    messages: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class TimerMetrics:
    """Waiting messages by topic."""

    version: DataVersion = field(default_factory=DataVersion)
    waiting: Mapping[str, Waiting] = field(default_factory=dict)


def decode_timer_metrics(data: str | bytes) -> TimerMetrics:
    """Raises CorruptRecord."""
    fields = parse_fields(data, "timermetrics")
    waiting = {}
    for topic, value in fields.items("timingCount"):
        each = Fields(value, f"timermetrics of {topic}")
        waiting[topic] = Waiting(each.integer("count"), each.integer("timeStamp"))
    return TimerMetrics(read_version(fields), waiting)


def encode_timer_metrics(metrics: TimerMetrics) -> bytes:
    waiting = {topic: {"count": each.messages, "timeStamp": each.time_ms} for topic, each in metrics.waiting.items()}
    return encode_metrics({"dataVersion": version_members(metrics.version), "timingCount": waiting})
