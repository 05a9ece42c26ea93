"""Cuts parts of queues into splits. Each split is one stretch of the log, with all queues in it: what lies close
together is read together.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from embermq.errors import CorruptRecord, DataLoss
from embermq.format.record import scan_record
from embermq.log.time_search import first_at_or_after
from embermq.scan.file_walk import FileWalk
from embermq.scan.queue_entries import QueueEntries, is_blank
from embermq.scan.record_places import SPARSE_GAP
from embermq.scan.splits import QueuePart, QueueSplit, Split
from embermq.scan.survey import QueueState, Survey
from embermq.scan.tally import Tally
from embermq.scan.wanted import OffsetRange, Wanted

_SAMPLE: Final = 64  # entries of each queue that tell how large its records are
_PASSED_FOR_ONE: Final = 5  # bytes that are passed over while one is made a row of


class Chosen(NamedTuple):
    """Messages [begin, end) of a queue."""

    entries: QueueEntries
    begin: int
    end: int


class Estimate(NamedTuple):
    """About how much messages are."""

    records: int
    size: int  # bytes of the log

    def cost(self, span: int) -> int:
        """As how many wanted bytes they count, where the log has `span` bytes from the first to the last of them.

        What lies between is read, too, unless it is much; it is passed over at a few times the speed.
        """
        between = min(self.records * SPARSE_GAP, max(span - self.size, 0))
        return self.size + between // _PASSED_FOR_ONE


def choose_ranges(survey: Survey, wanted: Wanted, ranges: Sequence[OffsetRange], tally: Tally) -> list[Chosen]:
    """The parts of queues that were asked for. Raises DataLoss for what there is not, or counts it."""
    named = {topic for topic, *_ in ranges}
    known = {(entries.queue.topic, entries.queue.queue): entries for entries in survey.select(named.__contains__)}
    chosen = []
    for topic, queue, begin, end in ranges:
        entries = known.get((topic, queue))
        state = survey.states([entries])[0] if entries is not None else QueueState(topic, queue, 0, 0)
        first, last = state.begin if begin is None else begin, state.end if end is None else end
        low, high = max(first, state.begin), min(last, state.end)
        if (low, high) != (first, last) and first < last:
            place = f"{survey.place.name}, topic {topic!r}, queue {queue}"
            has = f"it has [{state.begin}, {state.end})" if entries is not None else "there is no such queue"
            loss = DataLoss(place, what=f"offsets [{first}, {last})", reason=has)
            tally.add_loss(loss, last - first - max(high - low, 0), fail=wanted.fail_on_loss)
        if entries is not None and low < high:
            chosen.append(Chosen(entries, low, high))
    return chosen


def choose_topics(survey: Survey, wanted: Wanted) -> list[Chosen]:
    """All of the queues of wanted topics, as far as wanted times can be in them."""
    chosen = []
    for entries in survey.select(wanted.accepts_topic):
        state = survey.states([entries])[0]
        begin, end = _find_timely(survey, entries, state, wanted)
        if begin < end:
            chosen.append(Chosen(entries, begin, end))
        entries.close()
    return chosen


def estimate(chosen: Sequence[Chosen]) -> Estimate:
    """About how much of the log these messages are."""
    total = records = 0
    for entries, begin, end in chosen:
        index = entries.index_of(begin)
        last = entries.index_of(end - 1) + 1
        sample = entries.read(index, min(index + _SAMPLE, last))
        sizes = sample["size"][~is_blank(sample)]
        total += int(np.mean(sizes)) * (last - index) if len(sizes) else 0
        records += last - index
        entries.close()
    return Estimate(records, total)


def plan_queues(survey: Survey, chosen: Sequence[Chosen], count: int) -> list[Split]:
    """About `count` splits that hold all these messages."""
    if not chosen:
        return []
    low = min(_position_at(part.entries, part.begin) for part in chosen)
    edges = np.linspace(low, survey.end, max(count, 1) + 1).astype(np.int64).tolist()[1:-1]
    cut: list[list[QueuePart]] = [[] for _ in range(len(edges) + 1)]
    for entries, begin, end in chosen:
        offsets = [entries.offset_of(entries.find_from(edge)) for edge in edges]
        limits = [begin, *(min(max(offset, begin), end) for offset in offsets), end]
        for parts, (first, last) in zip(cut, pairwise(limits), strict=True):
            if first < last:
                parts.append(QueuePart(entries.queue.topic, entries.queue.queue, first, last))
        entries.close()
    return [QueueSplit(survey.place, tuple(parts), survey.files, survey.end) for parts in cut if parts]


def _position_at(entries: QueueEntries, offset: int) -> int:
    entry = entries.read(entries.index_of(offset), entries.index_of(offset) + 1)
    return int(entry["position"][0]) if len(entry) else 0


def _find_timely(survey: Survey, entries: QueueEntries, state: QueueState, wanted: Wanted) -> tuple[int, int]:
    """The offsets of a queue that wanted times can be at."""

    def time_at(index: int) -> int | None:
        return _time_of(survey, entries, index)

    first, last = entries.index_of(state.begin), entries.find_from(survey.end)
    begin, end = first, last
    if wanted.begin_time_ms is not None:
        begin = first_at_or_after(wanted.begin_time_ms, first, last, time_at)
    if wanted.end_time_ms is not None:
        end = first_at_or_after(wanted.end_time_ms, first, last, time_at)
    return entries.offset_of(begin), entries.offset_of(end)


def _time_of(survey: Survey, entries: QueueEntries, index: int) -> int | None:
    """When the record of an entry was stored; None if it has none."""
    entry = entries.read(index, index + 1)
    if is_blank(entry)[0]:
        return None
    position, size = int(entry["position"][0]), int(entry["size"][0])
    file = next((file for file in survey.files if file.start <= position < file.end), None)
    if file is None:
        return None
    with FileWalk(survey.store, file, position, min(position + size, survey.end), read_size=size) as walk:
        try:
            data = walk.next(check_body=False)
            found = scan_record(data, 0, position, check_body=False) if data is not None else None
        except CorruptRecord:
            return None
    return found.store_time if found is not None else None
