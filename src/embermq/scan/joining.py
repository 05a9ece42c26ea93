"""Small batches made into larger ones: whoever takes them pays for each.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

ENOUGH: Final = 1 << 20  # bytes of a batch that is handed on as it is
ENOUGH_ROWS: Final = 8_192


def join_small(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, in batches of some thousand rows or a megabyte, as far as there are enough."""
    waiting: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        if not waiting and (batch.num_rows >= ENOUGH_ROWS or batch.nbytes >= ENOUGH):
            yield batch
            continue
        waiting.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
        if size >= ENOUGH or rows >= ENOUGH_ROWS:
            yield _join(waiting)
            waiting, size, rows = [], 0, 0
    if waiting:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
