"""Batches to a server with its engine and to one without: the same answers, and the same records."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from random import Random
from typing import Any

import pytest

from embermq.format.command import Command, decode_command, encode_command
from embermq.format.frame import split_frames
from tests.builders import wait_until
from tests.e2e.conftest import SOURCE, Served, serving
from tests.e2e.line import Line
from tests.unit.broker.brokers import send_fields
from tests.unit.broker.test_fast_batches import a_batch, an_odd_batch

COUNT = 200
ENGINE_SECONDS = 300.0  # kernels may have to be compiled first

# What depends on when and from where a message was sent, and on where the server is reached.
OTHERWISE = ("storeTimestamp", "bornHost", "storeHost", "msgId")


def requests() -> list[Command]:
    random = Random("engine")
    usual = COUNT * 4 // 5  # first, because the engine leaves the rest of what it reads at the first odd one
    made = [(a_batch if number < usual else an_odd_batch)(random, number) for number in range(COUNT)]
    for each in made:
        each.flag = 0
    return made


def ask_all(served: Served) -> dict[int, tuple[int, dict[str, str], str | None]]:
    """The answers to all requests, with positions instead of ids."""
    with Line(served.broker) as line:
        for topic in ("orders", "bills"):
            for opaque in (1000, 1001):  # the first makes the topic, the second makes it known
                line.send(encode_command(Command(310, send_fields(topic, UNIQ_KEY=f"AB{opaque}"), b"body", opaque)))
                line.receive()
        line.send(b"".join(map(encode_command, requests())))
        answers: dict[int, Command] = {}
        received = b""
        while len(answers) < COUNT:
            received += line.socket.recv(1 << 20)
            frames, end = split_frames(received)
            received = received[end:]
            answers |= {command.opaque: command for command in map(decode_command, frames)}
    found = {}
    for opaque, answer in answers.items():
        fields = dict(answer.fields)
        if "msgId" in fields:
            fields["msgId"] = ",".join(each[-16:] for each in fields["msgId"].split(","))
        found[opaque] = answer.code, fields, answer.remark
    return found


def dump(data: Path) -> list[dict[str, Any]]:
    """What `ember store dump` says of every record."""
    command = [sys.executable, "-m", "embermq", "store", "dump", str(data), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(SOURCE)})
    return [json.loads(line) for line in done.stdout.splitlines()]


def count_taken(served: Served) -> int:
    """How many messages the engine has stored."""
    address = re.search(r"figures and health served.*?([\d.]+:\d+)", served.log.read_text())
    assert address is not None
    with urllib.request.urlopen(f"http://{address[1]}/metrics") as answer:
        text = answer.read().decode()
    (count,) = re.findall(r'embermq_send_messages_total\{[^}]*path="engine",stage="store"\} ([\d.e+]+)', text)
    return int(float(count))


def serve(folder: Path, *, durability: str, with_engine: bool) -> tuple[Any, Path]:
    folder.mkdir()
    with serving(folder, durability=durability) as served:
        if with_engine:
            wait_until(lambda: "engine on" in served.log.read_text(), seconds=ENGINE_SECONDS)
        answers = ask_all(served)
        assert (count_taken(served) > 3 * COUNT) == with_engine
    return answers, served.data


@pytest.mark.timeout(600)
@pytest.mark.parametrize("durability", ["async", "sync"])
def test_the_engine_changes_neither_answers_nor_records(
    tmp_path: Path, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast, fast_data = serve(tmp_path / "fast", durability=durability, with_engine=True)
    monkeypatch.setenv("EMBERMQ_ENGINE", "off")
    plain, plain_data = serve(tmp_path / "plain", durability=durability, with_engine=False)
    assert fast == plain
    records, expected = dump(fast_data), dump(plain_data)
    assert len(records) > 4 * COUNT
    for each in (*records, *expected):
        for name in OTHERWISE:
            del each[name]
    assert records == expected
