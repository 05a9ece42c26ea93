"""Routes and clusters as different clients are to see them."""

from __future__ import annotations

import json

import pytest

from embermq.format.cluster_body import decode_clusters, decode_members
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.topic import TopicConfig
from embermq.nameserver.key_values import ORDER_TOPICS
from embermq.nameserver.nameserver import NameServer
from embermq.nameserver.routes import Registrant
from embermq.nameserver.settings import NameServerSettings
from tests.unit.nameserver.asking import ADDRESS, Caller, SteppedClock, ask, register, route_of, topics

ORDERS = TopicConfig("orders")
ROUTE = RequestCode.GET_ROUTE_BY_TOPIC
CLUSTERS = RequestCode.GET_BROKER_CLUSTER_INFO


def test_an_unknown_topic_is_refused() -> None:
    answer = ask(NameServer(), ROUTE, {"topic": "nothing"})
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert "nothing" in str(answer.remark)
    assert ask(NameServer(), ROUTE).code == ResponseCode.INVALID_PARAMETER


def test_an_unknown_topic_is_told_with_the_nearest() -> None:
    name_server = NameServer()
    register(name_server, topics(TopicConfig("orders"), TopicConfig("invoices")))
    assert "'orders'" in str(ask(name_server, ROUTE, {"topic": "ordres"}).remark)


@pytest.mark.parametrize(
    ("version", "fields", "is_standard"),
    [
        (317, {}, False),
        (400, {}, False),
        (401, {}, True),
        (479, {}, True),
        (317, {"acceptStandardJsonOnly": "true"}, True),
    ],
)
def test_old_clients_get_numbers_as_keys_and_new_ones_strict_json(
    version: int, fields: dict[str, str], is_standard: bool
) -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS))
    register(name_server, topics(ORDERS), brokerId="1", brokerAddr="192.0.2.9:1")
    body = ask(name_server, ROUTE, {"topic": "orders", **fields}, version=version).data
    quoted, raw = f'{{"0":"{ADDRESS}","1":"192.0.2.9:1"}}', f'{{0:"{ADDRESS}",1:"192.0.2.9:1"}}'
    assert ((quoted if is_standard else raw) in body.decode(), b" " in body) == (True, False)
    if is_standard:
        assert json.loads(body)["brokerDatas"][0]["brokerAddrs"]["1"] == "192.0.2.9:1"


def test_go_clients_can_split_the_addresses_as_text() -> None:
    """As that client does it: the text between the braces, cut at commas, cut at the first colon."""
    name_server = NameServer()
    register(name_server, topics(ORDERS))
    register(name_server, topics(ORDERS), brokerId="1", brokerAddr="192.0.2.9:1")
    text = ask(name_server, ROUTE, {"topic": "orders"}, version=317).data.decode()
    inside = text.split('"brokerAddrs":{', 1)[1].split("}", 1)[0]
    pairs = [part.split(":", 1) for part in inside.split(",")]
    assert {int(number): address.strip('"') for number, address in pairs} == {0: ADDRESS, 1: "192.0.2.9:1"}


def test_names_beyond_ascii_are_escaped_in_strict_json() -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS), brokerName="bröker", clusterName="簇")
    new, old = (ask(name_server, ROUTE, {"topic": "orders"}, version=version).data for version in (479, 317))
    assert b"br\\u00f6ker" in new
    assert "bröker".encode() in old


def test_brokers_stand_in_the_order_of_their_names() -> None:
    name_server = NameServer()
    for name in ("c", "a", "b"):
        register(name_server, topics(ORDERS), brokerName=name, brokerAddr=f"{name}:1")
    route = route_of(name_server, "orders")
    assert [broker.name for broker in route.brokers] == ["a", "b", "c"] == [queues.broker for queues in route.queues]


def test_a_broker_of_this_process_is_found_where_its_clients_reached_us() -> None:
    name_server = NameServer()
    who = Registrant("DefaultCluster", "broker-a", 0, ":10911", ":10912")
    name_server.routes.register(who, topics(ORDERS))
    for reached, address in [("198.51.100.1", "198.51.100.1:10911"), ("2001:db8::1", "[2001:db8::1]:10911")]:
        caller = Caller(reached=reached)
        for code, fields in [(ROUTE, {"topic": "orders"}), (CLUSTERS, {})]:
            assert f'"{address}"' in ask(name_server, code, fields, caller=caller).data.decode()
        member = ask(name_server, 901, {"clusterName": "DefaultCluster", "brokerName": "broker-a"}, caller=caller)
        assert decode_members(member.data).master == address
        system = ask(name_server, RequestCode.GET_SYSTEM_TOPICS_FROM_NAMESERVER, caller=caller)
        assert json.loads(system.data)["brokerAddr"] == address
        copied = register(name_server, topics(ORDERS), brokerId="1", brokerAddr="192.0.2.9:1", caller=caller)
        assert copied.fields["masterAddr"] == address


def test_nobody_else_takes_the_place_of_the_broker_of_this_process() -> None:
    clock = SteppedClock()
    name_server = NameServer(clock=clock)
    name_server.routes.register(Registrant("DefaultCluster", "broker-a", 0, "127.0.0.1:10911"), topics(ORDERS))
    assert register(name_server, topics(ORDERS)).code == ResponseCode.INVALID_PARAMETER
    clock.advance(hours=1000)
    name_server.expire()
    assert route_of(name_server, "orders").brokers[0].master == "127.0.0.1:10911"


def test_clusters_list_their_brokers() -> None:
    name_server = NameServer()
    assert ask(name_server, CLUSTERS).data == b'{"brokerAddrTable":{},"clusterAddrTable":{}}'
    register(name_server, topics(ORDERS))
    register(name_server, topics(ORDERS), brokerName="b", brokerAddr="b:1", clusterName="Other")
    clusters = decode_clusters(ask(name_server, CLUSTERS).data)
    assert clusters.clusters == {"DefaultCluster": ("broker-a",), "Other": ("b",)}
    assert clusters.brokers["b"].master == "b:1"


def test_the_members_of_an_unknown_broker_are_none() -> None:
    answer = ask(NameServer(), 901, {"clusterName": "c", "brokerName": "b"})
    assert answer.data == b'{"brokerMemberGroup":{"brokerAddrs":{},"brokerName":"b","cluster":"c"}}'


def test_an_ordered_topic_has_its_queues_in_the_route_where_that_is_on() -> None:
    for is_on in (True, False):
        name_server = NameServer(NameServerSettings(order_topics=is_on))
        register(name_server, topics(ORDERS))
        name_server.key_values.put(ORDER_TOPICS, "orders", "broker-a:4")
        assert route_of(name_server, "orders").order == ("broker-a:4" if is_on else None)
        assert route_of(name_server, "TBW102").order is None


def test_a_client_that_asks_for_its_zone_gets_the_brokers_of_it() -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS), brokerName="near", brokerAddr="near:1", __ZONE_NAME="One")
    register(name_server, topics(ORDERS), brokerName="far", brokerAddr="far:1", __ZONE_NAME="Two")
    register(name_server, topics(ORDERS), brokerName="lost", brokerAddr="lost:1", brokerId="1", __ZONE_NAME="Two")
    route = route_of(name_server, "orders", __ZONE_MODE="true", __ZONE_NAME="one")
    assert [broker.name for broker in route.brokers] == ["lost", "near"] == [queues.broker for queues in route.queues]
    assert len(route_of(name_server, "orders", __ZONE_NAME="one").brokers) == 3


def test_no_route_is_given_before_brokers_had_time_to_register() -> None:
    clock = SteppedClock()
    name_server = NameServer(NameServerSettings(wait_for_service=True, wait_for_service_s=10), clock=clock)
    register(name_server, topics(ORDERS))
    assert ask(name_server, ROUTE, {"topic": "orders"}).code == ResponseCode.SYSTEM_ERROR
    clock.advance(ms=10_000)
    assert ask(name_server, ROUTE, {"topic": "orders"}).code == 0


def test_the_queues_of_a_static_topic_are_handed_on() -> None:
    name_server = NameServer()
    mapping = b'{"bname":"broker-a","currIdMap":{0:0},"dirty":false,"epoch":1,"topic":"A","totalQueues":2}'
    body = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"A":{},"B":{}},"topicQueueMappingInfoMap":{"A":%s}}}'
    register(name_server, topics(), body=body % mapping)
    old, new = (ask(name_server, ROUTE, {"topic": "A"}, version=version).data for version in (317, 479))
    assert b'"topicQueueMappingByBroker":{"broker-a":%s}' % mapping in old
    assert json.loads(new)["topicQueueMappingByBroker"]["broker-a"]["currIdMap"] == {"0": 0}
    assert b"topicQueueMappingByBroker" not in ask(name_server, ROUTE, {"topic": "B"}).data


def test_an_unknown_request_is_not_supported() -> None:
    assert ask(NameServer(), RequestCode.SEND_MESSAGE).code == ResponseCode.NOT_SUPPORTED
