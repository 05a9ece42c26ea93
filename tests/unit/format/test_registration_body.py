"""What a broker tells of itself, in both forms; and bytes that are neither."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.cluster_body import decode_clusters, decode_members, decode_topic_list, decode_values
from embermq.format.registration_body import (
    Registration,
    decode_registration,
    decode_version,
    encode_compressed,
    encode_registration,
    encode_version,
)
from embermq.format.route_body import decode_route, encode_route
from embermq.format.tables import TopicTable
from embermq.model.route import RoutedBroker, RoutedQueues, TopicRoute
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion

NAMES = st.text(st.characters(codec="utf-8", exclude_characters=" "), min_size=1, max_size=20)
COUNTS = st.integers(0, 2**31 - 1)
VERSIONS = st.builds(DataVersion, *(st.integers(0, 2**62) for _ in range(3)))
TOPICS = st.builds(
    TopicConfig,
    NAMES,
    COUNTS,
    COUNTS,
    permission=COUNTS,
    attributes=st.dictionaries(NAMES, NAMES, max_size=3),
)
PLAIN_TOPICS = st.builds(TopicConfig, NAMES, COUNTS, COUNTS, order=st.booleans(), sys_flag=COUNTS)


def registration_of(version: DataVersion, topics: list[TopicConfig], servers: list[str]) -> Registration:
    return Registration(TopicTable(version, {topic.name: topic for topic in topics}), tuple(servers))


@given(VERSIONS, st.lists(TOPICS | PLAIN_TOPICS, max_size=4), st.lists(NAMES, max_size=2))
def test_the_plain_form_is_read_as_it_was_written(
    version: DataVersion, topics: list[TopicConfig], servers: list[str]
) -> None:
    registration = registration_of(version, topics, servers)
    assert decode_registration(encode_registration(registration), version=479) == registration


@given(VERSIONS, st.lists(TOPICS, max_size=4), st.lists(NAMES, max_size=2))
def test_the_compressed_form_is_read_as_it_was_written(
    version: DataVersion, topics: list[TopicConfig], servers: list[str]
) -> None:
    registration = registration_of(version, topics, servers)
    assert decode_registration(encode_compressed(registration), version=479) == registration


def test_mappings_of_static_topics_are_kept_in_both_forms() -> None:
    mapping = {"bname": "b", "currIdMap": {0: 0, 1: 3}, "topic": "T", "totalQueues": 2}
    registration = Registration(TopicTable(DataVersion(), {}), mappings={"T": mapping})
    for body in (encode_registration(registration), encode_compressed(registration)):
        assert decode_registration(body, version=479).mappings == {"T": mapping}
    # Brokers before 5.0 have no such part, and what follows is not looked at.
    assert decode_registration(encode_compressed(registration), version=412).mappings == {}


def test_a_broker_of_old_sent_the_table_alone() -> None:
    body = b'{"dataVersion":{"counter":3},"topicConfigTable":{"T":{"readQueueNums":9}}}'
    registration = decode_registration(body, version=36)
    assert (registration.topics.version.counter, registration.topics.topics["T"].read_queues) == (3, 9)
    assert decode_registration(b"", version=479).topics.topics == {}


@given(VERSIONS)
def test_a_version_is_read_as_it_was_written(version: DataVersion) -> None:
    assert decode_version(encode_version(version)) == version


@given(
    st.lists(st.builds(RoutedQueues, NAMES, COUNTS, COUNTS, COUNTS, COUNTS), max_size=3),
    st.lists(
        st.builds(RoutedBroker, NAMES, NAMES, st.dictionaries(COUNTS, NAMES), st.booleans(), st.none() | NAMES),
        max_size=3,
    ),
    st.none() | NAMES,
    st.booleans(),
)
def test_a_route_is_read_as_it_was_written(
    queues: list[RoutedQueues], brokers: list[RoutedBroker], order: str | None, standard: bool
) -> None:
    route = TopicRoute(tuple(queues), tuple(brokers), order)
    assert decode_route(encode_route(route, standard=standard)) == route


JSON_LIKE = st.text(st.sampled_from('{}[]":,0123456789abqT$ \\'), max_size=60).map(str.encode)


@given(st.binary(max_size=80) | JSON_LIKE | st.binary(max_size=80).map(zlib.compress))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    decoders = (decode_version, decode_route, decode_clusters, decode_members, decode_topic_list, decode_values)
    assert {outcome(decode, data) for decode in decoders} <= {"read", "refused"}
    for version in (36, 412, 479):
        assert outcome(partial(decode_registration, version=version, limit=1000), data) in ("read", "refused")


def outcome(decode: Callable[[bytes], object], data: bytes) -> str:
    """Any other error than the one that decoders promise fails the test."""
    try:
        decode(data)
    except CorruptRecord:
        return "refused"
    return "read"
