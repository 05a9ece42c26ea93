"""Messages one by one, in plain Python: what every faster way must give, and what it falls back to.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from embermq.errors import CorruptRecord
from embermq.format.batch import iter_batch
from embermq.format.packed_body import unpack_body
from embermq.format.record import Record
from embermq.format.record_facts import format_host
from embermq.model.flags import SysFlag
from embermq.model.properties import INNER_BASE, KEYS, TAGS, UNIQ_KEY, parse_properties
from embermq.scan import columns as names
from embermq.scan.columns import TYPES, schema_of

LARGEST_TIME_MS: Final = (2**63 - 1) // 1000  # the last that can be told in microseconds
UNWRAPPED: Final = SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP  # a record with both holds several messages


class Row(NamedTuple):
    """One message: of its record, and what differs in a batch that is kept as one record."""

    record: Record
    offset: int
    flag: int
    body: bytes
    properties: dict[str, str]


def is_wrapped(sys_flag: int) -> bool:
    """Whether a record holds several messages."""
    return sys_flag & UNWRAPPED == UNWRAPPED


def iter_rows(record: Record, *, decode_body: bool, with_properties: bool) -> Iterator[Row]:
    """The messages of a record: mostly one, whose body is still packed. Raises CorruptRecord if it has none.

    Without `with_properties` these are not looked at, unless they tell which messages there are.
    """
    try:
        if decode_body and is_wrapped(record.sys_flag):
            yield from _unwrap(record)
        else:
            properties = record.property_map() if with_properties else {}
            yield Row(record, record.offset, record.flag, record.body, properties)
    except CorruptRecord as error:
        raise CorruptRecord(record.position, error.reason) from error


def _unwrap(record: Record) -> list[Row]:
    """The messages of a batch that is kept as one record."""
    try:
        base = int(record.property_map().get(INNER_BASE, record.offset))
        elements = list(iter_batch(unpack_body(record.body, record.sys_flag)))
        return [
            Row(record, base + number, element.flag, bytes(element.body), parse_properties(bytes(element.properties)))
            for number, element in enumerate(elements)
        ]
    except ValueError as error:
        raise CorruptRecord(record.position, f"no batch: {error}") from error


def time_of(milliseconds: int) -> int:
    """Microseconds, for times that can be told in them; the nearest for all others."""
    return max(-LARGEST_TIME_MS, min(milliseconds, LARGEST_TIME_MS)) * 1000


_VALUES: Final[dict[str, Callable[[Row], object]]] = {
    names.TOPIC: lambda row: row.record.topic,
    names.QUEUE: lambda row: row.record.queue,
    names.OFFSET: lambda row: row.offset,
    names.STORE_TIME: lambda row: time_of(row.record.store_time),
    names.BORN_TIME: lambda row: time_of(row.record.born_time),
    names.TAGS: lambda row: row.properties.get(TAGS),
    names.KEYS: lambda row: row.properties.get(KEYS),
    names.BODY: lambda row: row.body,
    names.POSITION: lambda row: row.record.position,
    names.SIZE: lambda row: row.record.size,
    names.FLAG: lambda row: row.flag,
    names.SYS_FLAG: lambda row: row.record.sys_flag,
    names.BODY_CRC: lambda row: row.record.body_crc,
    names.BORN_HOST: lambda row: format_host(row.record.born_host),
    names.STORE_HOST: lambda row: format_host(row.record.store_host),
    names.RECONSUME_TIMES: lambda row: row.record.reconsume_times,
    names.PREPARED_POSITION: lambda row: row.record.prepared_position,
    names.UNIQUE_KEY: lambda row: row.properties.get(UNIQ_KEY),
    names.PROPERTIES: lambda row: list(row.properties.items()),
}


def batch_of(rows: Sequence[Row], columns: Iterable[str], broker_name: str | None) -> pa.RecordBatch:
    """Messages as an Arrow batch."""
    columns = tuple(columns)
    arrays = []
    for name in columns:
        if name == names.BROKER:
            arrays.append(pa.repeat(pa.scalar(broker_name, TYPES[name]), len(rows)))
            continue
        value_of = _VALUES[name]
        values = [value_of(row) for row in rows]
        kind = TYPES[name]
        arrays.append(pa.array(values, pa.int64()).cast(kind) if kind == names.TIME else pa.array(values, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(columns))
