"""Keys and values of the consume queues that RocketMQ keeps in a RocksDB, column family by column family.

    default   topic size 4 │ 01 │ topic │ 01 │ queue 4 │ 01 │ offset 8 → position 8, size 4, tags code 8, store time 8
    offset    topic size 4 │ 01 │ topic │ 01 │ max or min │ 01 │ queue 4 → position 8, offset 8

`max` is the last offset there is, `min` the first; both with the position of their record. One `max` is of no queue:
that of the topic CHECKPOINT_TOPIC holds a position alone, up to which the log is in the queues.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord
from embermq.model.topic import CHECKPOINT_TOPIC

UNITS: Final = "default"
BOUNDS: Final = "offset"

_UNIT: Final = struct.Struct(">qiqq")
_BOUND: Final = struct.Struct(">qq")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_MAX: Final = b"\x01max\x01"
_MIN: Final = b"\x01min\x01"
_HEAD_SIZE: Final = 5  # the topic's size and what separates it


class Unit(NamedTuple):
    """What the database knows of a message."""

    position: int
    size: int  # of its record
    tags_code: int
    store_time: int


class Bound(NamedTuple):
    """The first or the last message of a queue."""

    position: int
    offset: int


class BoundKey(NamedTuple):
    """Whose bound it is."""

    topic: str
    queue: int
    is_max: bool


def queue_prefix(topic: bytes, queue: int) -> bytes:
    """What the keys of all units of a queue begin with; followed by 01 and the offset."""
    return _I32.pack(len(topic)) + b"\x01" + topic + b"\x01" + _I32.pack(queue)


def unit_key(prefix: bytes, offset: int) -> bytes:
    """The key of a unit of the queue with this prefix."""
    return prefix + b"\x01" + _I64.pack(offset)


def queue_end(prefix: bytes) -> bytes:
    """A key behind those of all units of the queue with this prefix."""
    return prefix + b"\x02"


def offset_of(key: bytes) -> int:
    """The offset in the key of a unit."""
    if len(key) < _I64.size:
        raise CorruptRecord(0, f"a key of {len(key)} bytes in the queues' database, {_I64.size} at least are wanted")
    offset: int = _I64.unpack_from(key, len(key) - _I64.size)[0]
    return offset


def encode_unit(unit: Unit) -> bytes:
    return _UNIT.pack(*unit)


def decode_unit(data: bytes) -> Unit:
    return Unit._make(_UNIT.unpack(_checked(data, _UNIT.size)))


def max_key(topic: bytes, queue: int) -> bytes:
    return _I32.pack(len(topic)) + b"\x01" + topic + _MAX + _I32.pack(queue)


def min_key(topic: bytes, queue: int) -> bytes:
    return _I32.pack(len(topic)) + b"\x01" + topic + _MIN + _I32.pack(queue)


def encode_bound(bound: Bound) -> bytes:
    return _BOUND.pack(*bound)


def decode_bound(data: bytes) -> Bound:
    return Bound._make(_BOUND.unpack(_checked(data, _BOUND.size)))


CHECKPOINT_KEY: Final = max_key(CHECKPOINT_TOPIC.encode(), 0)


def encode_position(position: int) -> bytes:
    """The value of CHECKPOINT_KEY."""
    return _I64.pack(position)


def decode_position(data: bytes) -> int:
    position: int = _I64.unpack(_checked(data, _I64.size))[0]
    return position


def decode_bound_key(key: bytes) -> BoundKey:
    """Whose bound a key of the column family `offset` is of. Raises CorruptRecord."""
    size = _I32.unpack_from(key)[0] if len(key) >= _HEAD_SIZE else -1
    kind = key[_HEAD_SIZE + max(size, 0) : -_I32.size]
    if size < 0 or kind not in (_MAX, _MIN) or key[_HEAD_SIZE - 1] != 1:
        raise CorruptRecord(0, f"no bound of a queue has the key {key[:300]!r}")
    try:
        topic = key[_HEAD_SIZE : _HEAD_SIZE + size].decode()
    except UnicodeDecodeError as error:
        raise CorruptRecord(0, f"no topic has the name {key[:300]!r}: {error.reason}") from error
    return BoundKey(topic, _I32.unpack_from(key, len(key) - _I32.size)[0], kind == _MAX)


def _checked(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise CorruptRecord(0, f"{len(data)} bytes in the queues' database where {size} are wanted")
    return data
