"""Writing with Spark: all of a write or nothing, every column, every refusal."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from embermq import Client
from embermq.model.hashing import java_hash
from tests.e2e.conftest import Served
from tests.spark.served import bodies, read

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write(df: DataFrame, served: Served, **options: str) -> None:
    df.write.format("rocketmq").option("namesrv", served.namesrv).options(**options).mode("append").save()


def staged_files(served: Served) -> list[str]:
    return [str(path) for path in (served.data / "staged").glob("*/*.chunks")]


def test_every_row_becomes_a_message(spark: SparkSession, ember: Served) -> None:
    rows = 3000
    df = spark.range(rows).selectExpr("cast(id as string) as body").repartition(4)
    write(df, ember, topic="sink-plain")
    assert bodies(ember, "sink-plain") == Counter(b"%d" % number for number in range(rows))
    assert {message.queue for message in read(ember, "sink-plain")} == {0, 1, 2, 3}
    assert staged_files(ember) == []


def test_every_column_is_where_consumers_look_for_it(spark: SparkSession, ember: Served) -> None:
    schema = (
        "body binary, topic string, tags string, keys string, properties map<string,string>, queueId int, "
        "shardingKey string, deliverAt timestamp"
    )
    past = datetime.now(UTC) - timedelta(hours=1)
    rows: list[tuple[Any, ...]] = [
        (b"\x00full", "sink-columns", "eu", "k1 k2", {"amount": "12", "ä": "ö"}, 2, None, past),
        (b"bare", "sink-columns-2", None, None, None, None, None, None),
    ]
    write(spark.createDataFrame(rows, schema), ember)
    (full,) = read(ember, "sink-columns")
    assert (full.body, full.tags, full.keys, full.queue) == (b"\x00full", "eu", ("k1", "k2"), 2)
    assert (full.properties["amount"], full.properties["ä"]) == ("12", "ö")
    (bare,) = read(ember, "sink-columns-2")
    assert (bare.body, bare.tags, bare.keys) == (b"bare", None, ())
    with Client(ember.namesrv) as mq:
        sent = mq.send("sink-columns", b"sent")
    assert len(sent.unique_key) == len(full.properties["UNIQ_KEY"])


def test_keys_may_be_a_list_and_names_have_any_capitals(spark: SparkSession, ember: Served) -> None:
    df = spark.sql("select 'x' as BODY, array('a', 'b') as Keys")
    write(df, ember, TOPIC="sink-keys")
    assert read(ember, "sink-keys")[0].keys == ("a", "b")


def test_a_sharding_key_has_one_queue_the_one_that_rocketmq_gives_it(spark: SparkSession, ember: Served) -> None:
    df = spark.range(200).selectExpr("cast(id as string) body", "concat('customer-', id % 20) shardingKey")
    write(df.repartition(3), ember, topic="sink-sharded")
    for message in read(ember, "sink-sharded"):
        key = f"customer-{int(message.body) % 20}"
        assert message.properties["__SHARDINGKEY"] == key
        assert message.queue == abs(java_hash(key)) % 4


def test_large_bodies_arrive_whole(spark: SparkSession, ember: Served) -> None:
    df = spark.range(6).selectExpr("repeat(cast(id as string), 700000) as body")
    write(df, ember, topic="sink-large")
    assert bodies(ember, "sink-large") == Counter(str(number).encode() * 700_000 for number in range(6))


def test_an_empty_dataframe_writes_nothing(spark: SparkSession, ember: Served) -> None:
    write(spark.range(0).selectExpr("'x' as body"), ember, topic="sink-empty")


def test_a_write_that_fails_leaves_nothing_to_consumers(spark: SparkSession, ember: Served) -> None:
    """Most rows are staged, in another partition or before it, when one turns out to be none."""
    df = spark.range(0, 2000, 1, 2).selectExpr("if(id = 1990, null, repeat('x', 2000)) as body")
    with pytest.raises(Exception, match=r"row 991 of partition 1 cannot be written: its body is null"):
        write(df, ember, topic="sink-failed")
    with Client(ember.namesrv) as mq:
        mq.send("sink-failed", b"there now")
    assert bodies(ember, "sink-failed") == Counter([b"there now"])


@pytest.mark.parametrize(
    ("select", "options", "said"),
    [
        (
            "'x' as bdy",
            {"topic": "t"},
            "no column 'bdy' can be written, did you mean body? a message has body, topic, ",
        ),
        ("'x' as body, 1 as price", {"topic": "t"}, "no column 'price' can be written; a message has body, topic, "),
        ("'x' as topic", {}, "column body is missing"),
        ("'x' as body, 'y' as Body", {"topic": "t"}, "column body is there twice, as body and Body"),
        ("'x' as body, map('a', repeat('y', 40000)) as properties", {"topic": "t"}, "for topic 't', limit 32767; put"),
        ("'x' as body", {}, "nothing says where messages go"),
        ("1 as body", {"topic": "t"}, "column body is int; binary or string is wanted"),
        ("'x' as body, 'x' as properties", {"topic": "t"}, "column properties is string; map<string,string> is wanted"),
        ("'x' as body", {"topik": "t"}, "no option 'topik' when writing; did you mean topic?"),
        ("cast(null as string) as body", {"topic": "t"}, "row 1 of partition 0 cannot be written: its body is null"),
        ("'' as body", {"topic": "t"}, "row 1 of partition 0 cannot be written: an empty body for topic 't'"),
        ("'x' as body, cast(null as string) as topic", {}, "its topic is null or empty"),
        ("'x' as body", {"topic": "no/topic"}, "illegal topic 'no/topic'"),
        ("'x' as body, 9 as queueId", {"topic": "t9"}, "topic 't9' has no queue 9"),
        ("'x' as body, -1 as queueId", {"topic": "t9"}, "topic 't9' has no queue -1"),
        ("'x' as body, map('a', cast(null as string)) as properties", {"topic": "t"}, "property 'a' is null"),
        ("'x' as body, map('KEYS', 'k') as properties", {"topic": "t"}, "illegal property 'KEYS'"),
        (
            "'x' as body, current_timestamp() + interval 100 day as deliverAt",
            {"topic": "t"},
            "further away than 1209600 s (timer_max_delay_s)",
        ),
        ("repeat('x', 5000000) as body", {"topic": "t"}, "limit 4194304"),
    ],
)
def test_what_cannot_be_written_is_said(
    spark: SparkSession, ember: Served, select: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=re.escape(said)):
        write(spark.sql(f"select {select}"), ember, **options)


def test_messages_are_never_overwritten(spark: SparkSession, ember: Served) -> None:
    writer = spark.sql("select 'x' as body").write.format("rocketmq").option("namesrv", ember.namesrv)
    with pytest.raises(Exception, match="messages are only added"):
        writer.option("topic", "t").mode("overwrite").save()


def test_a_cluster_that_is_not_there_is_said(spark: SparkSession) -> None:
    writer = spark.sql("select 'x' as body").write.format("rocketmq").option("namesrv", "127.0.0.1:9")
    with pytest.raises(Exception, match=r"127\.0\.0\.1:9"):
        writer.option("topic", "t").option("timeout", "1s").mode("append").save()


def test_writing_needs_a_cluster(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="option namesrv is missing"):
        spark.sql("select 'x' as body").write.format("rocketmq").mode("append").save()
