"""Where the records of parts of queues lie in the log.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

import numpy as np

from embermq.model.topic import is_light_queue
from embermq.scan.engine import Numbers
from embermq.scan.queue_entries import Entries, QueueEntries, is_blank
from embermq.scan.splits import QueuePart
from embermq.scan.store_files import StoreFiles

OnLoss = Callable[[QueuePart, int, str], None]


class Places(NamedTuple):
    """Records by position. `parts` and `offsets` tell which message each must be; an offset of -1: any."""

    positions: Numbers
    sizes: Numbers
    parts: Numbers  # the number of the part that called for it
    offsets: Numbers


def find_places(store: StoreFiles, parts: tuple[QueuePart, ...], on_loss: OnLoss) -> Places:
    """The records of these parts, each once, in the order of the log. What the queues do not have is reported."""
    columns: list[tuple[Numbers, Numbers, Numbers, Numbers]] = []
    for number, part in enumerate(parts):
        queue = store.find_queue(part.topic, part.queue)
        if queue is None:
            on_loss(part, part.end - part.begin, "the queue is gone")
            continue
        with closing(QueueEntries(store, queue)) as entries:
            first = entries.index_of(part.begin)
            found = _read(entries, part, on_loss)
        offsets = np.arange(first, first + len(found), dtype=np.int64)
        if queue.is_batch or is_light_queue(part.topic):  # their records have offsets of their own
            offsets[:] = -1
        blank = is_blank(found)
        if blank.any():
            on_loss(part, int(blank.sum()), "the queue says that it has no message there")
            found, offsets = found[~blank], offsets[~blank]
        positions, sizes = found["position"].astype(np.int64), found["size"].astype(np.int64)
        columns.append((positions, sizes, np.full(len(found), number, np.int64), offsets))
    if not columns:
        nothing = np.empty(0, np.int64)
        return Places(nothing, nothing, nothing, nothing)
    positions, sizes, numbers, offsets = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = positions.argsort(kind="stable")  # which merges: those of each queue rise
    rising = positions[order]
    is_again = rising[1:] == rising[:-1]  # as where two light queues lead to one record
    if is_again.any():
        order = order[np.concatenate([[True], ~is_again])]
        rising = positions[order]
    return Places(rising, sizes[order], numbers[order], offsets[order])


def _read(entries: QueueEntries, part: QueuePart, on_loss: OnLoss) -> Entries:
    """The entries of a part, as far as they are there."""
    first, last = entries.index_of(part.begin), entries.index_of(part.end - 1) + 1
    if entries.offset_of(first) > part.begin or entries.offset_of(min(last, entries.end)) < part.end:
        has = f"the queue has [{entries.offset_of(entries.begin)}, {entries.offset_of(entries.end)})"
        there = max(0, min(last, entries.end) - first)
        on_loss(part, part.end - part.begin - there, has)
    return entries.read(first, max(first, min(last, entries.end)))
