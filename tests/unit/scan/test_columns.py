"""The columns of messages: which there are, how they are chosen, and that Spark takes their types for its own."""

from __future__ import annotations

import pyarrow as pa
import pytest

from embermq.errors import UnknownColumn
from embermq.scan.columns import ALL_COLUMNS, DEFAULT_COLUMNS, TYPES, schema_of, select_columns

SPARK_NAMES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.binary(): "binary",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.map_(pa.string(), pa.string()): "map<string,string>",
}


def test_the_default_columns_are_those_that_are_promised() -> None:
    assert ", ".join(f"{name} {SPARK_NAMES[TYPES[name]]}" for name in DEFAULT_COLUMNS) == (
        "topic string, queueId int, queueOffset long, storeTimestamp timestamp, bornTimestamp timestamp, tags string, "
        "keys string, body binary, brokerName string"
    )


def test_sparks_own_schema_is_the_same() -> None:
    types = pytest.importorskip("pyspark.sql.types")
    to_arrow_schema = pytest.importorskip("pyspark.sql.pandas.types").to_arrow_schema
    made = {
        "string": types.StringType(), "int": types.IntegerType(), "long": types.LongType(),
        "binary": types.BinaryType(), "timestamp": types.TimestampType(),
        "map<string,string>": types.MapType(types.StringType(), types.StringType()),
    }  # fmt: skip
    fields = [types.StructField(name, made[SPARK_NAMES[TYPES[name]]]) for name in ALL_COLUMNS]
    assert to_arrow_schema(types.StructType(fields), timezone="UTC").equals(schema_of(ALL_COLUMNS))


def test_columns_are_chosen_by_name_in_the_order_asked_for() -> None:
    assert select_columns(["Body", " queueid", "topic", "topic"]) == ("body", "queueId", "topic")


def test_an_unknown_column_names_the_nearest() -> None:
    with pytest.raises(UnknownColumn, match="no column 'queueOfset'; the nearest is 'queueOffset'"):
        select_columns(["topic", "queueOfset"])
