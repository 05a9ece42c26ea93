"""Messages for later: how one is parked in the topic of its delay level, and taken back from there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from embermq.model.properties import (
    DELAY,
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
)
from embermq.model.topic import SCHEDULE_TOPIC

_TIMERS = (TIMER_DELIVER_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS)  # a level wins over them


class Target(NamedTuple):
    """Where a message goes, and with which properties."""

    topic: str
    queue: int
    properties: Mapping[str, str]


def delay_level_of(properties: Mapping[str, str]) -> int:
    """The delay level that a message asks for; 0 for none, and for nonsense, as in RocketMQ."""
    text = properties.get(DELAY, "")
    return int(text) if len(text) <= 9 and text.isascii() and text.isdigit() else 0


def park(target: Target, *, levels: int) -> Target:
    """Where a message must wait if it asks for a delay level, else where it goes anyway."""
    level = min(delay_level_of(target.properties), levels)
    if level <= 0:
        return target
    kept = {name: value for name, value in target.properties.items() if name not in _TIMERS}
    kept |= {DELAY: str(level), REAL_TOPIC: target.topic, REAL_QUEUE: str(target.queue)}
    return Target(SCHEDULE_TOPIC, level - 1, kept)


def unpark(properties: Mapping[str, str]) -> tuple[str, int] | None:
    """The topic and queue that a parked message is for; None if it does not tell."""
    topic, queue = properties.get(REAL_TOPIC), properties.get(REAL_QUEUE, "")
    if not topic or not (queue.isascii() and queue.isdigit()):
        return None
    return topic, int(queue)
