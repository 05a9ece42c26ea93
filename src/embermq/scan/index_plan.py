"""Finds messages by key through the index files, and adds the stretches of the log that these do not cover.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from embermq.clock import SystemClock
from embermq.errors import StoreError
from embermq.log.key_index import FOREVER_MS, KeyIndex, detect_shape
from embermq.scan.file_system import LocalFiles
from embermq.scan.log_plan import choose_size, plan_stretch
from embermq.scan.splits import RecordSplit, Split
from embermq.scan.store_files import INDEX_FOLDER
from embermq.scan.survey import Survey
from embermq.scan.wanted import Wanted

_MOST_LOOKUPS: Final = 10_000  # topics times keys; beyond that the log is read instead


def plan_index(survey: Survey, wanted: Wanted, split_size: int | None) -> list[Split] | None:
    """Splits of all messages with the wanted keys; None if the index cannot tell."""
    keys = wanted.unique_keys if wanted.unique_keys is not None else wanted.keys
    if keys is None or wanted.ranges is not None or not survey.is_settled:
        return None
    topics = [topic for topic in sorted(wanted.topics or survey.topics) if wanted.accepts_topic(topic)]
    if not topics or len(keys) * len(topics) > _MOST_LOOKUPS:  # keys are filed together with their topic
        return None
    index = _open(survey)
    if index is None:
        return None
    try:
        covered = max(survey.begin, index.begin_position), min(survey.end, max(index.end_position, survey.begin))
        begin_ms, end_ms = wanted.begin_time_ms or 0, FOREVER_MS if wanted.end_time_ms is None else wanted.end_time_ms
        found = {
            position
            for topic in topics
            for key in keys
            # Entries know seconds only.
            for position in index.iter_positions(topic, key, begin_ms=max(begin_ms - 2_000, 0), end_ms=end_ms)
            if covered[0] <= position < covered[1]
        }
    finally:
        index.close()
    splits = _plan_uncovered(survey, survey.begin, covered[0], split_size)
    if found:
        splits.append(RecordSplit(survey.place, tuple(sorted(found)), survey.files, survey.end))
    return splits + _plan_uncovered(survey, covered[1], survey.end, split_size)


def _plan_uncovered(survey: Survey, begin: int, end: int, split_size: int | None) -> list[Split]:
    return plan_stretch(survey, begin, end, choose_size(end - begin, split_size, 1)) if begin < end else []


def _open(survey: Survey) -> KeyIndex | None:
    """The index, if it is on this machine and can be read."""
    files = survey.store.find_index()
    if not files or not isinstance(survey.store.system, LocalFiles):
        return None
    folder = Path(survey.store.system.root) / INDEX_FOLDER
    try:
        slots, entries = detect_shape(folder / files[0].name)
        index = KeyIndex(folder, slots=slots, entries=entries, clock=SystemClock(), read_only=True)
        index.load()
    except (StoreError, OSError):  # the log tells the same, only more slowly
        return None
    return index
