"""Whether a message is wanted.

Where queues have led to a record, they have chosen its messages already. Only a batch that is kept as one record may
hold others besides, and only there offsets are looked at.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from embermq.filters import parse_filter
from embermq.filters.property_table import PropertyTable
from embermq.format.record import Record
from embermq.model.properties import KEYS, TAGS, UNIQ_KEY
from embermq.scan import columns as names
from embermq.scan.engine import Taken
from embermq.scan.row_batches import RowBatch
from embermq.scan.rows import Row
from embermq.scan.wanted import Wanted

_KNOWN: Final = {TAGS: names.TAGS, KEYS: names.KEYS, UNIQ_KEY: names.UNIQUE_KEY}  # properties that are columns, too


class Matcher:
    """Answers for one `Wanted`."""

    def __init__(self, wanted: Wanted, *, through_queues: bool = False) -> None:
        self._wanted = wanted
        self._through_queues = through_queues
        self._topics: dict[str, bool] = {}
        self._filter = parse_filter(wanted.filter_text) if wanted.filter_text is not None else None
        self.ranges: dict[tuple[str, int], list[tuple[int, int]]] | None = None
        if wanted.ranges is not None:
            self.ranges = {}
            for topic, queue, begin, end in wanted.ranges:
                limits = begin or 0, 2**63 - 1 if end is None else end
                self.ranges.setdefault((topic, queue), []).append(limits)

    @property
    def has_filter(self) -> bool:
        """Whether properties are looked at for more than columns."""
        return self._filter is not None and bool(self._filter.names)

    @property
    def needs_pairs(self) -> bool:
        """Whether the filter looks at more than tags and keys."""
        return self._filter is not None and not self._filter.names <= _KNOWN.keys()

    def mask(self, found: RowBatch, taken: Taken) -> pa.Array:
        """Which of the rows the filter accepts."""
        assert self._filter is not None
        known = {
            name: found.value_array(column, taken) for name, column in _KNOWN.items() if name in self._filter.names
        }
        maps = found.map_array(taken) if self.needs_pairs else None
        return self._filter.mask(PropertyTable(len(found), maps, known=known))

    def accepts_topic(self, topic: str) -> bool:
        """Whether messages of this topic may be wanted."""
        known = self._topics.get(topic)
        if known is None:
            known = self._topics[topic] = self._wanted.accepts_topic(topic)
        return known

    def accepts_record(self, record: Record, *, has_several: bool) -> bool:
        """Whether messages of this record may be wanted; one that `has_several` has offsets of which only rows know."""
        begin, end = self._wanted.begin_time_ms, self._wanted.end_time_ms
        return (
            (begin is None or record.store_time >= begin)
            and (end is None or record.store_time < end)
            and self.accepts_topic(record.topic)
            and (has_several or self._accepts_offset(record.topic, record.queue, record.offset))
        )

    @property
    def row_ranges(self) -> dict[tuple[str, int], list[tuple[int, int]]] | None:
        """The offsets that rows are chosen by; None if there is nothing to choose."""
        return None if self._through_queues else self.ranges

    def accepts_row(self, row: Row) -> bool:
        """Whether a message of an accepted record is wanted."""
        if not self._accepts_offset(row.record.topic, row.record.queue, row.offset):
            return False
        if self.has_filter and self._filter is not None and not self._filter.matches(row.properties):
            return False
        wanted, properties = self._wanted, row.properties
        if wanted.keys is not None and wanted.keys.isdisjoint(properties.get(KEYS, "").split()):
            return False
        return wanted.unique_keys is None or properties.get(UNIQ_KEY) in wanted.unique_keys

    def _accepts_offset(self, topic: str, queue: int, offset: int) -> bool:
        if self.ranges is None:
            return True
        ranges = self.ranges.get((topic, queue))
        if ranges is None:
            return self._through_queues  # a light queue leads to records of other topics
        return any(begin <= offset < end for begin, end in ranges)
