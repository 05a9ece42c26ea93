"""Counters, and what they did in the last minute, hour and day.

    minute   a snapshot every 10 s, 7 kept      hour   every 10 min, 7 kept      day   every hour, 25 kept

A counter that nobody counts is not looked at: it leaves a window as soon as all its snapshots are
the same, and comes back with the next count. So a broker with many quiet queues pays for the busy
ones alone.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class Counter:
    """Running sums: how many messages, of how many bytes, in how many requests."""

    __slots__ = ("messages", "size", "times", "watched")

    def __init__(self) -> None:
        self.messages = 0
        self.size = 0
        self.times = 0
        self.watched = 0  # one bit for each window that takes snapshots of it

    def add(self, messages: int, size: int = 0) -> None:
        self.messages += messages
        self.size += size
        self.times += 1


_Snapshot = tuple[int, int, int, int]  # time in ms, messages, size, times: plain, because there are so many


class Figures(NamedTuple):
    """What was counted in a window."""

    sum: int = 0
    rate: float = 0.0  # a second
    mean: float = 0.0  # of one request


class Window:
    """The snapshots of all counters that moved in the last `period_s` × (`keep` − 1) seconds."""

    def __init__(self, bit: int, *, period_s: int, keep: int) -> None:
        self.bit = bit
        self.period_s = period_s
        self._keep = keep
        self._histories: dict[Counter, deque[_Snapshot]] = {}
        self._at_rest: dict[Counter, _Snapshot] = {}  # the last snapshot of those that left

    def watch(self, counter: Counter) -> None:
        """Take snapshots of `counter` from now on."""
        counter.watched |= self.bit
        self._histories.setdefault(counter, deque(maxlen=self._keep))

    def forget(self, counter: Counter) -> None:
        self._histories.pop(counter, None)
        self._at_rest.pop(counter, None)

    def sample(self, now_ms: int) -> None:
        """Take a snapshot of every counter that moves."""
        resting = []
        for counter, history in self._histories.items():
            if not history:
                self._begin(counter, history, now_ms)
            history.append((now_ms, counter.messages, counter.size, counter.times))
            if history[0][3] == counter.times and len(history) == self._keep:
                resting.append(counter)
        for counter in resting:
            self._at_rest[counter] = self._histories.pop(counter)[-1]
            counter.watched &= ~self.bit

    def _begin(self, counter: Counter, history: deque[_Snapshot], now_ms: int) -> None:
        """What was before: nothing for a new counter, and always the same for one that was at rest."""
        last = self._at_rest.pop(counter, None)
        period_ms = self.period_s * 1000
        if last is None:
            history.append((now_ms - period_ms, 0, 0, 0))
        else:
            history.extend((now_ms - n * period_ms, *last[1:]) for n in range(self._keep - 1, 0, -1))

    def figures(self, counter: Counter, *, of_size: bool) -> Figures:
        """The difference of its last snapshot and its first."""
        history = self._histories.get(counter)
        if not history:
            return Figures()
        elapsed, messages, size, times = (last - first for first, last in zip(history[0], history[-1], strict=True))
        total = size if of_size else messages
        rate = total * 1000.0 / elapsed if elapsed > 0 else 0.0
        return Figures(total, rate, total / times if times > 0 else 0.0)
