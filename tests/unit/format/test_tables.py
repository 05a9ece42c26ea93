from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format import tables
from embermq.format.tables import DelayTable, GroupTable, OffsetTable, TopicTable
from embermq.model.group import ExponentialRetry, GroupConfig, RetryPolicy, Subscription
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion

i64 = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=10)
names = st.text(alphabet=st.sampled_from("ab%_-1"), min_size=1, max_size=6)
versions = st.builds(DataVersion, i64, i64, i64)
attributes = st.dictionaries(texts, texts, max_size=3)


def by_name(things: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.lists(things, max_size=3).map(lambda found: {thing.name: thing for thing in found})


topics = st.builds(TopicConfig, names, i64, i64, st.integers(0, 7), st.booleans(), texts, i64, attributes=attributes)
policies = st.builds(
    RetryPolicy,
    texts,
    st.none() | st.builds(ExponentialRetry, i64, i64, i64),
    st.none() | st.lists(i64, max_size=3).map(tuple),
)
subscriptions = st.lists(st.builds(Subscription, texts, texts, texts, i64), max_size=2).map(tuple)
flags = st.booleans()
groups = st.builds(
    GroupConfig, names, flags, flags, flags, flags, i64, i64, policies, i64, i64,
    flags, i64, i64, st.none() | subscriptions, attributes=attributes,
)  # fmt: skip
readers = st.tuples(names, names)
offsets = st.dictionaries(readers, st.dictionaries(st.integers(0, 20), i64, max_size=3), max_size=3)


@given(st.builds(TopicTable, versions, by_name(topics)))
def test_topics_come_back(table: TopicTable) -> None:
    assert tables.decode_topics(tables.encode_topics(table)) == table


@given(
    st.builds(
        GroupTable,
        versions,
        by_name(groups),
        st.dictionaries(names, st.dictionaries(names, i64, max_size=2), max_size=2),
    )
)
def test_groups_come_back(table: GroupTable) -> None:
    assert tables.decode_groups(tables.encode_groups(table)) == table


@given(st.builds(OffsetTable, versions, offsets))
def test_consumer_offsets_come_back(table: OffsetTable) -> None:
    assert tables.decode_offsets(tables.encode_offsets(table)) == table


@given(st.builds(OffsetTable, versions, offsets, st.dictionaries(readers, i64, max_size=3)))
def test_offsets_of_light_queues_come_back(table: OffsetTable) -> None:
    assert tables.decode_offsets(tables.encode_light_offsets(table)) == table


@given(st.builds(DelayTable, versions, st.dictionaries(st.integers(1, 18), i64, max_size=5)))
def test_offsets_of_delay_levels_come_back(table: DelayTable) -> None:
    assert tables.decode_delays(tables.encode_delays(table)) == table


def test_a_topic_has_the_text_of_the_format() -> None:
    table = TopicTable(DataVersion(0, 5, 17), {"a": TopicConfig("a", attributes={"queue.type": "BatchCQ"})})
    assert tables.encode_topics(table).decode() == (
        '{\n\t"dataVersion":{\n\t\t"counter":5,\n\t\t"stateVersion":0,\n\t\t"timestamp":17\n\t},\n'
        '\t"topicConfigTable":{\n\t\t"a":{\n\t\t\t"attributes":{\n\t\t\t\t"queue.type":"BatchCQ"\n\t\t\t},\n'
        '\t\t\t"order":false,\n\t\t\t"perm":6,\n\t\t\t"readQueueNums":4,\n\t\t\t"topicFilterType":"SINGLE_TAG",\n'
        '\t\t\t"topicName":"a",\n\t\t\t"topicSysFlag":0,\n\t\t\t"writeQueueNums":4\n\t\t}\n\t}\n}'
    )


def test_attributes_that_are_written_once_for_two_topics_count_for_both() -> None:
    text = """{"topicConfigTable":{
        "a":{"attributes":{"queue.type":"BatchCQ"}},
        "b":{"attributes":{"$ref":"$.topicConfigTable.a.attributes"}}}}"""
    table = tables.decode_topics(text)
    assert table.topics["b"] == TopicConfig("b", attributes={"queue.type": "BatchCQ"})


def test_a_group_with_everything_is_read() -> None:
    text = """{"subscriptionGroupTable":{"g":{"groupName":"g","retryMaxTimes":3,"consumeEnable":false,
        "groupRetryPolicy":{"type":"EXPONENTIAL","exponentialRetryPolicy":{"initial":1,"max":9,"multiplier":3},
            "customizedRetryPolicy":{"next":[1000,5000]}},
        "subscriptionDataSet":[{"topic":"t","expression":"a","expressionType":"TAG","version":4}]}},
        "forbiddenTable":{"g":{"t":3}}}"""
    table = tables.decode_groups(text)
    assert table.forbidden == {"g": {"t": 3}}
    assert table.groups["g"] == GroupConfig(
        "g",
        may_consume=False,
        max_retries=3,
        retry_policy=RetryPolicy("EXPONENTIAL", ExponentialRetry(1, 9, 3), (1000, 5000)),
        subscriptions=(Subscription("t", "a", "TAG", 4),),
    )


def test_offsets_are_kept_by_topic_and_group() -> None:
    table = tables.decode_offsets('{"offsetTable":{"t@g":{0:12,"1":9}},"lmqOffsetTable":{"%LMQ%x@g":3}}')
    assert table.offsets == {("t", "g"): {0: 12, 1: 9}}
    assert table.light_offsets == {("%LMQ%x", "g"): 3}
    assert table.version == DataVersion(0, 0, 0)


def test_the_topics_of_each_group_are_listed_once() -> None:
    table = OffsetTable(DataVersion(), {("t", "g"): {0: 1}, ("u", "g"): {}}, {("t", "g"): 4})
    written = tables.decode_table(tables.encode_light_offsets(table))
    assert written["groupTopicMap"] == {"g": ["t", "u"]}
    assert list(written) == ["dataVersion", "groupTopicMap", "lmqOffsetTable", "offsetTable"]


def test_an_offset_of_nobody_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="topic@group expected"):
        tables.decode_offsets('{"offsetTable":{"t":{0:1}}}')


def test_empty_tables_are_read() -> None:
    assert tables.decode_topics("{}") == TopicTable(DataVersion(), {})
    assert tables.decode_groups("{}") == GroupTable(DataVersion(), {}, {})
    assert tables.decode_offsets("{}") == OffsetTable(DataVersion(), {}, {})
    assert tables.decode_delays("{}") == DelayTable(DataVersion(), {})


DECODERS = [
    tables.decode_topics,
    tables.decode_groups,
    tables.decode_offsets,
    tables.decode_delays,
    tables.decode_table,
]


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("text", [b"", b"[]", b"5", b"\xff", b'{"dataVersion":', b"\0" * 20])
def test_what_is_no_table_is_corrupt(decode: Callable[[bytes], object], text: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode(text)


def test_other_tables_are_kept_as_they_are() -> None:
    table = {"table": {"t@g": {0: {"a": "x", "o": [1, 2], "oc": {5: 1}}}}}
    assert tables.decode_table(tables.encode_table(table)) == table


def test_metrics_are_on_one_line() -> None:
    table: dict[str, object] = {"dataVersion": {"counter": 1}, "timingCount": {"t": {"count": 2}}}
    data = tables.encode_metrics(table)
    assert b"\n" not in data
    assert tables.decode_table(data) == table
