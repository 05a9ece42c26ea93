"""The properties of a batch of messages, as columns of text. Only loaded where pyarrow is.

A column is made when a filter asks for it: from the columns that a scan has anyway (tags, keys), or picked from
a column of maps.

    row          0              1            2
    maps         a=1 b=2        b=3          none
    offsets      0              2            3   3
    names        a  b           b
    values       1  2           3
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from embermq.filters.column_numbers import Numbers, parse_column
from embermq.filters.flags import flags_of
from embermq.filters.sql_tree import Kind

if TYPE_CHECKING:
    from numpy.typing import NDArray

Mask: TypeAlias = pa.BooleanArray  # whether each message is wanted


class PropertyTable:
    """`count` messages: their properties as a column of maps, `known` ones as columns of text, or both.

    A known column counts alone; null means that a message does not have the property.
    """

    def __init__(
        self,
        count: int,
        properties: pa.Array | pa.ChunkedArray | None = None,
        *,
        known: Mapping[str, pa.Array | pa.ChunkedArray] | None = None,
    ) -> None:
        self.count = count
        self._maps = None if properties is None else _whole(properties, count, "properties")
        self._columns = {name: _text(_whole(column, count, name)) for name, column in (known or {}).items()}
        self._numbers: dict[tuple[str, Kind], Numbers] = {}

    def column(self, name: str) -> pa.StringArray:
        """The texts of a property, null where a message does not have it."""
        if name not in self._columns:
            if self._maps is None:
                raise ValueError(f"no column {name!r}, and no column of maps to pick it from")
            self._columns[name] = _text(_pick(self._maps, name))
        return self._columns[name]

    def numbers(self, name: str, kind: Kind) -> Numbers:
        """The same as numbers of a kind."""
        key = (name, kind)
        if key not in self._numbers:
            self._numbers[key] = parse_column(self.column(name), kind)
        return self._numbers[key]


def _whole(column: pa.Array | pa.ChunkedArray, count: int, name: str) -> pa.Array:
    if len(column) != count:
        raise ValueError(f"the column {name!r} has {len(column)} rows, the table {count}")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _text(column: pa.Array) -> pa.StringArray:
    return column if column.type == pa.string() else column.cast(pa.string())


def _pick(maps: pa.MapArray, name: str) -> pa.Array:
    """The values of one name; of two in one row, the later."""
    offsets = maps.offsets.to_numpy()
    first, end = int(offsets[0]), int(offsets[-1])
    names, values = maps.keys.slice(first, end - first), maps.items.slice(first, end - first)
    found = np.flatnonzero(flags_of(pc.equal(names, pa.scalar(name, names.type))))
    places = found
    if not _is_one_a_row(found + first, offsets):
        places = np.full(len(maps), -1, np.int64)
        places[np.searchsorted(offsets, found + first, side="right") - 1] = found
    if maps.null_count:
        places[flags_of(maps.is_null())] = -1
    return values.take(pa.array(places, mask=places < 0))


def _is_one_a_row(found: NDArray[np.int64], offsets: NDArray[np.int32]) -> bool:
    """Whether the places that were found are one in each row, as they mostly are."""
    return len(found) == len(offsets) - 1 and bool(np.all(found >= offsets[:-1]) and np.all(found < offsets[1:]))
