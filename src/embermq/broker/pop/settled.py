"""How far the timer is: up to which time everything that waited for it has arrived in its topic."""

from __future__ import annotations

from embermq.clock import Clock
from embermq.timers.timers import Timers


class SettledTime:
    """The time before which nothing waits any more; it never goes back."""

    def __init__(self, timers: Timers | None, clock: Clock) -> None:
        self._timers = timers
        self._clock = clock
        self._settled_ms = 0

    def read_ms(self) -> int:
        """Every record for a time up to this one is where it belongs, as far as it was visible when this is asked."""
        if self._timers is None or self._timers.behind:
            return self._settled_ms
        now, due = self._clock.now_ms(), self._timers.next_time()
        # A slot is read one step after the time it is named after, and has what is due within that step.
        settled = now if due is None else min(now, due - self._timers.form.precision)
        self._settled_ms = max(self._settled_ms, settled)
        return self._settled_ms
