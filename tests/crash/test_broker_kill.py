"""A broker under load is killed and started again: what it acknowledged is there, and its clients go on."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path

import pytest

from embermq import Client
from tests.builders import wait_until
from tests.crash.clients import (
    LATER,
    TOPIC,
    Load,
    ask,
    check_delivered,
    check_kept,
    find_committed,
    make_group,
    make_topic,
    read_topic,
)
from tests.crash.served import ServerProcess
from tests.free_ports import free_address, free_port

SAVE_MS = 500  # how often offsets are saved here
SAVE_SLACK_S = 1.5  # for a save that was under way, on a busy machine
LONG_LIFE_S = 3.0  # long enough for commits that must have been saved
DELAY_MS = 1_000  # of delay level 1
SETTINGS = f"""
[server]
http_port = -1
[broker]
offset_save_ms = {SAVE_MS}
delay_save_ms = {SAVE_MS}
register_interval_ms = 1000
[store]
log_file_size = {16 * 1024 * 1024}
"""


def a_server(folder: Path, *, durability: str) -> tuple[ServerProcess, int]:
    """A name server and broker in one process, not started yet, and the broker's port."""
    config, port = folder / "ember.toml", free_port()
    config.write_text(SETTINGS)
    listen = ("--listen", f"127.0.0.1:{port}", "--namesrv-listen", free_address())
    return ServerProcess(
        folder, "serve", "-c", str(config), "--data", str(folder / "data"), "--durability", durability, *listen
    ), port


async def check_commits(load: Load, port: int, *, begun: float, killed: float, known: int) -> int:
    """The group's offset: not ahead, and behind by no more than was committed since the last save.

    The broker knew `known` when the life that ended began; what it was told before that and forgot then, is gone.
    """
    found = await find_committed(port)
    saved_before = killed - SAVE_MS / 1000 - SAVE_SLACK_S
    sure = max((each.offset for each in load.commits if begun < each.answered < saved_before), default=known)
    assert sure <= found <= load.last_commit
    return found


async def kill_under_load(server: ServerProcess, port: int, *, seed: int, cycles: int) -> Load:
    """Kill the broker again and again while clients use it; check everything at the end."""
    chance = random.Random(seed)
    for topic in (TOPIC, LATER):
        await make_topic(port, topic)
    await make_group(port)
    load = Load(port)
    load.start(senders=3, at_once=8)
    begun, known = 0.0, 0
    for cycle in range(cycles):
        await asyncio.wait_for(load.wait_receipt(), 30)
        is_last = cycle == cycles - 1
        delay = LONG_LIFE_S if is_last else chance.choice((0.0, 0.05, 0.5, 1.0, 2.5)) + chance.uniform(0.0, 0.1)
        await asyncio.sleep(delay)
        print(f"seed={seed} cycle={cycle} killed after {delay:.3f} s, {len(load.receipts)} acknowledged")
        server.kill()
        killed = time.monotonic()
        await asyncio.to_thread(server.start)
        known = await check_commits(load, port, begun=begun, killed=killed, known=known)
        begun = time.monotonic()
    await load.stop()
    check_kept(load.receipts, await read_topic(port, TOPIC))
    await check_delays(load, port)
    print(
        f"seed={seed} cycles={cycles} acknowledged={len(load.receipts)} delayed={len(load.delayed)} {dict(load.counts)}"
    )
    assert known > 0
    assert load.counts["unanswered"] > 0  # it was killed at work
    assert load.counts["forgotten"] == 0
    return load


async def check_delays(load: Load, port: int) -> None:
    wanted = {each.unique_id for each in load.delayed}
    deadline = time.monotonic() + 30
    while True:
        found = await read_topic(port, LATER)
        if wanted <= {message.properties["UNIQ_KEY"] for message in found.values()} or time.monotonic() > deadline:
            break
        await asyncio.sleep(0.2)
    check_delivered(load.delayed, found, delay_ms=DELAY_MS)


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_broker_killed_under_load_keeps_what_it_acknowledged(memory_path: Path, durability: str) -> None:
    server, port = a_server(memory_path, durability=durability)
    with server:
        load = asyncio.run(kill_under_load(server, port, seed=1, cycles=4))
        assert server.stop() == 0, server.words()
    assert len(load.receipts) > 100
    assert "Traceback" not in server.log.read_text()


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10, 14))
def test_a_broker_killed_many_times_keeps_what_it_acknowledged(tmp_path: Path, seed: int) -> None:
    server, port = a_server(tmp_path, durability="sync")
    with server:
        asyncio.run(kill_under_load(server, port, seed=seed, cycles=25))
        assert server.stop() == 0, server.words()


async def stop_under_load(server: ServerProcess, port: int, *, seed: int) -> None:
    for topic in (TOPIC, LATER):
        await make_topic(port, topic)
    await make_group(port)
    load = Load(port)
    load.start(senders=4, at_once=16)
    await asyncio.wait_for(load.wait_receipt(), 30)
    await asyncio.sleep(random.Random(seed).uniform(0.1, 1.0))
    assert await asyncio.to_thread(server.stop) == 0, server.words()
    await asyncio.wait_for(load.stop(), 30)
    assert load.counts["forgotten"] == 0
    await asyncio.to_thread(server.start)
    check_kept(load.receipts, await read_topic(port, TOPIC))
    assert max(each.offset for each in load.commits) <= await find_committed(port) <= load.last_commit
    await check_delays(load, port)
    print(f"seed={seed} acknowledged={len(load.receipts)} {dict(load.counts)}")


@pytest.mark.parametrize("durability", ["sync", "async", "pooled"])
def test_a_broker_stopped_under_load_answers_or_closes_and_loses_nothing(memory_path: Path, durability: str) -> None:
    server, port = a_server(memory_path, durability=durability)
    with server:
        asyncio.run(stop_under_load(server, port, seed=1))
        assert server.stop() == 0, server.words()
    assert "Traceback" not in server.log.read_text()


def test_a_name_server_that_was_killed_learns_of_its_brokers_again_and_clients_go_on(tmp_path: Path) -> None:
    config = tmp_path / "ember.toml"
    config.write_text(SETTINGS)
    names, port = free_address(), free_port()
    (tmp_path / "names").mkdir()
    with (
        ServerProcess(tmp_path / "names", "namesrv", "--listen", names) as name_server,
        ServerProcess(
            tmp_path, "broker", "-c", str(config), "-n", names, "--data", str(tmp_path / "data"), "--listen",
            f"127.0.0.1:{port}",
        ) as broker,
        Client(names, timeout=20) as early,
    ):  # fmt: skip
        asyncio.run(make_topic(port, TOPIC))

        def knows_topic() -> bool:
            return asyncio.run(ask(int(names[-5:]), 105, {"topic": TOPIC})).code == 0

        wait_until(knows_topic, seconds=30)  # or the client would know the way to the topic's template alone
        early.send(TOPIC, b"before")
        name_server.kill()
        early.send(TOPIC, b"meanwhile")
        name_server.start()
        wait_until(knows_topic, seconds=30)
        with Client(names, timeout=20) as late:
            late.send(TOPIC, b"after")  # it learns the way to the broker from the new name server
            early.send(TOPIC, b"and on")
            bodies = {message.body for message in late.read(TOPIC)}
        assert bodies == {b"before", b"meanwhile", b"after", b"and on"}
        assert broker.stop() == 0, broker.words()
        assert name_server.stop() == 0, name_server.words()
