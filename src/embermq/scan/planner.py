"""Cuts a read into splits.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final, NamedTuple

from embermq.errors import DataLoss, TopicNotFound
from embermq.scan.end_of_log import find_end
from embermq.scan.queue_entries import QueueEntries
from embermq.scan.splits import LogFile, LogSplit, QueuePart, QueueSplit, Split, StorePlace
from embermq.scan.store_files import StoreFiles
from embermq.scan.tally import Tally
from embermq.scan.wanted import Wanted

SMALLEST_SPLIT: Final = 64 << 20
LARGEST_SPLIT: Final = 512 << 20


class QueueState(NamedTuple):
    """A queue of the store: its messages are [begin, end)."""

    topic: str
    queue: int
    begin: int
    end: int


def plan(
    path: str | StorePlace,
    wanted: Wanted,
    *,
    split_size: int | None = None,
    min_partitions: int = 1,
    tally: Tally | None = None,
) -> list[Split]:
    """The splits that together hold all wanted messages of a store, each once; none if it has none.

    Raises StoreError for files that are not as they should be, TopicNotFound for a topic that was named and is not
    there, and DataLoss for offsets that were named and are not.
    """
    place = path if isinstance(path, StorePlace) else StorePlace(str(path))
    store = StoreFiles(place)
    files = store.find_log()
    queues = [QueueEntries(store, queue) for queue in store.find_queues()]
    end = find_end(store, files, (tail for queue in queues if (tail := queue.find_tail())))
    states = [_state_of(entries, files, end) for entries in queues]
    _check_topics(wanted, states)
    if wanted.ranges is not None and queues:
        return _plan_queues(place, files, end, wanted, states, min_partitions, tally or Tally())
    return _plan_log(place, files, end, split_size, min_partitions)


def list_queues(path: str | StorePlace) -> list[QueueState]:
    """Every queue of a store that is a file, with the offsets that can be read, by topic and number."""
    store = StoreFiles(path if isinstance(path, StorePlace) else StorePlace(str(path)))
    files = store.find_log()
    queues = [QueueEntries(store, queue) for queue in store.find_queues()]
    end = find_end(store, files, (tail for queue in queues if (tail := queue.find_tail())))
    return [_state_of(entries, files, end) for entries in queues]


def _state_of(entries: QueueEntries, files: Sequence[LogFile], log_end: int) -> QueueState:
    begin, end = entries.find_from(files[0].start if files else 0), entries.find_from(log_end)
    queue = entries.queue
    return QueueState(queue.topic, queue.queue, entries.offset_of(begin), entries.offset_of(end))


def _check_topics(wanted: Wanted, states: Sequence[QueueState]) -> None:
    known = {state.topic for state in states}
    if known:  # else queues are kept elsewhere, or not at all
        for topic in sorted((wanted.topics or frozenset()) - known):
            nearest = difflib.get_close_matches(topic, known, n=1)
            raise TopicNotFound(topic, nearest[0] if nearest else None)


def _plan_log(
    place: StorePlace, files: tuple[LogFile, ...], end: int, split_size: int | None, min_partitions: int
) -> list[Split]:
    begin = files[0].start if files else 0
    total = end - begin
    if total <= 0:
        return []
    size = split_size or min(max(total // max(min_partitions, 1), SMALLEST_SPLIT), LARGEST_SPLIT)
    size = max(min(size, -(-total // max(min_partitions, 1))), 1)
    splits: list[Split] = []
    for at in range(begin, end, size):
        to = min(at + size, end)
        touched = tuple(file for file in files if file.end > at and file.start < to)
        splits.append(LogSplit(place, touched, at, to, end))
    return splits


def _plan_queues(
    place: StorePlace,
    files: tuple[LogFile, ...],
    log_end: int,
    wanted: Wanted,
    states: Sequence[QueueState],
    min_partitions: int,
    tally: Tally,
) -> list[Split]:
    known = {(state.topic, state.queue): state for state in states}
    parts = []
    for topic, queue, begin, end in wanted.ranges or ():
        state = known.get((topic, queue), QueueState(topic, queue, 0, 0))
        first = state.begin if begin is None else begin
        last = state.end if end is None else end
        low, high = max(first, state.begin), min(last, state.end)
        if (low, high) != (first, last) and first < last:
            loss = DataLoss(
                f"{place.address}, topic {topic!r}, queue {queue}",
                what=f"offsets [{first}, {last})",
                reason=f"it has [{state.begin}, {state.end})",
            )
            tally.add_loss(loss, last - first - max(high - low, 0), fail=wanted.fail_on_loss)
        if low < high:
            parts.append(QueuePart(topic, queue, low, high))
    count = min(max(min_partitions, 1), len(parts))
    return [QueueSplit(place, tuple(parts[number::count]), files, log_end) for number in range(count)]
