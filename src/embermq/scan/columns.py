"""The columns that messages are read as: their names, their Arrow types, and which are read unless others are named.

The types are those that Spark has for `string`, `int`, `long`, `binary`, `timestamp` and `map<string,string>`, to the
letter: Spark compares the schema of what it is given with its own.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from embermq.errors import UnknownColumn

TOPIC: Final = "topic"
QUEUE: Final = "queueId"
OFFSET: Final = "queueOffset"
STORE_TIME: Final = "storeTimestamp"
BORN_TIME: Final = "bornTimestamp"
TAGS: Final = "tags"
KEYS: Final = "keys"
BODY: Final = "body"
BROKER: Final = "brokerName"
POSITION: Final = "physicalOffset"
SIZE: Final = "storeSize"
FLAG: Final = "flag"
SYS_FLAG: Final = "sysFlag"
BODY_CRC: Final = "bodyCRC"
BORN_HOST: Final = "bornHost"
STORE_HOST: Final = "storeHost"
RECONSUME_TIMES: Final = "reconsumeTimes"
PREPARED_POSITION: Final = "preparedTransactionOffset"
UNIQUE_KEY: Final = "uniqKey"
PROPERTIES: Final = "properties"

STRING: Final = pa.string()
TIME: Final = pa.timestamp("us", tz="UTC")
MAP: Final = pa.map_(pa.string(), pa.string())

TYPES: Final[dict[str, pa.DataType]] = {
    TOPIC: STRING,
    QUEUE: pa.int32(),
    OFFSET: pa.int64(),
    STORE_TIME: TIME,
    BORN_TIME: TIME,
    TAGS: STRING,
    KEYS: STRING,
    BODY: pa.binary(),
    BROKER: STRING,
    POSITION: pa.int64(),
    SIZE: pa.int32(),
    FLAG: pa.int32(),
    SYS_FLAG: pa.int32(),
    BODY_CRC: pa.int32(),
    BORN_HOST: STRING,
    STORE_HOST: STRING,
    RECONSUME_TIMES: pa.int32(),
    PREPARED_POSITION: pa.int64(),
    UNIQUE_KEY: STRING,
    PROPERTIES: MAP,
}
ALL_COLUMNS: Final = tuple(TYPES)
DEFAULT_COLUMNS: Final = ALL_COLUMNS[: ALL_COLUMNS.index(BROKER) + 1]


def select_columns(names: Iterable[str]) -> tuple[str, ...]:
    """The columns of these names, in this order; upper and lower case are the same. Raises UnknownColumn."""
    known = {name.lower(): name for name in ALL_COLUMNS}
    chosen: dict[str, None] = {}
    for name in names:
        found = known.get(name.strip().lower())
        if found is None:
            nearest = difflib.get_close_matches(name.strip().lower(), known, n=1, cutoff=0.4)
            raise UnknownColumn(name, nearest=known[nearest[0]] if nearest else None, known=ALL_COLUMNS)
        chosen[found] = None
    return tuple(chosen)


def schema_of(names: Iterable[str]) -> pa.Schema:
    """The Arrow schema of these columns; every one of them may be null for Spark."""
    return pa.schema([pa.field(name, TYPES[name]) for name in names])
