"""Whether a message is wanted, asked of one at a time.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from embermq.format.record import Record
from embermq.model.properties import KEYS, TAGS, UNIQ_KEY
from embermq.model.subscription import TagFilter
from embermq.scan.rows import Row
from embermq.scan.wanted import Wanted


class Matcher:
    """Answers for one `Wanted`."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._topics: dict[str, bool] = {}
        self._tags = TagFilter.parse(wanted.filter_text or "*")
        self._ranges: dict[tuple[str, int], list[tuple[int, int]]] | None = None
        if wanted.ranges is not None:
            self._ranges = {}
            for topic, queue, begin, end in wanted.ranges:
                limits = begin or 0, 2**63 - 1 if end is None else end
                self._ranges.setdefault((topic, queue), []).append(limits)

    def accepts_topic(self, topic: str) -> bool:
        """Whether messages of this topic may be wanted."""
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = self._wanted.accepts_topic(topic)
        return known

    def accepts_record(self, record: Record) -> bool:
        """Whether messages of this record may be wanted."""
        begin, end = self._wanted.begin_time_ms, self._wanted.end_time_ms
        return (
            (begin is None or record.store_time >= begin)
            and (end is None or record.store_time < end)
            and self.accepts_topic(record.topic)
            and (self._ranges is None or (record.topic, record.queue) in self._ranges)
        )

    def accepts_row(self, row: Row) -> bool:
        """Whether a message of an accepted record is wanted."""
        if self._ranges is not None:
            ranges = self._ranges.get((row.record.topic, row.record.queue), ())
            if not any(begin <= row.offset < end for begin, end in ranges):
                return False
        if not self._tags.accepts(row.properties.get(TAGS)):
            return False
        wanted, properties = self._wanted, row.properties
        if wanted.keys is not None and wanted.keys.isdisjoint(properties.get(KEYS, "").split()):
            return False
        return wanted.unique_keys is None or properties.get(UNIQ_KEY) in wanted.unique_keys
