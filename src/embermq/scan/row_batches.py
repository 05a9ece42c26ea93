"""Rows that an engine found, as Arrow batches of the columns that are asked for.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from embermq.format.host import HOST_V4_SIZE, HOST_V6_SIZE
from embermq.format.record_facts import format_host
from embermq.kernels import columns as at
from embermq.model.flags import SysFlag
from embermq.scan import columns as names
from embermq.scan.columns import TYPES, schema_of
from embermq.scan.engine import Engine, Numbers, Taken
from embermq.scan.rows import LARGEST_TIME_MS

_NUMBERS: Final = {
    names.QUEUE: at.ROW_QUEUE,
    names.OFFSET: at.ROW_OFFSET,
    names.SIZE: at.ROW_SIZE,
    names.FLAG: at.ROW_FLAG,
    names.SYS_FLAG: at.ROW_SYS_FLAG,
    names.BODY_CRC: at.ROW_BODY_CRC,
    names.RECONSUME_TIMES: at.ROW_RECONSUME_TIMES,
    names.PREPARED_POSITION: at.ROW_PREPARED_POSITION,
}
_TIMES: Final = {names.STORE_TIME: at.ROW_STORE_TIME, names.BORN_TIME: at.ROW_BORN_TIME}
_VALUES: Final = {
    names.TAGS: (at.VALUE_TAGS_AT, at.VALUE_TAGS_SIZE),
    names.KEYS: (at.VALUE_KEYS_AT, at.VALUE_KEYS_SIZE),
    names.UNIQUE_KEY: (at.VALUE_UNIQUE_AT, at.VALUE_UNIQUE_SIZE),
}
OF_PROPERTIES: Final = frozenset({*_VALUES, names.PROPERTIES})  # the columns that properties are taken apart for
OF_REST: Final = frozenset(  # the columns that an engine's last ones are for
    {
        *(names.PREPARED_POSITION, names.FLAG, names.BODY_CRC, names.BORN_TIME, names.BORN_HOST, names.STORE_HOST),
        names.RECONSUME_TIMES,
    }
)
_BORN_HOST_AT: Final = 48  # of a record
_STORE_HOST_AT: Final = 64  # of a record whose born host is one of IPv4


class RowBatch:
    """Some rows of one piece of the log, and the arrays that are made of them."""

    def __init__(self, engine: Engine, data: memoryview, position: int, rows: Numbers) -> None:
        self._engine = engine
        self._data = data
        self._position = position
        self.rows = rows

    def __len__(self) -> int:
        return int(self.rows.shape[1])

    @property
    def positions(self) -> Numbers:
        """Where the records lie in the log."""
        positions: Numbers = self.rows[at.ROW_AT] + self._position
        return positions

    def body_of(self, row: int) -> memoryview:
        begin = int(self.rows[at.ROW_BODY_AT, row])
        return self._data[begin : begin + int(self.rows[at.ROW_BODY_SIZE, row])]

    def bytes_of(self, row: int) -> memoryview:
        """The whole record."""
        begin = int(self.rows[at.ROW_AT, row])
        return self._data[begin : begin + int(self.rows[at.ROW_SIZE, row])]

    def keep(self, which: Numbers | slice) -> RowBatch:
        """Some of the rows."""
        rows = np.ascontiguousarray(self.rows[:, which]) if isinstance(which, slice) else self.rows.take(which, axis=1)
        return RowBatch(self._engine, self._data, self._position, rows)

    def take_apart(self, *, with_pairs: bool) -> Taken:
        """The properties of the rows."""
        places, sizes = self.rows[at.ROW_PROPERTIES_AT], self.rows[at.ROW_PROPERTIES_SIZE]
        return self._engine.take_apart(self._data, places, sizes, with_pairs=with_pairs)

    def value_array(self, name: str, taken: Taken) -> pa.Array:
        """Tags, keys or unique keys."""
        place, size = _VALUES[name]
        return self._engine.gather(self._data, taken.values[place], taken.values[size], names.STRING)

    def map_array(self, taken: Taken) -> pa.Array:
        """All properties."""
        pairs = taken.pairs
        ends = np.concatenate([np.zeros(1, np.int32), taken.ends])
        keys = self._engine.gather(self._data, pairs[at.PAIR_NAME_AT], pairs[at.PAIR_NAME_SIZE], names.STRING)
        items = self._engine.gather(self._data, pairs[at.PAIR_VALUE_AT], pairs[at.PAIR_VALUE_SIZE], names.STRING)
        return pa.MapArray.from_arrays(pa.array(ends), keys, items)

    def to_arrow(
        self, columns: tuple[str, ...], taken: Taken | None, broker_name: str | None, plain_bodies: dict[int, bytes]
    ) -> pa.RecordBatch:
        """The batch. `taken` is needed for OF_PROPERTIES; `plain_bodies` has the bodies that were unpacked, by row."""
        arrays = [self._array(name, taken, broker_name, plain_bodies) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))

    def _array(
        self, name: str, taken: Taken | None, broker_name: str | None, plain_bodies: dict[int, bytes]
    ) -> pa.Array:
        kind = TYPES[name]
        if name in _NUMBERS:
            return _numbers(self.rows[_NUMBERS[name]], kind)
        if name in _TIMES:
            times = np.clip(self.rows[_TIMES[name]], -LARGEST_TIME_MS, LARGEST_TIME_MS) * 1000
            return pa.Array.from_buffers(kind, len(self), [None, pa.py_buffer(times)])
        match name:
            case names.TOPIC:
                return self._topic_array()
            case names.POSITION:
                return _numbers(self.positions, kind)
            case names.BROKER:
                return pa.repeat(pa.scalar(broker_name, kind), len(self))
            case names.BODY:
                return self._body_array(plain_bodies)
            case names.BORN_HOST:
                return self._host_array(at.ROW_BORN_HOST, SysFlag.BORN_HOST_V6)
            case names.STORE_HOST:
                return self._host_array(at.ROW_STORE_HOST, SysFlag.STORE_HOST_V6)
        assert taken is not None, "properties were not taken apart"
        return self.map_array(taken) if name == names.PROPERTIES else self.value_array(name, taken)

    def _topic_array(self) -> pa.Array:
        numbers, known = self.rows[at.ROW_TOPIC], self._engine.topics.names
        if len(numbers) and (numbers == numbers[0]).all():
            return pa.repeat(known[int(numbers[0])], len(numbers))
        return known.take(pa.array(numbers))

    def _body_array(self, plain_bodies: dict[int, bytes]) -> pa.Array:
        bodies = self._engine.gather(
            self._data, self.rows[at.ROW_BODY_AT], self.rows[at.ROW_BODY_SIZE], TYPES[names.BODY]
        )
        if not plain_bodies:
            return bodies
        is_plain = np.zeros(len(self), np.bool_)
        is_plain[list(plain_bodies)] = True
        plain = pa.array([plain_bodies[row] for row in sorted(plain_bodies)], TYPES[names.BODY])
        return pc.replace_with_mask(bodies, pa.array(is_plain), plain)

    def _host_array(self, column: int, is_v6: int) -> pa.Array:
        """Hosts as text. There are few different ones, so each is made once."""
        long, first = np.flatnonzero(self.rows[at.ROW_SYS_FLAG] & is_v6), int(self.rows[column, 0])
        if not len(long) and (self.rows[column] == first).all():
            return pa.repeat(pa.scalar(_host_text(first), names.STRING), len(self))
        hosts = pa.array(self.rows[column]).dictionary_encode()
        texts = list(map(_host_text, hosts.dictionary.to_pylist()))
        array = pa.array(texts, names.STRING).take(hosts.indices)
        if not len(long):
            return array
        is_long = np.zeros(len(self), np.bool_)
        is_long[long] = True
        found = pa.array([self._long_host(row, is_v6) for row in long.tolist()], names.STRING)
        return pc.replace_with_mask(array, pa.array(is_long), found)

    def _long_host(self, row: int, is_v6: int) -> str:
        begin = int(self.rows[at.ROW_AT, row])
        if is_v6 == SysFlag.BORN_HOST_V6:
            begin += _BORN_HOST_AT
        else:
            begin += _STORE_HOST_AT
            if self.rows[at.ROW_SYS_FLAG, row] & SysFlag.BORN_HOST_V6:
                begin += HOST_V6_SIZE - HOST_V4_SIZE
        return format_host(bytes(self._data[begin : begin + HOST_V6_SIZE]))


def _host_text(number: int) -> str:
    """A host of IPv4, whose bytes are a number."""
    return format_host(number.to_bytes(HOST_V4_SIZE, "big", signed=True))


def _numbers(values: Numbers, kind: pa.DataType) -> pa.Array:
    # A copy: the engine uses its memory again.
    copied = values.astype(np.int32) if kind == pa.int32() else values.copy()
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(copied)])
