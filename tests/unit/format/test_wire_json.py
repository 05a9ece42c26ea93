"""JSON bodies on the wire: the raw form, and queues as keys."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.errors import CorruptRecord
from embermq.format.connection_body import (
    decode_consumer_connections,
    decode_consumer_ids,
    decode_producer_connections,
)
from embermq.format.consume_stats_body import decode_consume_stats
from embermq.format.consume_status_body import decode_client_status, decode_consume_status
from embermq.format.heartbeat_body import Consumes, Heartbeat, decode_heartbeat, encode_heartbeat
from embermq.format.lenient_json import parse_lenient
from embermq.format.lock_body import decode_lock_request, decode_locked
from embermq.format.offset_table_body import decode_offset_table, encode_offset_table
from embermq.format.wire_json import BrokerQueue, encode_body, read_queue
from embermq.model.subscription import Subscribed

QUEUE = BrokerQueue("b", "orders", 3)
RAW = b'{"brokerName":"b","queueId":3,"topic":"orders"}'


def test_numbers_and_queues_are_keys_without_quotes() -> None:
    assert encode_body({"t": {0: "a", QUEUE: {1: None, 2: 7}}}) == b'{"t":{0:"a",%b:{2:7}}}' % RAW


def test_members_that_are_none_are_left_out_but_elements_are_kept() -> None:
    assert encode_body({"a": None, "b": [None, True]}) == b'{"b":[null,true]}'


def test_text_and_numbers_are_written_as_rocketmq_writes_them() -> None:
    value = {"text": 'é "\n', "double": 0.4, "zero": 0.0, "large": 12345678.0}
    assert encode_body(value).decode() == '{"text":"é \\"\\n","double":0.4,"zero":0.0,"large":1.2345678E7}'


def test_a_queue_is_read_from_a_value_and_from_a_key() -> None:
    assert read_queue({"brokerName": "b", "queueId": 3, "topic": "orders"}, "test") == QUEUE
    table = parse_lenient((b"{%b:1}" % RAW).decode())
    assert isinstance(table, dict)
    assert [read_queue(key, "test") for key in table] == [QUEUE]
    with pytest.raises(CorruptRecord, match="without a topic"):
        read_queue({"queueId": 3}, "test")


@given(
    st.dictionaries(
        st.builds(BrokerQueue, st.text(), st.text(min_size=1), st.integers(0, 2**31 - 1)), st.integers(0, 2**62)
    )
)
def test_offsets_by_queue_come_back_whatever_the_names(offsets: dict[BrokerQueue, int]) -> None:
    assert decode_offset_table(encode_offset_table(offsets)) == offsets


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
SUBSCRIBED = st.builds(
    Subscribed, NAMES, NAMES, st.sampled_from(["TAG", "SQL92"]), st.lists(NAMES).map(tuple),
    st.lists(st.integers(-(2**31), 2**31 - 1)).map(tuple), st.integers(0, 2**62),
)  # fmt: skip
CONSUMES = st.builds(Consumes, NAMES, st.lists(SUBSCRIBED, max_size=3).map(tuple), NAMES, NAMES, NAMES, st.booleans())


@given(
    st.builds(
        Heartbeat,
        NAMES,
        st.lists(NAMES).map(tuple),
        st.lists(CONSUMES, max_size=3).map(tuple),
        st.integers(-(2**31), 2**31 - 1),
        st.booleans(),
    )
)
def test_heartbeats_come_back(heartbeat: Heartbeat) -> None:
    assert decode_heartbeat(encode_heartbeat(heartbeat)) == heartbeat


DECODERS: tuple[Callable[[bytes], object], ...] = (
    decode_heartbeat, decode_lock_request, decode_locked, decode_offset_table, decode_client_status,
    decode_consume_status, decode_consumer_connections, decode_consumer_ids, decode_producer_connections,
    decode_consume_stats,
)  # fmt: skip
MEMBERS = st.sampled_from(
    [
        "clientID", "consumerDataSet", "producerDataSet", "groupName", "subscriptionDataSet", "codeSet", "tagsSet",
        "subVersion", "topic", "mqSet", "lockOKMQSet", "clientId", "consumerGroup", "queueId", "offsetTable",
        "messageQueueTable", "consumerTable", "connectionSet", "subscriptionTable", "consumerIdList", "consumeTps",
        '{"topic":"t"}', "{", "7",
    ]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | MEMBERS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(MEMBERS, inner, max_size=6))


@given(VALUES, st.sampled_from(DECODERS))
def test_whatever_is_sent_a_body_is_read_or_refused(value: object, decode: Callable[[bytes], object]) -> None:
    try:
        decode(json.dumps(value).encode())
    except CorruptRecord as error:
        assert str(error)


@given(st.binary(max_size=60), st.sampled_from(DECODERS))
def test_whatever_bytes_are_sent_a_body_is_read_or_refused(body: bytes, decode: Callable[[bytes], object]) -> None:
    try:
        decode(body)
    except CorruptRecord as error:
        assert str(error)
