"""A broker is killed while messages wait for their time, and while it delivers them: none is lost, none comes early,
and no kill brings one more than once again."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from embermq import Client, Message
from tests.builders import wait_until
from tests.crash.served import ServerProcess
from tests.free_ports import free_address

TOPIC = "later"
MESSAGES = 400
SPREAD_S = 3.0
SETTINGS = """
[server]
http_port = -1
[broker]
timer_file_size = 1040
register_interval_ms = 1000
[store]
log_file_size = 16777216
"""


def a_server(folder: Path, *, durability: str) -> tuple[ServerProcess, str]:
    """A name server and broker in one process, not started yet, and the name server's address."""
    config, namesrv = folder / "ember.toml", free_address()
    config.write_text(SETTINGS)
    listen = ("--listen", free_address(), "--namesrv-listen", namesrv)
    return ServerProcess(
        folder, "serve", "-c", str(config), "--data", str(folder / "data"), "--durability", durability, *listen
    ), namesrv


def send(namesrv: str, chance: random.Random) -> dict[str, datetime]:
    """Send messages for many moments of some seconds; their times by body."""
    begin = datetime.now(UTC) + timedelta(seconds=2)
    due = {f"{number}": begin + timedelta(seconds=chance.random() * SPREAD_S) for number in range(MESSAGES)}
    messages = [
        Message(TOPIC, body.encode(), properties={"TIMER_DELIVER_MS": str(int(time_.timestamp() * 1000))})
        for body, time_ in due.items()
    ]
    with Client(namesrv, timeout=30) as client:
        client.send(TOPIC, b"first")
        assert not [each for each in client.send_many(messages) if isinstance(each, Exception)]
    return due


def delivered(namesrv: str) -> list[tuple[str, datetime]]:
    with Client(namesrv, timeout=30) as client:
        return [(each.body.decode(), each.store_time) for each in client.read(TOPIC) if each.body != b"first"]


@pytest.mark.parametrize(("durability", "kills"), [("sync", 3), pytest.param("async", 6, marks=pytest.mark.slow)])
def test_killed_while_it_delivers(tmp_path: Path, durability: str, kills: int) -> None:
    chance = random.Random(kills)
    server, namesrv = a_server(tmp_path, durability=durability)
    with server:
        due = send(namesrv, chance)
        for _ in range(kills):
            time.sleep(chance.random() * (2 + SPREAD_S) / kills)  # the moment of a kill is chance
            server.kill()
            server.start()
        wait_until(lambda: len({body for body, _ in delivered(namesrv)}) == MESSAGES, seconds=60)
        found = delivered(namesrv)
    # Times are sent in whole milliseconds.
    assert [body for body, when in found if when < due[body] - timedelta(milliseconds=1)] == []
    assert max(Counter(body for body, _ in found).values()) <= 1 + kills
