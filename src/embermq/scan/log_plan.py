"""Cuts the log into stretches.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import Final

from embermq.errors import CorruptRecord
from embermq.format.record import Scanned, scan_record
from embermq.scan.file_walk import FileWalk
from embermq.scan.splits import LogFile, LogSplit, Split
from embermq.scan.survey import Survey
from embermq.scan.wanted import Wanted

SMALLEST_SPLIT: Final = 64 << 20
LARGEST_SPLIT: Final = 512 << 20
MOST_SPLITS: Final = 20_000  # of one store, whatever is asked for: each is a task, and its planner keeps them all
CLOCK_SLACK_MS: Final = 60_000  # that the clock of a store may have been set back by, while files are chosen by time


def choose_size(total: int, split_size: int | None, min_partitions: int) -> int:
    """How many bytes of the log make a split.

    Few and large ones, because a task costs as much as the smallest, and as many for each core of this machine. Where
    smaller ones are asked for, there are MOST_SPLITS of them at most.
    """
    cores = os.cpu_count() or 1
    rounds = max(-(-total // (cores * LARGEST_SPLIT)), 1)
    usual = max(-(-total // (cores * rounds)), SMALLEST_SPLIT)
    return max(min(split_size or usual, -(-total // max(min_partitions, 1))), -(-total // MOST_SPLITS), 1)


def find_timely(survey: Survey, wanted: Wanted) -> tuple[int, int]:
    """The stretch of the log that wanted times can be in: whole files, by the time of their first record."""
    begin, end = survey.begin, survey.end
    files = [file for file in survey.files if file.start < end]
    if wanted.begin_time_ms is None and wanted.end_time_ms is None:
        return begin, end

    def time_of(file: LogFile) -> int:
        first = _first_record(survey, file)
        return first.store_time if first is not None else 2**63 - 1

    if wanted.begin_time_ms is not None and files:
        after = bisect_left(files, wanted.begin_time_ms - CLOCK_SLACK_MS, key=time_of)
        begin = files[max(after - 1, 0)].start
    if wanted.end_time_ms is not None and files:
        after = bisect_right(files, wanted.end_time_ms + CLOCK_SLACK_MS, key=time_of)
        end = files[after].start if after < len(files) else end
    return begin, max(begin, end)


def plan_stretch(survey: Survey, begin: int, end: int, size: int, *, is_exact: bool = False) -> list[Split]:
    """Splits of about `size` bytes that make up a stretch of the log; `is_exact`: it begins where a record does."""
    edges = [begin]
    target = begin + size
    while target < end:
        edge = _align(survey, target)
        if edges[-1] < edge < end:
            edges.append(edge)
        target = max(target + size, edge + 1)  # sizes below those of records are not looked up for each of their bytes
    edges.append(end)
    return [
        _split(survey, first, last, is_exact=is_exact and first == begin)
        for first, last in pairwise(edges)
        if first < last
    ]


def _split(survey: Survey, begin: int, end: int, *, is_exact: bool) -> LogSplit:
    touched = tuple(file for file in survey.files if file.end > begin and file.start < end)
    return LogSplit(survey.place, touched, begin, end, survey.end, is_exact)


def _align(survey: Survey, position: int) -> int:
    """The first record of the longest queue from `position` on: so no split has to look for its first record.

    What is found by looking could be the inside of a body that somebody made look like a record.
    """
    longest = max(survey.queues, key=lambda entries: len(entries.queue.files), default=None)
    if longest is None or longest.queue.is_batch:
        return position
    index = longest.find_from(position)
    if index >= longest.end:
        return position
    found = int(longest.read(index, index + 1)["position"][0])
    return found if found < survey.end else position


def _first_record(survey: Survey, file: LogFile) -> Scanned | None:
    with FileWalk(survey.store, file, file.start, survey.end, read_size=64 << 10) as walk:
        try:
            data = walk.next(check_body=False)
            return None if data is None else scan_record(data, 0, file.start, check_body=False)
        except CorruptRecord:
            return None
