"""A broker that tells name servers of itself: one in its own process, and others over real connections."""

from __future__ import annotations

import asyncio
import dataclasses

from embermq.model.codes import RequestCode
from embermq.model.flags import Permission
from embermq.model.message import Host
from embermq.model.topic import TopicConfig
from embermq.nameserver.key_values import ORDER_TOPICS
from embermq.nameserver.nameserver import NameServer
from embermq.net.server import bind, host_of
from embermq.server.registration import LocalRegistration, RemoteRegistration, advertised_address
from tests.unit.nameserver.asking import SteppedClock
from tests.unit.server.name_servers import Table, ask, find_route, serving, wait_for


def test_what_a_broker_is_called_by_clients() -> None:
    assert advertised_address("192.0.2.1", None) == "192.0.2.1"
    assert advertised_address("0.0.0.0", "broker.example") == "broker.example"
    assert advertised_address("192.0.2.1", "broker.example") == "broker.example"
    assert [advertised_address(wildcard, None) for wildcard in ("0.0.0.0", "::", "")] == [None] * 3


# In the same process.


def test_a_local_broker_is_found_where_the_client_reached_the_name_server() -> None:
    async def run() -> None:
        name_server, table = NameServer(), Table("orders")
        registration = LocalRegistration(name_server, table.broker(address=None))
        async with serving(name_server) as host:
            assert await find_route(host, "orders") is None
            await registration.start()
            route = await find_route(host, "orders")
            assert route is not None
            assert route.brokers[0].master == "127.0.0.1:10911"
            await registration.stop()
            assert await find_route(host, "orders") is None

    asyncio.run(run())


def test_a_local_broker_is_told_of_at_once() -> None:
    async def run() -> None:
        clock = SteppedClock()
        name_server, table = NameServer(clock=clock), Table("orders")
        registration = LocalRegistration(name_server, table.broker())
        await registration.start()
        made = TopicConfig("made", 7, 7)
        table.save(made)
        registration.topics_changed([made])
        route = name_server.routes.find_route("made")
        assert route is not None
        assert (route.queues[0].read_queues, route.brokers[0].master) == (7, "192.0.2.1:10911")
        table.delete("made")
        registration.topic_deleted("made")
        assert name_server.routes.find_route("made") is None
        clock.advance(hours=100)
        name_server.expire()
        assert name_server.routes.find_route("orders") is not None
        await registration.stop()

    asyncio.run(run())


def test_a_local_broker_tells_everything_again_at_times() -> None:
    async def run() -> None:
        name_server, table = NameServer(), Table("orders")
        table.settings = dataclasses.replace(table.settings, register_interval_ms=20)
        registration = LocalRegistration(name_server, table.broker())
        await registration.start()
        table.delete("orders")
        table.save(TopicConfig("others"))
        name_server.key_values.put(ORDER_TOPICS, "others", "broker-a:4")

        async def is_told() -> bool:
            return name_server.routes.topics() == ["TBW102", "others"] and table.ordered == {"others"}

        await wait_for(is_told)
        await registration.stop()

    asyncio.run(run())


def test_the_permission_of_the_broker_limits_that_of_its_topics() -> None:
    async def run() -> None:
        name_server, table = NameServer(), Table("orders")
        registration = LocalRegistration(name_server, table.broker())
        await registration.start()
        table.settings = dataclasses.replace(table.settings, permission=int(Permission.READ))
        registration.settings_changed()
        route = name_server.routes.find_route("orders")
        assert route is not None
        assert route.queues[0].permission == Permission.READ
        await registration.stop()

    asyncio.run(run())


# In other processes.


def test_a_broker_registers_with_every_name_server_and_says_goodbye() -> None:
    async def run() -> None:
        table = Table("orders")
        async with serving(NameServer()) as first, serving(NameServer()) as second:
            registration = RemoteRegistration([first, second], table.broker())
            await registration.start()
            for host in (first, second):
                route = await find_route(host, "orders")
                assert route is not None
                assert route.brokers[0].master == "192.0.2.1:10911"
            await registration.stop()
            assert [await find_route(host, "orders") for host in (first, second)] == [None, None]

    asyncio.run(run())


def test_a_broker_without_an_address_is_found_where_the_name_server_saw_it() -> None:
    async def run() -> None:
        async with serving(NameServer()) as host:
            registration = RemoteRegistration([host], Table("orders").broker(address=None))
            await registration.start()
            route = await find_route(host, "orders")
            assert route is not None
            assert route.brokers[0].master == "127.0.0.1:10911"
            await registration.stop()

    asyncio.run(run())


def test_changes_are_told_as_they_happen() -> None:
    async def run() -> None:
        table = Table("orders")
        async with serving(NameServer()) as host:
            registration = RemoteRegistration([host], table.broker())
            await registration.start()
            for number in range(5):
                made = TopicConfig(f"made-{number}", permission=4)
                table.save(made)
                registration.topics_changed([made])
            await wait_for(lambda: find_route(host, "made-4"))
            for number in range(5):
                route = await find_route(host, f"made-{number}")
                assert route is not None
                assert route.queues[0].permission == 4
            await registration.stop()

    asyncio.run(run())


def test_a_changed_permission_is_told_though_no_topic_changed() -> None:
    async def run() -> None:
        name_server, table = NameServer(), Table("orders")
        async with serving(name_server) as host:
            registration = RemoteRegistration([host], table.broker())
            await registration.start()
            before = name_server.routes.heard_of("broker-a", "192.0.2.1:10911")
            table.settings = dataclasses.replace(table.settings, permission=int(Permission.READ))
            registration.settings_changed()

            async def is_told() -> bool:
                route = await find_route(host, "orders")
                return route is not None and route.queues[0].permission == Permission.READ

            await wait_for(is_told)
            after = name_server.routes.heard_of("broker-a", "192.0.2.1:10911")
            assert before != after  # or a RocketMQ name server would not look at the topics
            await registration.stop()

    asyncio.run(run())


def test_a_broker_registers_again_with_a_name_server_that_was_restarted() -> None:
    async def run() -> None:
        table = Table("orders")
        async with serving(NameServer()) as host:
            registration = RemoteRegistration([host], table.broker())
            await registration.start()
            assert await find_route(host, "orders") is not None
        table.save(TopicConfig("meanwhile"))
        registration.topics_changed([TopicConfig("meanwhile")])
        async with serving(NameServer(), port=host.port):
            await wait_for(lambda: find_route(host, "meanwhile"))
            assert await find_route(host, "orders") is not None
            await registration.stop()

    asyncio.run(run())


def test_a_name_server_that_is_not_there_keeps_nobody_waiting() -> None:
    async def run() -> None:
        listener = bind(Host("127.0.0.1", 0))
        missing = host_of(listener)
        listener.close()
        async with serving(NameServer()) as host:
            registration = RemoteRegistration([missing, host], Table("orders").broker())
            await asyncio.wait_for(registration.start(), 5)
            assert await find_route(host, "orders") is not None
            async with serving(NameServer(), port=missing.port):
                await wait_for(lambda: find_route(missing, "orders"))
            await registration.stop()

    asyncio.run(run())


def test_a_name_server_that_forgot_the_broker_is_told_everything_again() -> None:
    async def run() -> None:
        name_server, table = NameServer(), Table("orders")
        async with serving(name_server) as host:
            registration = RemoteRegistration([host], table.broker())
            await registration.start()
            name_server.routes.unregister("broker-a", "192.0.2.1:10911")
            made = TopicConfig("made")
            table.save(made)
            registration.topics_changed([made])  # alone, it is refused
            await wait_for(lambda: find_route(host, "made"))
            assert await find_route(host, "orders") is not None
            await registration.stop()

    asyncio.run(run())


def test_a_broker_whose_connection_vanishes_has_no_route() -> None:
    async def run() -> None:
        async with serving(NameServer()) as host:
            registration = RemoteRegistration([host], Table("orders").broker())
            await registration.start()
            (link,) = registration.links
            assert link.connection is not None
            link.connection.abort()

            async def is_gone() -> bool:
                return await find_route(host, "orders") is None

            await wait_for(is_gone)
            await wait_for(lambda: find_route(host, "orders"))  # and is back by itself
            await registration.stop()

    asyncio.run(run())


def test_a_silent_broker_is_forgotten_and_its_connection_closed() -> None:
    async def run() -> None:
        clock = SteppedClock()
        name_server = NameServer(clock=clock)
        async with serving(name_server) as host:
            registration = RemoteRegistration([host], Table("orders").broker())
            await registration.start()
            clock.advance(ms=120_001)
            name_server.expire()
            assert await find_route(host, "orders") is None
            await wait_for(lambda: find_route(host, "orders"))  # its connection was closed, so it came again
            await registration.stop()

    asyncio.run(run())


def test_a_broker_is_told_which_topics_are_ordered() -> None:
    async def run() -> None:
        table = Table("orders")
        async with serving(NameServer()) as host:
            fields = {"namespace": ORDER_TOPICS, "key": "orders", "value": "broker-a:4"}
            assert (await ask(host, RequestCode.PUT_KV_CONFIG, fields)).code == 0
            registration = RemoteRegistration([host], table.broker())
            await registration.start()
            assert table.ordered == {"orders"}
            await registration.stop()

    asyncio.run(run())
