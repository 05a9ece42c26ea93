"""Brokers that come, stay and go."""

from __future__ import annotations

import zlib

import pytest

from embermq.format.registration_body import decode_version, encode_compressed, encode_version
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.topic import TopicConfig
from embermq.model.version import DataVersion
from embermq.nameserver.nameserver import NameServer
from embermq.nameserver.settings import NameServerSettings
from tests.unit.nameserver.asking import ADDRESS, Caller, SteppedClock, ask, has_route, register, route_of, topics

ORDERS = TopicConfig("orders", 3, 5)
WHO = {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "DefaultCluster", "brokerId": "0"}
INVALID = ResponseCode.INVALID_PARAMETER


def test_topics_of_a_registered_broker_have_a_route() -> None:
    name_server = NameServer()
    assert not has_route(name_server, "orders")
    assert register(name_server, topics(ORDERS)).code == 0
    route = route_of(name_server, "orders")
    (queues,) = route.queues
    assert (queues.broker, queues.read_queues, queues.write_queues, queues.permission) == ("broker-a", 3, 5, 6)
    (broker,) = route.brokers
    assert (broker.cluster, broker.name, dict(broker.addresses)) == ("DefaultCluster", "broker-a", {0: ADDRESS})


def test_a_change_counts_even_if_the_version_is_the_same() -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS, version=7))
    register(name_server, topics(TopicConfig("orders", 3, 5, permission=4), version=7))
    assert route_of(name_server, "orders").queues[0].permission == 4


def test_a_first_registration_with_a_single_topic_is_refused() -> None:
    name_server = NameServer()
    one = topics()
    assert register(name_server, one).code == INVALID
    assert not has_route(name_server, "TBW102")
    register(name_server, topics(ORDERS))
    assert register(name_server, one).code == 0  # a change of what is known
    assert has_route(name_server, "orders")


def test_a_topic_that_is_left_out_stays_unless_registrations_are_said_to_be_whole() -> None:
    other = TopicConfig("others")
    lenient, strict = NameServer(), NameServer(NameServerSettings(delete_missing_topics=True))
    for name_server in (lenient, strict):
        register(name_server, topics(ORDERS, other))
        register(name_server, topics(other, version=2))
    assert has_route(lenient, "orders")
    assert not has_route(strict, "orders")
    assert has_route(strict, "others")


def test_a_wrong_checksum_is_refused_and_zero_means_none() -> None:
    name_server = NameServer()
    assert register(name_server, topics(ORDERS), bodyCrc32="1").code == INVALID
    assert not has_route(name_server, "orders")
    assert register(name_server, topics(ORDERS), bodyCrc32="0").code == 0


@pytest.mark.parametrize("flag", ["true", "false"])
def test_a_compressed_registration_is_taken_whatever_its_flag_says(flag: str) -> None:
    name_server = NameServer()
    body = encode_compressed(topics(TopicConfig("orders", 3, 5, attributes={"message.type": "FIFO"})))
    assert register(name_server, topics(), body=body, compressed=flag).code == 0
    assert route_of(name_server, "orders").queues[0].write_queues == 5


def test_a_registration_that_inflates_beyond_the_limit_is_refused() -> None:
    name_server = NameServer(NameServerSettings(max_registration_size=1000))
    body = zlib.compress(bytes(1001), 9)
    answer = register(name_server, topics(), body=body)
    assert answer.code == INVALID
    assert "1000" in str(answer.remark)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("brokerName", ""),
        ("brokerName", "x" * 256),
        ("brokerName", "a\nb"),
        ("clusterName", " "),
        ("brokerAddr", "nowhere"),
        ("brokerAddr", ":10911"),  # an address of this process is not for others to claim
        ("brokerAddr", "a:1,b:2"),
        ("brokerAddr", 'a":1'),
        ("brokerId", "-1"),
        ("brokerId", "one"),
        ("bodyCrc32", "zero"),
        ("heartbeatTimeoutMillis", "9" * 30),
    ],
)
def test_nonsense_is_refused(field: str, value: str) -> None:
    name_server = NameServer()
    assert register(name_server, topics(ORDERS), **{field: value}).code == INVALID
    assert not has_route(name_server, "orders")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"\xff",
        b"x",
        b"x\xda\x00",
        zlib.compress(b"\x7f\xff\xff\xff{}"),
        zlib.compress(b"\xff\xff\xff\xff"),
        zlib.compress(b"\0\0\0\2{}\0\0\0\1\0\0\0\1T"),
        zlib.compress(b"\0\0\0\2{}\0\0\0\1\0\0\0\4T 1 2"),
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"readQueueNums":-1}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"readQueueNums":4294967296}}}}',
        b'{"filterServerList":[1]}',
    ],
)
def test_a_body_that_is_none_is_refused(body: bytes) -> None:
    answer = register(NameServer(), topics(), body=body)
    assert (answer.code, "'body'" in str(answer.remark)) == (INVALID, True)


def test_a_broker_of_another_cluster_cannot_take_a_name() -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS))
    assert register(name_server, topics(ORDERS), clusterName="Other").code == INVALID


def test_goodbye_takes_the_broker_and_its_topics_away() -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS))
    register(name_server, topics(TopicConfig("others")), brokerName="broker-b", brokerAddr="192.0.2.2:10911")
    assert ask(name_server, RequestCode.UNREGISTER_BROKER, WHO).code == 0
    assert not has_route(name_server, "orders")
    assert has_route(name_server, "others")
    assert [queues.broker for queues in route_of(name_server, "TBW102").queues] == ["broker-b"]


def test_a_closed_connection_takes_the_broker_that_registered_on_it_last() -> None:
    name_server = NameServer()
    first, second = Caller(), Caller()
    register(name_server, topics(ORDERS), caller=first)
    register(name_server, topics(ORDERS), caller=second)
    name_server.connection_closed(first)
    assert has_route(name_server, "orders")
    name_server.connection_closed(second)
    assert not has_route(name_server, "orders")


def test_a_silent_broker_is_forgotten_and_its_connection_closed() -> None:
    clock, caller = SteppedClock(), Caller()
    name_server = NameServer(clock=clock)
    register(name_server, topics(ORDERS), caller=caller)
    clock.advance(ms=120_000)
    name_server.expire()
    assert has_route(name_server, "orders")
    clock.advance(ms=1)
    name_server.expire()
    assert (has_route(name_server, "orders"), caller.is_closed) == (False, True)


def test_a_broker_may_say_how_long_it_is_silent() -> None:
    clock = SteppedClock()
    name_server = NameServer(clock=clock)
    register(name_server, topics(ORDERS), heartbeatTimeoutMillis="500")
    clock.advance(ms=501)
    name_server.expire()
    assert not has_route(name_server, "orders")


@pytest.mark.parametrize("code", [RequestCode.BROKER_HEARTBEAT, RequestCode.QUERY_DATA_VERSION])
def test_signs_of_life_keep_a_broker(code: int) -> None:
    clock = SteppedClock()
    name_server = NameServer(clock=clock)
    register(name_server, topics(ORDERS))
    clock.advance(ms=100_000)
    assert ask(name_server, code, WHO, encode_version(DataVersion())).code == 0
    clock.advance(ms=100_000)
    name_server.expire()
    assert has_route(name_server, "orders")


def test_a_broker_can_ask_whether_it_has_something_new() -> None:
    name_server = NameServer()
    registration = topics(ORDERS, version=5)
    version = registration.topics.version
    unknown = ask(name_server, RequestCode.QUERY_DATA_VERSION, WHO, encode_version(version))
    assert (unknown.fields["changed"], unknown.data) == ("true", b"")
    register(name_server, registration)
    same = ask(name_server, RequestCode.QUERY_DATA_VERSION, WHO, encode_version(version))
    assert (same.fields["changed"], decode_version(same.data)) == ("false", version)
    newer = ask(name_server, RequestCode.QUERY_DATA_VERSION, WHO, encode_version(version._replace(timestamp=1)))
    assert (newer.fields["changed"], decode_version(newer.data)) == ("true", version)
    assert ask(name_server, RequestCode.QUERY_DATA_VERSION, WHO, b"?").code == INVALID


def test_a_copy_is_told_its_master_and_its_topics_do_not_count() -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS))
    copied = topics(TopicConfig("orders", 1, 1))
    answer = register(name_server, copied, brokerId="1", brokerAddr="192.0.2.9:1", haServerAddr="192.0.2.9:2")
    assert dict(answer.fields) == {"masterAddr": ADDRESS, "haServerAddr": "192.0.2.1:10912"}
    route = route_of(name_server, "orders")
    assert dict(route.brokers[0].addresses) == {0: ADDRESS, 1: "192.0.2.9:1"}
    assert route.queues[0].read_queues == 3


def test_a_copy_that_becomes_the_master_has_one_id() -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS), brokerId="1")
    register(name_server, topics(ORDERS), brokerId="0")
    assert dict(route_of(name_server, "orders").brokers[0].addresses) == {0: ADDRESS}


def test_a_master_of_an_earlier_term_is_ignored() -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS, term=2))
    assert register(name_server, topics(ORDERS, term=1), brokerAddr="192.0.2.9:1").code == 0
    assert dict(route_of(name_server, "orders").brokers[0].addresses) == {0: ADDRESS}
    assert register(name_server, topics(ORDERS, term=2), brokerAddr="192.0.2.9:1").code == 0
    assert dict(route_of(name_server, "orders").brokers[0].addresses) == {0: "192.0.2.9:1"}


def test_while_a_master_is_away_its_copy_takes_its_place_to_be_read() -> None:
    name_server = NameServer(NameServerSettings(acting_master=True))
    register(name_server, topics(ORDERS), enableActingMaster="true")
    register(name_server, topics(ORDERS), brokerId="1", brokerAddr="192.0.2.9:1", enableActingMaster="true")
    ask(name_server, RequestCode.UNREGISTER_BROKER, WHO)
    route = route_of(name_server, "orders")
    assert (dict(route.brokers[0].addresses), route.queues[0].permission) == ({0: "192.0.2.9:1"}, 4)
    register(name_server, topics(ORDERS), enableActingMaster="true")
    route = route_of(name_server, "orders")
    assert (route.brokers[0].master, route.queues[0].permission) == (ADDRESS, 6)


def test_filter_servers_come_and_go_with_registrations() -> None:
    name_server = NameServer()
    body = b'{"filterServerList":["192.0.2.3:1"],"topicConfigSerializeWrapper":{"topicConfigTable":{"A":{},"B":{}}}}'
    register(name_server, topics(), body=body)
    assert route_of(name_server, "A").filter_servers == {ADDRESS: ("192.0.2.3:1",)}
    register(name_server, topics(ORDERS))
    assert route_of(name_server, "A").filter_servers == {}
