"""Finds messages by key through the index files, and adds the stretches of the log that these do not cover.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Final

from embermq.errors import StoreError
from embermq.log.key_index import FOREVER_MS
from embermq.scan.index_reading import IndexReader
from embermq.scan.log_plan import choose_size, plan_stretch
from embermq.scan.splits import RecordSplit, Split
from embermq.scan.survey import Survey
from embermq.scan.wanted import Wanted

_MOST_LOOKUPS: Final = 10_000  # topics times keys; beyond that the log is read instead
_ENTRY_SLACK_MS: Final = 2_000  # entries know seconds only


def plan_index(survey: Survey, wanted: Wanted, split_size: int | None) -> list[Split] | None:
    """Splits of all messages with the wanted keys; None if the index cannot tell."""
    keys = wanted.unique_keys if wanted.unique_keys is not None else wanted.keys
    if keys is None or wanted.ranges is not None or not survey.is_settled:
        return None
    topics = [topic for topic in sorted(wanted.topics or survey.topics) if wanted.accepts_topic(topic)]
    if not topics or len(keys) * len(topics) > _MOST_LOOKUPS:  # keys are filed together with their topic
        return None
    try:
        with IndexReader(survey.store) as index:
            begin, end = max(survey.begin, index.begin_position), min(survey.end, index.end_position)
            positions = _find(index, topics, keys, wanted)
    except (StoreError, OSError):  # the log tells the same, only more slowly
        return None
    if begin >= end:
        return None
    found = sorted(position for position in positions if begin <= position < end)
    splits = _plan_uncovered(survey, survey.begin, begin, split_size)
    if found:
        splits.append(RecordSplit(survey.place, tuple(found), survey.files, survey.end))
    return splits + _plan_uncovered(survey, end, survey.end, split_size)


def _find(index: IndexReader, topics: Iterable[str], keys: Iterable[str], wanted: Wanted) -> set[int]:
    """Where records may be that have these keys."""
    begin_ms = max((wanted.begin_time_ms or 0) - _ENTRY_SLACK_MS, 0)
    end_ms = FOREVER_MS if wanted.end_time_ms is None else wanted.end_time_ms
    return {
        position
        for topic, key in product(topics, keys)
        for position in index.iter_positions(topic, key, begin_ms=begin_ms, end_ms=end_ms)
    }


def _plan_uncovered(survey: Survey, begin: int, end: int, split_size: int | None) -> list[Split]:
    return plan_stretch(survey, begin, end, choose_size(end - begin, split_size, 1)) if begin < end else []
