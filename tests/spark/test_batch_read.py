"""Batch reads of stores that RocketMQ wrote: whole and in parts, each message once and as RocketMQ read it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.golden_rows import (
    ALL_COLUMNS,
    Facts,
    GoldenStores,
    comparable,
    facts_of,
    milliseconds_of,
    places_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
EVERYTHING = {"includeSystemTopics": "true"}
SOME = [
    "basic",
    "crashed",
    "torn-queues",
    "batch-cq",
    "lmq",
    "rocksdb-cq",
    "transaction",
]  # of every kind that plans differently
IDS = {"columns": "brokerName,physicalOffset,topic,queueId,queueOffset,storeTimestamp,tags,keys,uniqKey"}


def test_all_stores_are_read_as_rocketmq_read_them(spark: SparkSession, stores: GoldenStores) -> None:
    frame = stores.load(spark, columns=",".join(ALL_COLUMNS), splitSize="40000", **EVERYTHING)
    rows = frame.collect()
    assert {(row.brokerName, row.physicalOffset) for row in rows} == stores.records.keys()
    assert len(rows) == len(stores.records)
    for row in rows:
        assert facts_of(row) == comparable(stores.records[row.brokerName, row.physicalOffset])
        words = row.tags, row.keys, row.uniqKey
        assert words == tuple(map(row.properties.get, ("TAGS", "KEYS", "UNIQ_KEY")))


def test_bodies_are_unpacked(spark: SparkSession, stores: GoldenStores) -> None:
    frame = stores.load(spark, ["basic"], columns="physicalOffset,body", decodeBody="true")
    digests = {row.physicalOffset: hashlib.sha256(row.body).hexdigest() for row in frame.collect()}
    packed = {place[1]: facts for place, facts in stores.records.items() if place[0] == "basic"}
    compared = {at: facts["plainBodySha256"] for at, facts in packed.items() if "plainBodySha256" in facts}
    assert compared
    assert {at: digests[at] for at in compared} == compared


def test_topics_of_the_system_are_hidden_unless_they_are_asked_for(spark: SparkSession, stores: GoldenStores) -> None:
    from embermq.model.topic import is_system_topic

    found = places_of(stores.load(spark, **IDS))
    assert found == sorted(stores.places(lambda _, facts: not is_system_topic(facts["topic"])))
    named = places_of(stores.load(spark, subscribe="SCHEDULE_TOPIC_XXXX", **IDS))
    assert named == sorted(stores.places(lambda _, facts: facts["topic"] == "SCHEDULE_TOPIC_XXXX"))


def middle_time(stores: GoldenStores, name: str) -> int:
    times = sorted(facts["storeTimestamp"] for place, facts in stores.records.items() if place[0] == name)
    return int(times[len(times) // 2])


def options_and_choices(stores: GoldenStores) -> dict[str, tuple[dict[str, str], object, str]]:
    """Options, the records they stand for, and the same as a condition, by what they are about."""
    time = middle_time(stores, "basic")
    basic = next(
        facts for place, facts in stores.records.items() if place[0] == "basic" and "KEYS" in facts["properties"]
    )
    key, unique = "order-11", basic["properties"]["UNIQ_KEY"]
    alpha = {"TopicAlpha": {"basic": {str(queue): 10 + queue for queue in range(4)}}}
    ends = {"TopicAlpha": {"basic": {str(queue): 20 for queue in range(4)}}}
    return {
        "topic": (
            {"subscribe": "TopicBeta,BatchTopic,RocksTopic"},
            lambda _, facts: facts["topic"] in ("TopicBeta", "BatchTopic", "RocksTopic"),
            "topic IN ('TopicBeta', 'BatchTopic', 'RocksTopic')",
        ),
        "pattern": (
            {"subscribePattern": "Topic.*|V6Topic"},
            lambda _, facts: facts["topic"].startswith("Topic") or facts["topic"] == "V6Topic",
            "topic LIKE 'Topic%' OR topic = 'V6Topic'",
        ),
        "queues": (
            {"assign": json.dumps({"TopicAlpha": {"basic": [0, 2]}, "ExtTopic": {"cq-ext": [1]}})},
            lambda _, facts: (
                (facts["topic"] == "TopicAlpha" and facts["queueId"] in (0, 2))
                or (facts["topic"] == "ExtTopic" and facts["queueId"] == 1)
            ),
            "(topic = 'TopicAlpha' AND queueId IN (0, 2)) OR (topic = 'ExtTopic' AND queueId = 1)",
        ),
        "offsets": (
            {"subscribe": "TopicAlpha", "startingOffsets": json.dumps(alpha), "endingOffsets": json.dumps(ends)},
            lambda _, facts: facts["topic"] == "TopicAlpha" and 10 + facts["queueId"] <= facts["queueOffset"] < 20,
            "topic = 'TopicAlpha' AND queueOffset >= 10 + queueId AND queueOffset < 20",
        ),
        "time": (
            {"startingTimestamp": str(time), "endingTimestamp": str(time + 400)},
            lambda _, facts: time <= facts["storeTimestamp"] < time + 400,
            f"storeTimestamp >= timestamp_millis({time}) AND storeTimestamp < timestamp_millis({time + 400})",
        ),
        "key": (
            {"keys": key},
            lambda _, facts: key in facts["properties"].get("KEYS", "").split(),
            f"array_contains(split(keys, ' '), '{key}')",
        ),
        "unique key": (
            {"uniqKeys": unique},
            lambda _, facts: facts["properties"].get("UNIQ_KEY") == unique,
            f"uniqKey = '{unique}'",
        ),
        "tags": (
            {"filterExpression": "pay_success || TagB"},
            lambda _, facts: facts["properties"].get("TAGS") in ("pay_success", "TagB"),
            "tags IN ('pay_success', 'TagB')",
        ),
        "SQL": (
            {"filterExpression": "a > 3 AND TAGS IS NOT NULL"},
            lambda _, facts: int(facts["properties"].get("a", 0)) > 3 and "TAGS" in facts["properties"],
            "",
        ),
    }  # fmt: skip


SUBJECTS = ["topic", "pattern", "queues", "offsets", "time", "key", "unique key", "tags", "SQL"]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_part_that_options_ask_for_is_what_the_golden_data_says(
    spark: SparkSession, stores: GoldenStores, subject: str
) -> None:
    options, chooses, condition = options_and_choices(stores)[subject]
    expected = sorted(stores.places(chooses))  # type: ignore[arg-type]
    found = places_of(stores.load(spark, **options, **IDS, **EVERYTHING))
    assert found == expected
    assert 0 < len(found) < len(stores.records)
    if condition:
        assert places_of(stores.load(spark, **IDS, **EVERYTHING).where(condition)) == expected


CONDITIONS = [
    "topic = 'TopicBeta'",
    "topic IN ('TopicBeta', 'CrTopicAlpha', 'SCHEDULE_TOPIC_XXXX') AND queueId = 2",
    "queueId IN (1, 3) AND queueOffset BETWEEN 3 AND 5",
    "queueOffset = 4 AND brokerName = 'basic'",
    "brokerName IN ('basic', 'crashed') AND queueOffset > 30",
    "keys = 'order-11'",
    "keys IN ('order-11', 'Aa1 BB1', 'order-2')",
    "uniqKey = 'nothing' OR keys IS NULL",
    "tags = 'pay_success' AND topic LIKE 'Topic%'",
    "tags IN ('TagA', '标签丙') AND queueId < 2",
    "topic = 'nowhere'",
    "topic <=> 'TopicBeta' AND keys IS NOT NULL",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_filters_give_the_same_rows_pushed_down_or_not(
    spark: SparkSession, stores: GoldenStores, condition: str
) -> None:
    found = []
    for setting, option in (("false", "false"), ("true", "false"), ("true", "true")):
        spark.conf.set(PUSHDOWN, setting)
        found.append(places_of(stores.load(spark, SOME, pushFilters=option, **IDS).where(condition)))
    assert found[0] == found[1] == found[2]


def test_filters_of_time_give_the_same_rows_pushed_down_or_not(spark: SparkSession, stores: GoldenStores) -> None:
    time = middle_time(stores, "basic")
    expected = sorted(stores.places(lambda name, facts: name == "basic" and facts["storeTimestamp"] >= time))
    for option in ("false", "true"):
        frame = stores.load(spark, ["basic"], pushFilters=option, **IDS)
        assert places_of(frame.where(f"storeTimestamp >= timestamp_millis({time})")) == expected


def test_a_dataframe_can_be_filtered_many_times(spark: SparkSession, stores: GoldenStores) -> None:
    """Spark keeps one plan for all uses of a DataFrame: what one filter leaves out must be there for the next."""
    frame = stores.load(spark, ["basic"], **IDS)
    alpha, beta = frame.where("topic = 'TopicAlpha'"), frame.where("topic = 'TopicBeta'")
    assert (alpha.count(), frame.count(), beta.count(), alpha.union(beta).count()) == (200, 600, 200, 400)


def test_without_the_option_filters_spare_nothing_and_with_it_they_do(
    spark: SparkSession, stores: GoldenStores
) -> None:
    """A topic that is not there leaves nothing to plan, of which Spark makes one empty partition."""
    for option, count in (("false", 4), ("true", 1)):
        frame = stores.load(spark, ["basic"], pushFilters=option, minPartitions="4", **IDS)
        assert frame.where("topic = 'nowhere'").rdd.getNumPartitions() == count


def test_a_group_says_where_to_begin_and_to_end(spark: SparkSession, stores: GoldenStores) -> None:
    table = stores.expected("basic")["config"]["consumerOffset.json"]["offsetTable"]["Topic_Gamma-3@GID_partial"]
    committed = {int(queue): offset for queue, offset in table.items()}
    group = {"subscribe": "Topic_Gamma-3", "group": "GID_partial"}

    def is_left(name: str, facts: Facts) -> bool:
        return facts["topic"] == "Topic_Gamma-3" and facts["queueOffset"] >= committed.get(facts["queueId"], 0)

    found = places_of(stores.load(spark, ["basic"], startingOffsets="group", **group, **IDS))
    assert found == sorted(stores.places(is_left))
    done = places_of(stores.load(spark, ["basic"], endingOffsets="group", **group, **IDS))
    every = stores.places(lambda _, facts: facts["topic"] == "Topic_Gamma-3")
    assert sorted({*found, *done}) == sorted(every)
    assert not set(found) & set(done)


def test_offsets_of_queues_in_a_rocksdb_are_read_from_the_log(spark: SparkSession, stores: GoldenStores) -> None:
    import embermq_spark

    rocks = {place: facts for place, facts in stores.records.items() if place[0] == "rocksdb-cq"}
    begins = {"RocksTopic": {"rocksdb-cq": {"0": 3, "1": 5}}}
    ends = {"RocksTopic": {"rocksdb-cq": {"0": 7}}}
    options = {"subscribe": "RocksTopic", "startingOffsets": json.dumps(begins), "endingOffsets": json.dumps(ends)}

    def is_within(facts: Facts) -> bool:
        first = {0: 3, 1: 5}.get(facts["queueId"], 0)
        last = {0: 7}.get(facts["queueId"], 1 << 62)
        return facts["topic"] == "RocksTopic" and first <= facts["queueOffset"] < last

    found = places_of(stores.load(spark, ["rocksdb-cq"], **options, **IDS))
    assert found == sorted(place for place, facts in rocks.items() if is_within(facts))
    assert 0 < len(found) < len(rocks)
    told = embermq_spark.offsets(spark, path=stores.paths["rocksdb-cq"], subscribe="RocksTopic").collect()
    assert sum(row.endOffset - row.beginOffset for row in told) == sum(
        facts["topic"] == "RocksTopic" for facts in rocks.values()
    )
    with pytest.raises(Exception, match="no topic 'RockTopic'; the nearest name is 'RocksTopic'"):
        stores.load(spark, ["rocksdb-cq"], subscribe="RockTopic").collect()


def test_columns_are_chosen_by_option_or_schema(spark: SparkSession, stores: GoldenStores) -> None:
    path = str(stores.paths["basic"])
    reader = spark.read.format("rocketmq")
    assert reader.load(path).columns == list(ALL_COLUMNS[:9])
    assert reader.option("columns", "body,queueid").load(path).columns == ["body", "queueId"]
    frame = spark.read.format("rocketmq").schema("QUEUEID int, keys string, topic string NOT NULL").load(path)
    assert frame.columns == ["QUEUEID", "keys", "topic"]
    assert frame.where("QUEUEID = 0").count() == frame.toPandas()["QUEUEID"].eq(0).sum() > 0
    with_map = spark.read.format("rocketmq").option("includeProperties", "true").load(path)
    assert with_map.columns[-1] == "properties"
    assert with_map.where("properties['WAIT'] = 'false'").count() > 0


def test_times_are_those_of_the_records(spark: SparkSession, stores: GoldenStores) -> None:
    first = spark.read.format("rocketmq").load(str(stores.paths["ipv6"])).orderBy("storeTimestamp").first()
    times = [facts["storeTimestamp"] for place, facts in stores.records.items() if place[0] == "ipv6"]
    assert first is not None
    assert milliseconds_of(first.storeTimestamp) == min(times)


def test_a_view_reads_with_the_same_options(spark: SparkSession, stores: GoldenStores) -> None:
    options = f"path '{stores.paths['basic']}', subscribe 'TopicAlpha', columns 'queueId,brokerName'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW alpha USING rocketmq OPTIONS ({options})")
    rows = spark.sql("SELECT brokerName, count(*) AS count FROM alpha GROUP BY 1").collect()
    assert [(row[0], row[1]) for row in rows] == [("broker-a", 200)]


def test_offsets_of_queues_are_a_table(spark: SparkSession, stores: GoldenStores) -> None:
    import embermq_spark

    rows = embermq_spark.offsets(spark, path=stores.paths["basic"], subscribePattern="Topic.*").collect()
    expected = {
        (topic, "broker-a", int(queue), facts["minOffset"], facts["maxOffset"])
        for topic, queues in stores.expected("basic")["consumeQueues"].items()
        for queue, facts in queues.items()
        if topic.startswith("Topic")
    }
    assert {tuple(row) for row in rows} == expected
    assert len(rows) == 12


def test_work_is_cut_as_options_say(spark: SparkSession, stores: GoldenStores) -> None:
    path = str(stores.paths["basic"])
    reader = spark.read.format("rocketmq")
    assert reader.load(path).rdd.getNumPartitions() == 1
    assert reader.option("minPartitions", "3").load(path).rdd.getNumPartitions() >= 3
    assert spark.read.format("rocketmq").option("splitSize", "64k").load(path).rdd.getNumPartitions() >= 10


def test_an_empty_store_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    from embermq import open_store

    with open_store(tmp_path / "data"):
        pass
    frame = spark.read.format("rocketmq").load(str(tmp_path / "data"))
    assert frame.collect() == []
