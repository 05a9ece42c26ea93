"""Connections of a client, with a peer at the other end of a real socket."""

from __future__ import annotations

import asyncio

import pytest

from embermq.client.connections import Connections, Credentials, parse_address, parse_addresses
from embermq.errors import CallTimeout, ConnectionLost, SettingsError
from embermq.format.command import Command, make_request
from embermq.format.signature import SIGNATURE, sign
from embermq.model.message import Host
from tests.unit.client.peer import Reply, a_peer, run

FINE: Reply = (0, {"said": "yes"}, b"body")


def test_requests_of_one_address_share_a_connection() -> None:
    async def work() -> None:
        connections = Connections()
        async with a_peer(lambda request: FINE) as peer:
            answers = await asyncio.gather(*(connections.call(peer.address, 7, timeout_s=5) for _ in range(20)))
            assert all(answer.fields == {"said": "yes"} and answer.data == b"body" for answer in answers)
            assert len(peer.connections) == 1
            assert connections.local_address == "127.0.0.1"
            await connections.close()

    run(work)


def test_a_lost_connection_is_made_again() -> None:
    async def work() -> None:
        connections = Connections()
        async with a_peer(lambda request: FINE) as peer:
            await connections.call(peer.address, 7, timeout_s=5)
            peer.connections[0].abort()
            with pytest.raises(ConnectionLost):
                while True:  # until we have noticed
                    await connections.call(peer.address, 7, timeout_s=5)
                    if len(peer.connections) > 1:
                        raise ConnectionLost("noticed before a call failed, which is as good")
            assert (await connections.call(peer.address, 7, timeout_s=5)).code == 0
            await connections.close()

    run(work)


def test_no_answer_is_a_timeout_and_the_connection_goes_on() -> None:
    async def work() -> None:
        connections = Connections()
        async with a_peer(lambda request: FINE if request.code == 8 else None) as peer:
            with pytest.raises(CallTimeout, match="request 7"):
                await connections.call(peer.address, 7, timeout_s=0.05)
            assert (await connections.call(peer.address, 8, timeout_s=5)).code == 0
            assert len(peer.connections) == 1
            await connections.close()

    run(work)


def test_every_request_is_signed_with_its_fields_and_body() -> None:
    async def work() -> Command:
        connections = Connections(credentials=Credentials("me", "secret"))
        async with a_peer(lambda request: FINE) as peer:
            await connections.call(peer.address, 7, {"topic": "orders"}, b"body", timeout_s=5)
            await connections.close()
            return peer.asked[0]

    request = run(work)
    assert request.fields["AccessKey"] == "me"
    assert request.fields[SIGNATURE] == sign(request.fields, b"body", "secret")


def test_the_next_address_is_tried_and_the_good_one_remembered() -> None:
    async def work() -> None:
        connections = Connections()
        async with a_peer(lambda request: FINE) as peer:
            addresses = ["127.0.0.1:1", peer.address]
            assert (await connections.call_any(addresses, 7, timeout_s=5)).code == 0
            assert addresses == [peer.address, "127.0.0.1:1"]
        with pytest.raises(ConnectionLost, match="none of 2"):
            await connections.call_any(["127.0.0.1:1", "127.0.0.1:2"], 7, timeout_s=5)
        await connections.close()

    run(work)


def test_what_a_broker_asks_is_handed_on() -> None:
    async def work() -> list[int]:
        asked: list[int] = []
        heard = asyncio.Event()

        def hear(connection: object, request: Command) -> None:
            asked.append(request.code)
            heard.set()

        connections = Connections(asked=hear)
        async with a_peer(lambda request: FINE) as peer:
            await connections.call(peer.address, 7, timeout_s=5)
            peer.connections[0].send(make_request(40, {"consumerGroup": "g"}, oneway=True))
            await heard.wait()
            await connections.close()
        return asked

    assert run(work) == [40]


def test_a_closed_client_says_so() -> None:
    async def work() -> None:
        connections = Connections()
        await connections.close()
        with pytest.raises(ConnectionLost, match="closed"):
            await connections.call("127.0.0.1:1", 7, timeout_s=1)

    run(work)


@pytest.mark.parametrize("text", ["", "localhost", ":9876", "host:", "host:x", "host:70000", "host:-1"])
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_address(text)


def test_addresses_may_have_names_and_brackets() -> None:
    assert parse_address("broker.example:10911") == Host("broker.example", 10911)
    assert parse_address("[::1]:9876") == Host("::1", 9876)
    assert parse_addresses("a:1; b:2,c:3") == ["a:1", "b:2", "c:3"]
    with pytest.raises(SettingsError, match="no name server"):
        parse_addresses(" ; ")
