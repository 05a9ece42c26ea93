"""The columns of messages that are read, and which of them a read has."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from embermq.errors import SettingsError
from embermq_spark.options import ReadOptions

PROPERTIES: Final = "properties"

COLUMNS: Final[Mapping[str, DataType]] = {
    "topic": StringType(),
    "queueId": IntegerType(),
    "queueOffset": LongType(),
    "storeTimestamp": TimestampType(),
    "bornTimestamp": TimestampType(),
    "tags": StringType(),
    "keys": StringType(),
    "body": BinaryType(),
    "brokerName": StringType(),
    "physicalOffset": LongType(),
    "storeSize": IntegerType(),
    "flag": IntegerType(),
    "sysFlag": IntegerType(),
    "bodyCRC": IntegerType(),
    "bornHost": StringType(),
    "storeHost": StringType(),
    "reconsumeTimes": IntegerType(),
    "preparedTransactionOffset": LongType(),
    "uniqKey": StringType(),
    PROPERTIES: MapType(StringType(), StringType()),
}
DEFAULT_COLUMNS: Final = (
    *("topic", "queueId", "queueOffset", "storeTimestamp", "bornTimestamp", "tags", "keys", "body", "brokerName"),
)


def read_schema(options: ReadOptions) -> StructType:
    """The columns that options ask for. Raises SettingsError, which names the nearest column."""
    names = options.columns or DEFAULT_COLUMNS
    if options.include_properties and PROPERTIES not in names:
        names = (*names, PROPERTIES)
    return StructType([StructField(column_name(name), COLUMNS[column_name(name)]) for name in names])


def check_schema(options: ReadOptions, schema: StructType) -> None:
    """Raise SettingsError for a schema that cannot be read, or that has other columns than options name."""
    names = columns_of(schema)
    if options.columns and names != columns_of(read_schema(options)):
        raise SettingsError(
            f"option columns names {', '.join(options.columns)}, and the schema {', '.join(names)}; give one of them"
        )
    if options.include_properties and PROPERTIES not in names:
        raise SettingsError(f"option includeProperties is for reads without a schema; put {PROPERTIES} in the schema")


def column_name(name: str) -> str:
    """The column of this name, whose capitals do not matter. Raises SettingsError."""
    known = {one.lower(): one for one in COLUMNS}
    if name.lower() not in known:
        near = get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {known[near[0]]}?" if near else f"there are {', '.join(COLUMNS)}"
        raise SettingsError(f"no column {name[:200]!r}; {hint}")
    return known[name.lower()]


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns of a schema that a user may have given. Raises SettingsError for others, and other types."""
    names = []
    for field in schema.fields:
        name = column_name(field.name)
        if field.dataType != COLUMNS[name]:
            found, has = field.dataType.simpleString(), COLUMNS[name].simpleString()
            raise SettingsError(f"column {name} is {has}, not {found}; read it so and cast it afterwards")
        if name in names:
            raise SettingsError(f"column {name} is in the schema twice")
        names.append(name)
    return tuple(names)
