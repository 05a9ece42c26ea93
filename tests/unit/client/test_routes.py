"""Routes: what name servers tell, kept for a while."""

from __future__ import annotations

import pytest

from embermq.client import routes as module
from embermq.client.connections import Connections
from embermq.client.routes import Routes, make_route
from embermq.errors import NoRoute, TopicNotFound
from embermq.format.cluster_body import encode_topic_list
from embermq.format.command import Command
from embermq.format.route_body import decode_route
from embermq.format.wire_json import BrokerQueue
from embermq.model.route import RoutedBroker, RoutedQueues, TopicRoute
from tests.unit.client.peer import Reply, a_peer, route_to, run
from tests.unit.client.wire import iter_frames

MISSING: Reply = (17, {}, b"")


def routes_of(address: str) -> tuple[Connections, Routes]:
    connections = Connections()
    return connections, Routes(connections, [address], timeout_s=5)


def test_rocketmqs_own_route_is_understood() -> None:
    answer = next(
        f for f in iter_frames("push-consumer", code=105) if not f.is_request and f.code == 0 and b":2," in f.body
    )
    route = make_route("WireTopic", decode_route(answer.body))
    queues = tuple(BrokerQueue("broker-a", "WireTopic", number) for number in range(2))
    assert route.write_queues == route.read_queues == queues
    assert route.address_of("broker-a") == "127.0.0.2:20931"


def test_writing_needs_a_master_and_reading_does_not() -> None:
    route = make_route(
        "orders",
        TopicRoute(
            queues=(RoutedQueues("a", 1, 2, 6), RoutedQueues("b", 1, 2, 6), RoutedQueues("c", 1, 1, 4)),
            brokers=(
                RoutedBroker("x", "a", {0: "a0:1", 1: "a1:1"}),
                RoutedBroker("x", "b", {1: "b1:1", 2: "b2:1"}),
                RoutedBroker("x", "c", {0: "c0:1"}),
            ),
        ),
    )
    assert route.write_queues == (BrokerQueue("a", "orders", 0), BrokerQueue("a", "orders", 1))
    assert [queue.broker for queue in route.read_queues] == ["a", "b", "c"]
    assert route.address_of("b", may_be_slave=True) == "b1:1"
    with pytest.raises(NoRoute, match="'b'"):
        route.address_of("b")


def test_turns_go_from_broker_to_broker() -> None:
    route = make_route("orders", decode_route(route_to("h:1", "h:2", queues=2)))
    assert [(queue.broker, queue.queue) for queue in route.write_queues] == [
        *(("broker-0", 0), ("broker-1", 0)),
        *(("broker-0", 1), ("broker-1", 1)),
    ]


def test_a_route_is_asked_for_once_until_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with a_peer(lambda request: (0, {}, route_to("h:1"))) as peer:
            connections, routes = routes_of(peer.address)
            await routes.read("orders")
            await routes.read("orders")
            assert len(peer.asked) == 1
            await routes.find("orders", refresh=True)  # too soon after the last
            assert len(peer.asked) == 1
            monkeypatch.setattr(module, "SOONEST_S", 0.0)
            await routes.find("orders", refresh=True)
            assert len(peer.asked) == 2
            monkeypatch.setattr(module, "FRESH_S", 0.0)
            await routes.read("orders")
            assert len(peer.asked) == 3
            await connections.close()

    run(work)


def test_an_old_route_does_while_no_name_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with a_peer(lambda request: (0, {}, route_to("h:1"))) as peer:
            connections, routes = routes_of(peer.address)
            first = await routes.read("orders")
        monkeypatch.setattr(module, "FRESH_S", 0.0)
        assert await routes.read("orders") == first
        await connections.close()

    run(work)


def test_a_topic_that_is_missing_is_named_with_the_nearest_name() -> None:
    def say(request: Command) -> Reply:
        return (0, {}, encode_topic_list(["orders", "payments"])) if request.code == 206 else MISSING

    async def work() -> None:
        async with a_peer(say) as peer:
            connections, routes = routes_of(peer.address)
            with pytest.raises(TopicNotFound, match="'orders'"):
                await routes.read("order")
            assert await routes.find("order") is None
            await connections.close()

    run(work)


def test_a_new_topic_goes_where_the_template_is_with_four_queues() -> None:
    def say(request: Command) -> Reply:
        return (0, {}, route_to("h:1", queues=8, permission=7)) if request.fields["topic"] == "TBW102" else MISSING

    async def work() -> None:
        async with a_peer(say) as peer:
            connections, routes = routes_of(peer.address)
            route = await routes.find_writable("fresh")
            assert route.is_template
            assert route.write_queues == tuple(BrokerQueue("broker-0", "fresh", number) for number in range(4))
            await connections.close()

    run(work)


def test_a_topic_without_writable_queues_says_so() -> None:
    async def work() -> None:
        async with a_peer(lambda request: (0, {}, route_to("h:1", permission=4))) as peer:
            connections, routes = routes_of(peer.address)
            with pytest.raises(NoRoute, match="no queue that can be written"):
                await routes.find_writable("orders")
            await connections.close()

    run(work)
