"""Lists of topics, and what administrators do to them."""

from __future__ import annotations

import json

from embermq.format.cluster_body import decode_topic_list
from embermq.format.command import Command
from embermq.format.route_body import encode_route
from embermq.model.codes import RequestCode, ResponseCode
from embermq.model.route import RoutedQueues, TopicRoute
from embermq.model.topic import TopicConfig
from embermq.nameserver.nameserver import NameServer
from embermq.nameserver.settings import NameServerSettings
from tests.unit.nameserver.asking import ask, has_route, register, route_of, topics

ORDERS = TopicConfig("orders")
BROKER = {"brokerName": "broker-a"}


def names(answer: Command) -> set[str]:
    assert answer.code == 0, answer
    return set(decode_topic_list(answer.data))


def two_clusters() -> NameServer:
    name_server = NameServer()
    register(name_server, topics(ORDERS))
    register(name_server, topics(TopicConfig("others")), brokerName="b", brokerAddr="b:1", clusterName="Other")
    return name_server


def test_topics_are_listed_together_and_by_cluster() -> None:
    name_server = two_clusters()
    assert names(ask(name_server, RequestCode.GET_ALL_TOPICS_FROM_NAMESERVER)) == {"TBW102", "orders", "others"}
    by_cluster = RequestCode.GET_TOPICS_BY_CLUSTER
    assert names(ask(name_server, by_cluster, {"cluster": "Other"})) == {"TBW102", "others"}
    assert names(ask(name_server, by_cluster, {"cluster": "None"})) == set()


def test_system_topics_are_those_of_clusters_and_brokers() -> None:
    body = json.loads(ask(two_clusters(), RequestCode.GET_SYSTEM_TOPICS_FROM_NAMESERVER).data)
    assert body == {"brokerAddr": "b:1", "topicList": ["DefaultCluster", "broker-a", "Other", "b"]}
    empty = ask(NameServer(), RequestCode.GET_SYSTEM_TOPICS_FROM_NAMESERVER)
    assert empty.data == b'{"topicList":[]}'


def test_topics_are_listed_by_the_bits_of_their_flag() -> None:
    name_server = NameServer()
    register(name_server, topics(*(TopicConfig(f"flag{flag}", sys_flag=flag) for flag in range(4))))
    assert names(ask(name_server, RequestCode.GET_UNIT_TOPICS)) == {"flag1", "flag3"}
    assert names(ask(name_server, RequestCode.GET_HAS_UNIT_SUB_TOPICS)) == {"flag2", "flag3"}
    assert names(ask(name_server, RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPICS)) == {"flag2"}


def test_lists_can_be_switched_off() -> None:
    name_server = NameServer(NameServerSettings(topic_lists=False, all_topics_list=False))
    for code in (206, 224, 304, 311, 312, 313):
        assert ask(name_server, code, {"cluster": "c"}).code == ResponseCode.NO_PERMISSION


def test_a_wiped_write_permission_stays_until_the_broker_tells_something_new() -> None:
    name_server = NameServer()
    registration = topics(ORDERS)
    register(name_server, registration)
    wiped = ask(name_server, RequestCode.WIPE_WRITE_PERM, BROKER)
    assert wiped.fields["wipeTopicCount"] == "2"
    register(name_server, registration)  # as every half minute
    assert [route_of(name_server, topic).queues[0].permission for topic in ("orders", "TBW102")] == [4, 5]
    register(name_server, topics(TopicConfig("orders", 8, 8), version=2))
    assert [route_of(name_server, topic).queues[0].permission for topic in ("orders", "TBW102")] == [6, 5]


def test_the_write_permission_can_be_given_back() -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS))
    ask(name_server, RequestCode.WIPE_WRITE_PERM, BROKER)
    assert ask(name_server, RequestCode.ADD_WRITE_PERM, BROKER).fields["addTopicCount"] == "2"
    assert route_of(name_server, "orders").queues[0].permission == 6
    assert ask(name_server, RequestCode.ADD_WRITE_PERM, {"brokerName": "?"}).fields["addTopicCount"] == "0"


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    delete = RequestCode.DELETE_TOPIC_IN_NAMESERVER
    name_server = two_clusters()
    assert ask(name_server, delete, {"topic": "TBW102", "clusterName": "Other"}).code == 0
    assert [queues.broker for queues in route_of(name_server, "TBW102").queues] == ["broker-a"]
    ask(name_server, delete, {"topic": "TBW102"})
    assert not has_route(name_server, "TBW102")
    assert ask(name_server, delete, {"topic": "unknown"}).code == 0


def test_a_deleted_topic_comes_back_when_its_broker_tells_of_it() -> None:
    name_server = NameServer()
    register(name_server, topics(ORDERS))
    ask(name_server, RequestCode.DELETE_TOPIC_IN_NAMESERVER, {"topic": "orders"})
    register(name_server, topics(ORDERS))
    assert has_route(name_server, "orders")


def test_a_single_topic_can_be_registered_for_known_brokers() -> None:
    name_server = two_clusters()
    known, unknown = RoutedQueues("b", 2, 2, 6), RoutedQueues("z", 2, 2, 6)
    for queues, code in [((known,), 0), ((known, unknown), ResponseCode.INVALID_PARAMETER)]:
        body = encode_route(TopicRoute(queues, ()), standard=True)
        fields = {"topic": f"new-{len(queues)}"}
        assert ask(name_server, RequestCode.REGISTER_TOPIC_IN_NAMESERVER, fields, body).code == code
    assert route_of(name_server, "new-1").queues == (known,)
    assert not has_route(name_server, "new-2")
    for topic, text in [("../x", b"{}"), ("x", b"]"), ("x", b'{"queueDatas":[{"perm":"six"}]}')]:
        answer = ask(name_server, RequestCode.REGISTER_TOPIC_IN_NAMESERVER, {"topic": topic}, text)
        assert answer.code == ResponseCode.INVALID_PARAMETER
