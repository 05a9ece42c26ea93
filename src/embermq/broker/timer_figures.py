"""How the timer is doing, for tools and dashboards."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from embermq.clock import Clock

BOUNDS_S: Final = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)  # RocketMQ's: 5 s to a day
_SAMPLES: Final = 11


@dataclass(frozen=True, slots=True)
class TimerFigures:
    """One moment of a timer."""

    late_ms: int = 0  # how long the oldest message that is due has been so
    late: int = 0  # messages that are due
    behind: int = 0  # messages that are not in the wheel yet
    waiting: int = 0
    by_topic: Mapping[str, int] = field(default_factory=dict)
    enqueued: int = 0  # since the start
    dequeued: int = 0
    enqueue_rate: float = 0.0  # messages a second
    dequeue_rate: float = 0.0
    within: Mapping[int, int] = field(default_factory=dict)  # messages due within so many seconds


def count_within(slots: Iterable[tuple[int, int]], now_ms: int) -> dict[int, int]:
    """How many messages are due within each of BOUNDS_S."""
    counts = dict.fromkeys(BOUNDS_S, 0)
    for time_ms, messages in slots:
        for bound in BOUNDS_S:
            if time_ms - now_ms < bound * 1000:
                counts[bound] += messages
    return counts


class TimerRates:
    """Rates over the last ten samples."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=_SAMPLES)

    def sample(self, enqueued: int, dequeued: int) -> None:
        self._samples.append((self._clock.monotonic(), enqueued, dequeued))

    def rates(self) -> tuple[float, float]:
        """Messages a second that entered the wheel, and that left it."""
        if len(self._samples) < 2:
            return 0.0, 0.0
        (began, first_in, first_out), (ended, last_in, last_out) = self._samples[0], self._samples[-1]
        elapsed = max(ended - began, 0.001)
        return (last_in - first_in) / elapsed, (last_out - first_out) / elapsed
