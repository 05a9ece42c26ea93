"""What an archive has of a message: every column that a scan gives, and the day it was stored on.

Rows are kept apart by topic and day (of UTC). Where the table has no columns for these, they are in the paths of its
files, as Hive and Spark write them:

    topic=orders/day=2026-11-16/b00000012-0003-0000-5f0c….parquet

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from embermq.scan.columns import ALL_COLUMNS, STORE_TIME, TOPIC, schema_of

DAY: Final = "day"
PARTED_BY: Final = (TOPIC, DAY)
SCHEMA: Final = schema_of(ALL_COLUMNS)
SCHEMA_WITH_DAY: Final = SCHEMA.append(pa.field(DAY, pa.date32()))
SCHEMA_IN_PARTS: Final = SCHEMA.remove(SCHEMA.get_field_index(TOPIC))  # of files whose paths tell topic and day

_DAY_US: Final = 86_400_000_000
_EPOCH: Final = date(1970, 1, 1)
_FIRST_DAY: Final = (date.min - _EPOCH).days
_LAST_DAY: Final = (date.max - _EPOCH).days


class Part(NamedTuple):
    """What rows are kept apart by."""

    topic: str
    day: str  # such as 2026-11-16

    @property
    def folder(self) -> str:
        """The folder of its files."""
        return f"{TOPIC}={quote(self.topic, safe='')}/{DAY}={self.day}"


def split_rows(batch: pa.RecordBatch) -> Iterator[tuple[Part, pa.RecordBatch]]:
    """The rows of each part, in their order."""
    if not batch.num_rows:
        return
    topics, times = batch.column(TOPIC).dictionary_encode(), batch.column(STORE_TIME).cast(pa.int64()).to_numpy()
    first, last = int(times.min()) // _DAY_US, int(times.max()) // _DAY_US
    if len(topics.dictionary) == 1 and first == last:
        yield Part(topics.dictionary[0].as_py(), day_of(first)), batch
        return
    numbers, days = topics.indices.to_numpy().astype(np.int64), times // _DAY_US
    order = np.lexsort((days, numbers))  # which keeps the order of what is equal
    numbers, days = numbers[order], days[order]
    edges = np.flatnonzero((numbers[1:] != numbers[:-1]) | (days[1:] != days[:-1])) + 1
    sorted_rows = batch.take(pa.array(order))
    for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(order)], strict=True):
        part = Part(topics.dictionary[int(numbers[begin])].as_py(), day_of(int(days[begin])))
        yield part, sorted_rows.slice(begin, end - begin)


def day_of(day: int) -> str:
    """A day that is so many after 1970 began; the nearest that calendars have."""
    return (_EPOCH + timedelta(days=min(max(day, _FIRST_DAY), _LAST_DAY))).isoformat()
