"""Whether a message is wanted.

Where queues have led to a record, they have chosen its messages already. Only a batch that is kept as one record may
hold others besides, and only there offsets are looked at.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from embermq.format.record import Record
from embermq.model.properties import KEYS, TAGS, UNIQ_KEY
from embermq.model.subscription import TagFilter
from embermq.scan import columns as names
from embermq.scan.engine import Taken
from embermq.scan.row_batches import RowBatch
from embermq.scan.rows import Row
from embermq.scan.wanted import Wanted

_ALL_OFFSETS: Final = ((-(2**63), 2**63),)


class Matcher:
    """Answers for one `Wanted`."""

    def __init__(self, wanted: Wanted, *, through_queues: bool = False) -> None:
        self._wanted = wanted
        self._through_queues = through_queues
        self._topics: dict[str, bool] = {}
        self._tags = TagFilter.parse(wanted.filter_text or "*")
        self.ranges: dict[tuple[str, int], list[tuple[int, int]]] | None = None
        if wanted.ranges is not None:
            self.ranges = {}
            for topic, queue, begin, end in wanted.ranges:
                limits = begin or 0, 2**63 - 1 if end is None else end
                self.ranges.setdefault((topic, queue), []).append(limits)

    @property
    def has_filter(self) -> bool:
        """Whether properties are looked at for more than columns."""
        return bool(self._tags.tags)

    @property
    def needs_pairs(self) -> bool:
        """Whether the filter looks at more than tags and keys."""
        return False

    def mask(self, found: RowBatch, taken: Taken) -> pa.Array:
        """Which of the rows the filter accepts."""
        tags = found.value_array(names.TAGS, taken)
        return pc.is_in(tags, pa.array(sorted(self._tags.tags), names.STRING))

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
            and (self._through_queues or self.ranges is None or (record.topic, record.queue) in self.ranges)
        )

    @property
    def row_ranges(self) -> dict[tuple[str, int], list[tuple[int, int]]] | None:
        """The offsets that rows are chosen by; None if there is nothing to choose."""
        return None if self._through_queues else self.ranges

    def accepts_row(self, row: Row) -> bool:
        """Whether a message of an accepted record is wanted."""
        if self.ranges is not None:
            ranges: Sequence[tuple[int, int]] | None = self.ranges.get((row.record.topic, row.record.queue))
            if ranges is None:  # a light queue leads to records of other topics
                ranges = _ALL_OFFSETS if self._through_queues else ()
            if not any(begin <= row.offset < end for begin, end in ranges):
                return False
        if not self._tags.accepts(row.properties.get(TAGS)):
            return False
        wanted, properties = self._wanted, row.properties
        if wanted.keys is not None and wanted.keys.isdisjoint(properties.get(KEYS, "").split()):
            return False
        return wanted.unique_keys is None or properties.get(UNIQ_KEY) in wanted.unique_keys
