"""The columns of rows that are written: which there may be, of which type, and a row as a message."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from embermq.errors import IllegalMessage, SettingsError
from embermq.model.message import Message
from embermq.model.properties import SHARDING_KEY, TIMER_DELIVER_MS

NEAR: Final = 0.7  # how much alike names must be to be taken for each other: most columns too many are no slips
TEXT: Final = (StringType(),)
KINDS: Final[Mapping[str, tuple[DataType, ...]]] = {
    "body": (BinaryType(), StringType()),
    "topic": TEXT,
    "tags": TEXT,
    "keys": (StringType(), ArrayType(StringType())),
    "properties": (MapType(StringType(), StringType()),),
    "queueId": (IntegerType(), LongType(), ShortType(), ByteType()),
    "shardingKey": TEXT,
    "deliverAt": (TimestampType(),),
}


@dataclass(frozen=True, slots=True)
class SinkColumns:
    """Where the parts of a message are in a row; -1 for one that there is not."""

    body: int
    topic: int = -1
    tags: int = -1
    keys: int = -1
    properties: int = -1
    queue_id: int = -1
    sharding_key: int = -1
    deliver_at: int = -1


def sink_columns(schema: StructType, *, topic: str | None) -> SinkColumns:
    """The columns of rows that can be written to `topic`, or each to its own. Raises SettingsError."""
    known = {name.lower(): name for name in KINDS}
    found: dict[str, int] = {}
    for number, field in enumerate(schema.fields):
        name = known.get(field.name.lower())
        if name is None:
            near = get_close_matches(field.name.lower(), known, n=1, cutoff=NEAR)
            hint = f", did you mean {known[near[0]]}?" if near else ";"
            raise SettingsError(
                f"no column {field.name[:200]!r} can be written{hint} a message has {', '.join(KINDS)}: select these"
            )
        if not any(_is(field.dataType, kind) for kind in KINDS[name]):
            wanted = " or ".join(kind.simpleString() for kind in KINDS[name])
            raise SettingsError(f"column {name} is {field.dataType.simpleString()}; {wanted} is wanted, cast it")
        if name in found:
            raise SettingsError(f"column {name} is there twice, as {schema.fieldNames()[found[name]]} and {field.name}")
        found[name] = number
    if "body" not in found:
        raise SettingsError(f"column body is missing, which is what a message holds; there are {schema.fieldNames()}")
    if topic is None and "topic" not in found:
        raise SettingsError("nothing says where messages go; give the option topic, or a column topic")
    return SinkColumns(
        body=found["body"],
        topic=found.get("topic", -1) if topic is None else -1,  # the option is for all rows
        tags=found.get("tags", -1),
        keys=found.get("keys", -1),
        properties=found.get("properties", -1),
        queue_id=found.get("queueId", -1),
        sharding_key=found.get("shardingKey", -1),
        deliver_at=found.get("deliverAt", -1),
    )


def iter_messages(batch: pa.RecordBatch, columns: SinkColumns, *, topic: str | None) -> Iterator[Message]:
    """The messages of a batch's rows. Raises IllegalMessage for a row that is none."""
    now_ms = time.time_ns() // 1_000_000
    nothing: list[Any] = [None] * batch.num_rows
    parts = [
        batch.column(number).to_pylist() if number >= 0 else nothing
        for number in (
            *(columns.body, columns.topic, columns.tags, columns.keys),
            *(columns.properties, columns.queue_id, columns.sharding_key),
        )
    ]
    times = _milliseconds(batch.column(columns.deliver_at)) if columns.deliver_at >= 0 else nothing
    for body, own_topic, tags, keys, properties, queue, sharding_key, deliver_at in zip(*parts, times, strict=True):
        if body is None:
            raise IllegalMessage("its body is null; leave such rows out, for a message has one byte at least")
        name = topic or own_topic
        if not name:
            raise IllegalMessage("its topic is null or empty; every row says where it goes, or the option topic does")
        more = dict(properties or ())
        if None in more.values():
            raise IllegalMessage(f"property {_first_null(more)!r} is null; leave it out")
        if sharding_key:
            more[SHARDING_KEY] = sharding_key
        if deliver_at is not None and deliver_at > now_ms:
            more[TIMER_DELIVER_MS] = str(deliver_at)
        data = body.encode() if isinstance(body, str) else body
        yield Message(name, data, tags or None, _keys(keys), more, queue)


def _is(found: DataType, kind: DataType) -> bool:
    """Whether a type is of this kind, whatever may be null in it and however text is compared."""
    if isinstance(kind, ArrayType):
        return isinstance(found, ArrayType) and _is(found.elementType, kind.elementType)
    if isinstance(kind, MapType):
        return isinstance(found, MapType) and _is(found.keyType, kind.keyType) and _is(found.valueType, kind.valueType)
    return isinstance(found, type(kind))


def _keys(keys: str | Sequence[str | None] | None) -> tuple[str, ...]:
    """Keys of a row: a list of them, or one text in which blanks separate them, as RocketMQ has it."""
    if keys is None:
        return ()
    return tuple(keys.split()) if isinstance(keys, str) else tuple(key for key in keys if key)


def _milliseconds(column: pa.Array) -> list[int | None]:
    found: list[int | None] = column.cast(pa.timestamp("ms", tz="UTC"), safe=False).cast(pa.int64()).to_pylist()
    return found


def _first_null(properties: Mapping[str, object]) -> str:
    return next(name for name, value in properties.items() if value is None)
