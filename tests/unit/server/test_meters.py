"""What is measured all the time."""

from __future__ import annotations

import asyncio
import random
import time
from bisect import bisect_left

from embermq.server.meters import LAG_INTERVAL_S, RPC_BOUNDS_MS, SIZE_BOUNDS, LoopLag, MessageSizes, RpcTimes
from tests.builders import a_placed


def test_times_are_counted_by_both_codes() -> None:
    times = RpcTimes()
    for milliseconds in (0.5, 1, 2, 3000, 3001):
        times(310, 0, milliseconds / 1000)
    times(310, 1, 0.0)
    found = times.histograms()
    assert found.keys() == {(310, 0), (310, 1)}
    assert found[310, 0].bounds == RPC_BOUNDS_MS
    assert found[310, 0].counts == [2, 1, 0, 0, 0, 0, 0, 0, 1, 1]
    assert round(found[310, 0].total, 3) == 6004.5


def test_made_up_codes_do_not_fill_the_memory() -> None:
    times = RpcTimes()
    for code in range(5000):
        times(code, 3, 0.0)
    assert len(times.histograms()) <= 1001
    assert sum(sum(each.counts) for each in times.histograms().values()) == 5000


def test_sizes_are_counted_as_if_one_by_one() -> None:
    picked = random.Random(7)
    sizes = [picked.choice([*SIZE_BOUNDS, 1, *(bound + 1 for bound in SIZE_BOUNDS)]) for _ in range(500)]
    meter = MessageSizes()
    meter.count([a_placed(size=size) for size in sizes[:200]])
    meter.count([a_placed(size=size) for size in sizes[200:]])
    meter.count([])
    counts = [0] * (len(SIZE_BOUNDS) + 1)
    for size in sizes:
        counts[bisect_left(SIZE_BOUNDS, size)] += 1
    assert list(meter.histogram().counts) == counts
    assert meter.histogram().total == sum(sizes)


def test_a_loop_that_is_held_up_is_noticed_once() -> None:
    async def hold_up() -> tuple[float, float]:
        lag = LoopLag()
        task = asyncio.create_task(lag.run())
        await asyncio.sleep(0)
        time.sleep(LAG_INTERVAL_S + 0.3)  # nothing to await: this is the fault
        for _ in range(5):
            await asyncio.sleep(0)
        found = lag.take(), lag.take()
        task.cancel()
        return found

    first, second = asyncio.run(hold_up())
    assert 0.25 < first < 5
    assert second == 0
