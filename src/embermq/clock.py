"""The time. Code that needs it takes a Clock, so that a test can bring its own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What tells the time."""

    def now_ms(self) -> int:
        """Milliseconds since 1970: what is written into records. May jump."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start: what waits are measured with. Never jumps."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
