"""A name server is asked nonsense, by the hundred thousand, and goes on as if nothing had happened."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from embermq.model.topic import TopicConfig
from embermq.nameserver.nameserver import NameServer
from tests.fuzz.hostile import CODES, Hostile
from tests.fuzz.watching import Asking, nothing_unforeseen
from tests.unit.nameserver.asking import ADDRESS, Caller, ask, register, route_of, topics

OWN_CODES = (100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327)
CHUNK = 200


def fuzz_name_server(folder: Path, *, seed: int, rounds: int, is_damaged: bool = False) -> Asking:
    """Ask a new name server so many rounds of every request, its own ten times; check all that must hold."""
    bystander = folder / "outside.txt"
    bystander.write_text("untouched")
    data = folder / "namesrv"
    name_server = NameServer(directory=data)
    broker = Caller()
    register(name_server, topics(TopicConfig("orders")), caller=broker)
    hostile, asking = Hostile(seed), Asking(name_server.router)
    codes = [code for _ in range(rounds) for code in CODES + OWN_CODES * 10]
    hostile.chance.shuffle(codes)

    async def work() -> None:
        for number, code in enumerate(codes, 1):
            asking.put(hostile.damaged(code) if is_damaged else hostile.frame(code))
            if number % CHUNK == 0:
                asking.collect()
                name_server.expire()
        asking.collect()

    with nothing_unforeseen():
        asyncio.run(work())
        assert asking.waiting() == []
        check_works(name_server, broker)
    assert {*folder.iterdir()} - {data} == {bystander}
    assert bystander.read_text() == "untouched"
    NameServer(directory=data)  # what it saved can be read again
    print(f"seed={seed} damaged={is_damaged} {dict(asking.counts)} slowest={asking.slowest[0]:.3f} s")
    return asking


def check_works(name_server: NameServer, broker: Caller) -> None:
    """A broker that says again what it has is found, whatever others have told of it."""
    caller = Caller()
    ask(
        name_server,
        104,
        {"brokerName": "broker-a", "brokerAddr": ADDRESS, "clusterName": "DefaultCluster", "brokerId": "0"},
    )
    register(name_server, topics(TopicConfig("still-here"), version=9), caller=broker, brokerName="broker-z")
    addresses = [each.addresses for each in route_of(name_server, "still-here").brokers if each.name == "broker-z"]
    assert addresses == [{0: ADDRESS}]
    assert not caller.is_closed


def test_a_name_server_answers_spoilt_requests_of_every_kind_and_goes_on(memory_path: Path) -> None:
    outcomes: set[tuple[int, int]] = set()
    for seed in range(1, 6):  # chance decides how far requests get, so more are made up if some got nowhere
        folder = memory_path / str(seed)
        folder.mkdir()
        outcomes |= set(fuzz_name_server(folder, seed=seed, rounds=20).outcomes)
        understood = {code for code, outcome in outcomes if outcome == 0}
        if understood >= set(OWN_CODES):
            break
    assert set(CODES) <= {code for code, _ in outcomes}
    assert understood >= set(OWN_CODES)


def test_a_name_server_answers_damaged_frames_and_goes_on(memory_path: Path) -> None:
    fuzz_name_server(memory_path, seed=2, rounds=5, is_damaged=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 110))
def test_a_name_server_answers_many_more_spoilt_requests(memory_path: Path, seed: int) -> None:
    fuzz_name_server(memory_path, seed=seed, rounds=40, is_damaged=seed % 4 == 3)
