"""Counts and times of a store: rates, percentiles of put times, batch sizes."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

# Upper bounds of the put-time buckets in microseconds: about 20 % apart, from 1 us to 100 s.
_BOUNDS = tuple(sorted({round(10 ** (step / 12)) for step in range(97)}))
_SAMPLES = 601  # one a second: the last ten minutes


@dataclass(frozen=True, slots=True)
class PutStatistics:
    """What was put since the store was opened."""

    messages: int
    bytes: int
    batches: int
    refused: int
    largest_batch: int
    mean_batch: float
    rate_10s: float  # messages a second
    rate_60s: float
    rate_600s: float
    time_p50_us: int  # of one put or put_many, waiting for the disk included
    time_p99_us: int
    time_p999_us: int
    time_max_us: int


class Statistics:
    """Collects them. Counters belong to the writer; `sample` is called once a second."""

    def __init__(self) -> None:
        self.refused = 0
        self._messages = 0
        self._bytes = 0
        self._batches = 0
        self._largest_batch = 0
        self._time_max_us = 0
        self._buckets = [0] * (len(_BOUNDS) + 1)
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)

    def count_put(self, messages: int, size: int, seconds: float) -> None:
        """One put or put_many is done."""
        self._messages += messages
        self._bytes += size
        self._batches += 1
        self._largest_batch = max(self._largest_batch, messages)
        microseconds = int(seconds * 1_000_000)
        self._time_max_us = max(self._time_max_us, microseconds)
        self._buckets[bisect_left(_BOUNDS, microseconds)] += 1

    def sample(self, now: float) -> None:
        """Remember how many messages there are `now` (monotonic seconds), for the rates."""
        self._samples.append((now, self._messages))

    def snapshot(self, now: float) -> PutStatistics:
        return PutStatistics(
            messages=self._messages,
            bytes=self._bytes,
            batches=self._batches,
            refused=self.refused,
            largest_batch=self._largest_batch,
            mean_batch=self._messages / self._batches if self._batches else 0.0,
            rate_10s=self._rate(now, 10),
            rate_60s=self._rate(now, 60),
            rate_600s=self._rate(now, 600),
            time_p50_us=self._percentile(0.50),
            time_p99_us=self._percentile(0.99),
            time_p999_us=self._percentile(0.999),
            time_max_us=self._time_max_us,
        )

    def _rate(self, now: float, seconds: int) -> float:
        for then, messages in self._samples:
            if now - then <= seconds:
                return (self._messages - messages) / (now - then) if now > then else 0.0
        return 0.0

    def _percentile(self, share: float) -> int:
        """The upper bound of the bucket that holds this share of all puts."""
        wanted = share * sum(self._buckets)
        seen = 0
        for bucket, count in enumerate(self._buckets):
            seen += count
            if count and seen >= wanted:
                return min(_BOUNDS[bucket], self._time_max_us) if bucket < len(_BOUNDS) else self._time_max_us
        return 0
