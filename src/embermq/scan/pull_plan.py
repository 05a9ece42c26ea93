"""Cuts ranges of queues into splits that are pulled.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from embermq.scan.log_plan import MOST_SPLITS
from embermq.scan.splits import PullSplit, QueuePart, Split, StorePlace

FEWEST: Final = 10_000  # messages of a split: fewer are not worth a task
MOST: Final = 1_000_000


def plan_pulls(
    place: StorePlace, broker: str, parts: Sequence[QueuePart], *, group: str, min_partitions: int = 1
) -> list[Split]:
    """Splits that together hold all messages of `parts`.

    There are at least `min_partitions` if there are as many messages, and MOST_SPLITS at most.
    """
    total = sum(part.end - part.begin for part in parts)
    usual = min(max(total // (4 * (os.cpu_count() or 1)), FEWEST), MOST)
    count = max(min(usual, total // max(min_partitions, 1)), -(-total // MOST_SPLITS), 1)
    splits: list[Split] = []
    held: list[QueuePart] = []
    room = count
    for part in parts:
        begin = part.begin
        while begin < part.end:
            end = min(begin + room, part.end)
            held.append(part._replace(begin=begin, end=end))
            room -= end - begin
            begin = end
            if room == 0:
                splits.append(PullSplit(place, broker, group, tuple(held)))
                held, room = [], count
    if held:
        splits.append(PullSplit(place, broker, group, tuple(held)))
    return splits
