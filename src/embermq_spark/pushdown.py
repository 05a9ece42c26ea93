"""Filters that Spark pushes down, and what they spare: brokers, topics, queues, offsets, times, keys.

Spark applies every filter itself, too. So what is made of them here may let too much through, but never too little.

Only with option `pushFilters`. Spark keeps one plan for all uses of a DataFrame (4.1 to 4.3: the scan builder leaves it
in the table that scans share), so that a plan made for one filter is used again where there is another, or none: in the
next query, and in a join of a DataFrame with itself. Who sets the option uses each DataFrame once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from embermq.model.message import milliseconds_of
from embermq.model.subscription import is_tag_expression
from embermq.model.topic import is_light_queue
from embermq.scan.columns import BROKER, KEYS, OFFSET, QUEUE, STORE_TIME, TAGS, TOPIC, UNIQUE_KEY
from embermq.scan.wanted import OffsetRange, Wanted
from embermq_spark.selection import Selected

_WORD: Final = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Span:
    """Numbers from `low` up to `high`, both included; None: no limit."""

    low: int | None = None
    high: int | None = None

    def cut(self, other: Span) -> Span:
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return Span(max(lows, default=None), min(highs, default=None))


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What filters ask for, by column: one of these values, or a span of numbers."""

    values: Mapping[str, frozenset[object]]
    spans: Mapping[str, Span]

    def apply(self, selected: Selected) -> Selected | None:
        """The same with less wanted; None if nothing is."""
        if any(not values for values in self.values.values()):
            return None
        if BROKER in self.values and selected.broker.name not in self.values[BROKER]:
            return None
        wanted = self._by_topic(selected)
        if wanted is None:
            return None
        narrowed = replace(selected, wanted=self._by_words(self._by_time(wanted)))
        return self._by_queue(narrowed)

    def _by_topic(self, selected: Selected) -> Wanted | None:
        """Topics become a pattern, so that one that is not there is no mistake, and hidden ones stay hidden."""
        wanted, state = selected.wanted, selected.state
        if TOPIC not in self.values:
            return wanted
        topics = {topic for topic in map(str, self.values[TOPIC]) if wanted.accepts_topic(topic)}
        if state.is_settled and state.queues:
            topics &= {queue.topic for queue in state.queues}
        if not topics:
            return None
        if wanted.topics is not None:
            return replace(wanted, topics=frozenset(topics))
        return replace(wanted, pattern="|".join(map(re.escape, sorted(topics))))

    def _by_time(self, wanted: Wanted) -> Wanted:
        span = self.spans.get(STORE_TIME, Span())
        given = Span(wanted.begin_time_ms, None if wanted.end_time_ms is None else wanted.end_time_ms - 1)
        times = given.cut(span)
        return replace(wanted, begin_time_ms=times.low, end_time_ms=None if times.high is None else times.high + 1)

    def _by_words(self, wanted: Wanted) -> Wanted:
        if KEYS in self.values and wanted.keys is None:
            keys = [_key_of(value) for value in self.values[KEYS]]
            if None not in keys:
                wanted = replace(wanted, keys=frozenset(key for key in keys if key is not None))
        if UNIQUE_KEY in self.values and wanted.unique_keys is None:
            wanted = replace(wanted, unique_keys=frozenset(map(str, self.values[UNIQUE_KEY])))
        tags = sorted(map(str, self.values.get(TAGS, ())))
        if tags and wanted.filter_text is None and all(_is_tag(tag) for tag in tags):
            wanted = replace(wanted, filter_text=" || ".join(tags))
        return wanted

    def _by_queue(self, selected: Selected) -> Selected | None:
        """Queues and offsets become ranges, where the queues are known to have every message."""
        queues, span = self.values.get(QUEUE), self.spans.get(OFFSET, Span())
        if (queues is None and span == Span()) or not selected.state.is_settled or not selected.state.queues:
            return selected
        wanted = selected.wanted
        ranges = [
            cut
            for each in self._ranges_of(selected)
            if (queues is None or each.queue in queues) and (cut := _cut(each, span)) is not None
        ]
        return replace(selected, wanted=replace(wanted, ranges=tuple(ranges))) if ranges else None

    @staticmethod
    def _ranges_of(selected: Selected) -> Iterable[OffsetRange]:
        if selected.wanted.ranges is not None:
            return [each for each in selected.wanted.ranges if selected.wanted.accepts_topic(each.topic)]
        return [
            OffsetRange(queue.topic, queue.queue, queue.begin, queue.end)
            for queue in selected.state.queues
            if selected.wanted.accepts_topic(queue.topic) and not is_light_queue(queue.topic)
        ]


def narrow(filters: Iterable[Filter]) -> Narrowing:
    """What these filters, all of which must hold, ask for; those that say nothing useful are passed over."""
    values: dict[str, frozenset[object]] = {}
    spans: dict[str, Span] = {}
    for each in filters:
        match each:
            case EqualTo((name,), value) | EqualNullSafe((name,), value):
                found: tuple[object, ...] | None = (value,)
            case In((name,), given):
                found = tuple(given)
            case (
                GreaterThan((name,), value)
                | GreaterThanOrEqual((name,), value)
                | LessThan((name,), value)
                | LessThanOrEqual((name,), value)
            ):
                found = None
            case _:
                continue
        column = _COLUMNS.get(name.lower())
        if column is None:
            continue
        if found is not None and column in _SETS:
            if isinstance(each, EqualNullSafe) and value is None:
                continue
            chosen = frozenset(one for one in found if one is not None)
            values[column] = values[column] & chosen if column in values else chosen
        span = _span_of(each, column, found)
        if span is not None:
            spans[column] = spans.get(column, Span()).cut(span)
    return Narrowing(values, spans)


_SETS: Final = frozenset({TOPIC, QUEUE, BROKER, KEYS, UNIQUE_KEY, TAGS})
_SPANS: Final[Mapping[str, Callable[[object], int | None]]] = {
    OFFSET: lambda value: value if isinstance(value, int) else None,
    STORE_TIME: lambda value: milliseconds_of(value) if isinstance(value, datetime) and value.tzinfo else None,
}
_COLUMNS: Final = {name.lower(): name for name in (*_SETS, *_SPANS)}


def _span_of(each: Filter, column: str, found: tuple[object, ...] | None) -> Span | None:
    """The numbers that a filter allows. Times are cut to milliseconds, so their limits always belong to them."""
    number_of = _SPANS.get(column)
    if number_of is None:
        return None
    if found is not None:
        numbers = [number for one in found if (number := number_of(one)) is not None]
        return Span(min(numbers), max(numbers)) if numbers and len(numbers) == len(found) else None
    number = number_of(each.value)  # type: ignore[attr-defined]  # all comparisons have one
    if number is None:
        return None
    return Span(low=number) if isinstance(each, GreaterThan | GreaterThanOrEqual) else Span(high=number)


def _cut(each: OffsetRange, span: Span) -> OffsetRange | None:
    begin, end = each.begin or 0, each.end
    if span.low is not None:
        begin = max(begin, span.low)
    if span.high is not None:
        end = span.high + 1 if end is None else min(end, span.high + 1)
    return None if end is not None and begin >= end else OffsetRange(each.topic, each.queue, begin, end)


def _key_of(value: object) -> str | None:
    """One of the keys of a message whose column `keys` has this value, if that is certain."""
    words = [word for word in str(value).split(" ") if word]
    return words[0] if words and _WORD.fullmatch(words[0]) else None


def _is_tag(tag: str) -> bool:
    return is_tag_expression(tag) and tag != "*" and "|" not in tag and tag == tag.strip()
