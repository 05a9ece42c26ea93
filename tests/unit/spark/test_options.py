"""Options: what each takes, and what is said of one that it does not take. No Spark runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.types import StructField, StructType

from embermq.errors import SettingsError
from embermq.scan.splits import StorePlace, stored_at
from embermq_spark.option_values import as_texts
from embermq_spark.options import ReadOptions, WriteOptions
from embermq_spark.schema import COLUMNS, DEFAULT_COLUMNS, check_schema, column_name, read_schema


def read(**given: str) -> ReadOptions:
    return ReadOptions.parse({"path": "data", **given})


def test_values_are_what_the_text_means() -> None:
    options = read(
        subscribe="orders, bills,orders",
        startingoffsets='{"orders": {"broker-a": {"0": 23, "1": -2}}}',
        endingtimestamp="2025-06-01T12:00:00Z",
        splitsize="64m",
        maxtriggerdelay="15m",
        includeproperties="TRUE",
        minpartitions="3",
    )
    assert options.subscribe == ("orders", "bills")
    assert options.starting_offsets == {"orders": {"broker-a": {0: 23, 1: -2}}}
    assert options.ending_timestamp == 1_748_779_200_000
    assert options.split_size == 64 << 20
    assert options.max_trigger_delay == 900_000
    assert options.include_properties
    assert options.min_partitions == 3


def test_defaults() -> None:
    options = read()
    assert (options.decode_body, options.fail_on_data_loss, options.include_properties) == (True, True, False)
    assert options.starting_offsets is None


def test_a_list_of_paths_comes_as_json() -> None:
    assert ReadOptions.parse({"paths": '["a", "b"]'}).all_paths == ("a", "b")
    assert read().all_paths == ("data",)


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert read(startingtimestamp="2025-06-01").starting_timestamp == 1_748_736_000_000
    assert read(startingtimestamp="1748736000000").starting_timestamp == 1_748_736_000_000
    assert read(startingtimestamp="0001-01-01T00:00:00+14:00").starting_timestamp == -62_135_647_200_000


@pytest.mark.parametrize("name", ReadOptions.names())
def test_an_option_is_known_whatever_its_capitals(name: str) -> None:
    with pytest.raises(SettingsError, match=f"option {name}"):  # none of them takes an empty text
        ReadOptions.parse({name.upper(): ""})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pathh": "x"}, "no option 'pathh' when reading; did you mean path?"),
        ({"zzz": "x"}, "no option 'zzz' when reading; there are accessKey, "),
        ({"owner": "x", "provider": "rocketmq"}, "a table cannot be made USING rocketmq"),
        ({}, "options path and namesrv: one of them is wanted"),
        ({"path": "x", "namesrv": "h:1"}, "options path and namesrv: one of them is wanted"),
        ({"path": "x", "subscribe": "a", "assign": '{"a": {"b": [0]}}'}, "options subscribe and assign say the same"),
        ({"path": "x", "startingoffsets": "latest", "startingtimestamp": "1"}, "startingOffsets and startingTimestamp"),
        ({"path": "x", "startingoffsets": "group"}, "option group says of which one"),
        ({"path": "x", "accesskey": "a"}, "accessKey and secretKey go together"),
        ({"path": "x", "accesskey": "a", "secretkey": "b"}, "accessKey, secretKey and tls are for namesrv"),
        ({"path": "x", "tls": "true"}, "accessKey, secretKey and tls are for namesrv"),
        ({"path": "x", "group": "g"}, "option group is 'g', but no offsets of it are asked for; startingOffsets=group"),
        ({"path": "x", "subscribepattern": "("}, "option subscribePattern is '(': it is no regular expression"),
        ({"path": "x", "splitsize": "64 furlongs"}, "option splitSize is '64 furlongs': a number of bytes is wanted"),
        ({"path": "x", "splitsize": "0"}, "a number of bytes is wanted"),
        ({"path": "x", "minpartitions": "0"}, "at least 1"),
        ({"path": "x", "minpartitions": "²"}, "at least 1"),
        ({"path": "x", "includeproperties": "maybe"}, "true or false is wanted"),
        ({"path": "x", "maxtriggerdelay": "soon"}, "a time is wanted, such as 500ms"),
        ({"path": "x", "startingtimestamp": "yesterday"}, "milliseconds since 1970 are wanted"),
        ({"path": "x", "endingtimestamp": str(2**63)}, "milliseconds since 1970 are wanted"),
        (
            {"path": "x", "endingtimestamp": "1748736000"},
            "option endingTimestamp is '1748736000': as milliseconds it is",
        ),
        ({"path": "x", "startingtimestamp": "20250601"}, "as milliseconds it is long ago"),
        (
            {"path": "x", "startingtimestamp": "11", "endingtimestamp": "10"},
            "option startingTimestamp is 11 ms, behind endingTimestamp, 10 ms",
        ),
        ({"path": "x", "startingoffsets": "{"}, "it is no JSON"),
        ({"path": "x", "startingoffsets": "3"}, "all of it is 3, not an object"),
        ({"path": "x", "startingoffsets": '{"a": 3}'}, "topic 'a' is 3, not an object"),
        ({"path": "x", "startingoffsets": '{"a": {"b": {"x": 3}}}'}, "'x' is no number of a queue"),
        ({"path": "x", "startingoffsets": '{"a": {"b": {"0": -3}}}'}, "queue 0 has -3, not an offset, -1 or -2"),
        ({"path": "x", "startingoffsets": '{"a": {"b": {"0": true}}}'}, "queue 0 has true, not an offset"),
        ({"path": "s3://x", "storageoptions": '["hidden"]'}, "option storageOptions: a JSON object is wanted, such as"),
        ({"path": "x", "storageoptions": '{"key": "k"}'}, "option storageOptions is for addresses such as s3://"),
        ({"path": "x", "assign": '{"a": {"b": [-1]}}'}, "a broker's part is [-1], not a list of queues"),
    ],
)
def test_what_cannot_be_read_is_said(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        ReadOptions.parse(given)
    assert said in str(caught.value)


def test_what_only_reading_has_is_no_option_of_writing() -> None:
    with pytest.raises(SettingsError, match=r"no option 'subscribe' when writing; there are accessKey"):
        WriteOptions.parse({"namesrv": "127.0.0.1:9876", "subscribe": "orders"})


def test_writing_needs_a_cluster() -> None:
    with pytest.raises(SettingsError, match="option namesrv is missing"):
        WriteOptions.parse({"topic": "orders"})


def test_what_spark_adds_to_the_options_of_a_stream_is_passed_over() -> None:
    assert WriteOptions.parse({"namesrv": "h:1", "checkpointLocation": "c"}).topic is None


def test_a_secret_is_never_shown() -> None:
    options = WriteOptions.parse({"namesrv": "h:1", "accesskey": "a", "secretkey": "hidden"})
    assert "hidden" not in repr(options)
    with pytest.raises(SettingsError) as caught:
        WriteOptions.parse({"namesrv": "h:1", "accesskey": "a", "secretkey": " "})
    assert str(caught.value) == "option secretKey: it is empty"
    stored = ReadOptions.parse({"path": "s3://bucket/store", "storageOptions": '{"secret": "hidden"}'})
    assert "hidden" not in f"{stored} {stored_at('s3://bucket/store', stored.storage_options)}"
    assert StorePlace("s3://key:hidden@bucket/store?region=x").name == "s3://bucket/store"


def test_columns_are_chosen_by_name() -> None:
    assert tuple(read_schema(read()).fieldNames()) == DEFAULT_COLUMNS
    assert read_schema(read(columns="body,TOPIC")).fieldNames() == ["body", "topic"]
    assert read_schema(read(columns="body", includeproperties="true")).fieldNames() == ["body", "properties"]
    assert read_schema(read(columns=",".join(COLUMNS))).fieldNames() == list(COLUMNS)


def schema_of(*names: str) -> StructType:
    return StructType([StructField(name, COLUMNS[column_name(name)]) for name in names])


@pytest.mark.parametrize(
    ("given", "schema", "said"),
    [
        ({"columns": "topic"}, ["body"], "option columns names topic, and the schema body; give one of them"),
        ({"columns": "topic,body"}, ["body", "topic"], "give one of them"),
        ({"includeproperties": "true"}, ["body"], "put properties in the schema"),
    ],
)
def test_a_schema_and_options_that_contradict_each_other_are_refused(
    given: dict[str, str], schema: list[str], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        check_schema(read(**given), schema_of(*schema))


def test_a_schema_and_options_may_say_the_same() -> None:
    options = read(columns="TOPIC,body", includeproperties="true")
    check_schema(options, schema_of("Topic", "body", "properties"))
    check_schema(options, read_schema(options))
    check_schema(read(), schema_of("body"))


def test_options_of_calls_in_python_may_be_lists_and_mappings() -> None:
    offsets = {"orders": {"broker-a": {"0": 23}}}
    given = {"path": [Path("a"), "b"], "subscribe": ["orders", "bills"], "startingOffsets": offsets}
    options = ReadOptions.parse(as_texts({**given, "includeProperties": True, "minPartitions": 3}))
    assert options.all_paths == ("a", "b")
    assert options.subscribe == ("orders", "bills")
    assert options.starting_offsets == {"orders": {"broker-a": {0: 23}}}
    assert (options.include_properties, options.min_partitions) == (True, 3)


def test_an_unknown_column_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(SettingsError, match="no column 'bdy'; did you mean body"):
        read_schema(read(columns="bdy"))
