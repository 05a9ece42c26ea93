"""What is measured while a server works, so cheaply that it always is: times of requests, sizes of messages, lag."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from embermq.log.placed import Batch, Placed

# RocketMQ's bounds.
RPC_BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1000, 2000, 3000)
SIZE_BOUNDS: Final = (1024, 4096, 512 * 1024, 1024 * 1024, 2 * 1024 * 1024, 4 * 1024 * 1024)
_RPC_BOUNDS_S: Final = tuple(bound / 1000 for bound in RPC_BOUNDS_MS)
_MOST_CODES: Final = 1000  # pairs of codes that are told apart: a peer can make up any number
LAG_INTERVAL_S: Final = 0.5


class Histogram(NamedTuple):
    """How many were up to each bound, how many above the last, and what they add up to."""

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


def sum_histograms(parts: Sequence[Histogram]) -> Histogram:
    """Several of the same bounds as one; there is one at least."""
    counts = [sum(column) for column in zip(*(each.counts for each in parts), strict=True)]
    return Histogram(parts[0].bounds, counts, sum(each.total for each in parts))


class RpcTimes:
    """How long requests take, by their code and that of their answer. A Router's `observe`."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], list[float]] = {}  # counts up to each bound and above, then the total

    def __call__(self, request_code: int, response_code: int, seconds: float, count: int = 1, /) -> None:
        key = (request_code, response_code)
        counts = self._counts.get(key)
        if counts is None:
            if len(self._counts) >= _MOST_CODES:
                key = (-1, response_code)
            counts = self._counts.setdefault(key, [0] * (len(_RPC_BOUNDS_S) + 2))
        counts[bisect_left(_RPC_BOUNDS_S, seconds)] += count
        counts[-1] += seconds * count

    def histograms(self) -> Mapping[tuple[int, int], Histogram]:
        """In milliseconds, by request code and response code."""
        return {
            key: Histogram(RPC_BOUNDS_MS, [int(count) for count in counts[:-1]], counts[-1] * 1000)
            for key, counts in self._counts.items()
        }


class MessageSizes:
    """How large stored messages are. `count` listens to a store."""

    def __init__(self) -> None:
        self._counts = [0] * (len(SIZE_BOUNDS) + 1)
        self._total = 0

    def count(self, items: Sequence[Placed]) -> None:
        """These were stored. Sorted and cut at the bounds: sorting numbers is faster than looking at each."""
        if not items:
            return
        if isinstance(items, Batch):
            smallest, largest, total = items.spread()
            size_class = bisect_left(SIZE_BOUNDS, largest)
            if size_class == bisect_left(SIZE_BOUNDS, smallest):  # nearly always
                self._counts[size_class] += len(items)
                self._total += total
                return
        found = items.sizes if isinstance(items, Batch) else [item.size for item in items]
        sizes = sorted(found)
        begin = 0
        for index, bound in enumerate(SIZE_BOUNDS):
            end = bisect_right(sizes, bound, begin)
            self._counts[index] += end - begin
            begin = end
        self._counts[-1] += len(sizes) - begin
        self._total += sum(sizes)

    def histogram(self) -> Histogram:
        return Histogram(SIZE_BOUNDS, tuple(self._counts), self._total)


class LoopLag:
    """How late the event loop is: how much longer than asked for it sleeps."""

    def __init__(self) -> None:
        self._largest = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(LAG_INTERVAL_S)
            self._largest = max(self._largest, loop.time() - began - LAG_INTERVAL_S)

    def take(self) -> float:
        """The largest lag, in seconds, since this was last asked."""
        largest, self._largest = self._largest, 0.0
        return largest
