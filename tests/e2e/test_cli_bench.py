"""`ember bench` against a real server: what it reports is what the topic holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from embermq import Client
from tests.builders import wait_until
from tests.e2e.conftest import SOURCE, Served, serving

ENGINE_TIMEOUT = 180.0  # seconds; it may have to be compiled
PERCENTILES = ["p50", "p90", "p99", "p99.9", "max"]


class Bench:
    """Runs `ember bench` for one server."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.environment = {**os.environ, "PYTHONPATH": str(SOURCE), "EMBERMQ_NAMESRV": served.namesrv}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "embermq", "bench", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), capture_output=True, text=True, env=self.environment, timeout=90, check=False
        )

    def facts(self, *arguments: str) -> dict[str, Any]:
        """The object of a run that went well."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        facts: dict[str, Any] = json.loads(done.stdout)
        assert facts["errors"] == {}
        return facts

    @contextmanager
    def running(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        # Tests that run in the background ignore interrupts, and so would all that they start.
        command = ["env", "--default-signal=INT", *self.command(*arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, **pipes, text=True, env=self.environment) as process:
            try:
                yield process
            finally:
                process.kill()

    @property
    def metrics(self) -> str:
        """Where the server tells its figures; the port is any that was free."""
        events = [json.loads(line) for line in self.served.log.read_text().splitlines() if line.startswith("{")]
        (address,) = [event["address"] for event in events if event["event"] == "figures and health served"]
        return f"http://{address}/metrics"

    def bodies(self, topic: str) -> list[bytes]:
        with Client(self.served.namesrv) as mq:
            return [message.body for message in mq.read(topic)]


@pytest.fixture
def bench(ember: Served) -> Bench:
    return Bench(ember)


@pytest.fixture
def topic() -> str:
    return f"load-{uuid.uuid4().hex[:8]}"


def check_times(times: dict[str, float]) -> None:
    assert list(times) == PERCENTILES
    assert all(low <= high for low, high in pairwise(times.values()))
    assert times["p50"] > 0


@pytest.mark.parametrize("options", [(), ("--connections", "3", "--in-flight", "5"), ("--batch", "7")])
def test_what_is_reported_is_in_the_topic(bench: Bench, topic: str, options: Sequence[str]) -> None:
    facts = bench.facts("send", topic, "--messages", "500", "--size", "300", "--tags", "eu", *options)
    assert facts["messages"] == 500
    bodies = bench.bodies(topic)
    assert len(bodies) == 500 + facts["warmUpMessages"]
    assert {len(body) for body in bodies} == {300}
    check_times(facts["latencyMs"])
    assert facts["latencyMs"]["max"] <= facts["seconds"] * 1000
    assert facts["messagesPerSecond"] == pytest.approx(500 / facts["seconds"], rel=0.01)
    assert facts["megabytesPerSecond"] == pytest.approx(facts["messagesPerSecond"] * 300 / 1e6, rel=0.01, abs=0.001)
    assert 0 < facts["clientCpu"] < 1.5


def test_the_summary_is_in_words(bench: Bench, topic: str) -> None:
    done = bench.run("send", topic, "--messages", "200")
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert list(lines) == ["messages", "rate", "latency", "errors", "client"]
    assert lines["messages"].startswith("200 in ")
    assert all(f"{name} " in lines["latency"] for name in PERCENTILES)
    assert lines["errors"] == "none"


def test_the_stages_of_the_server_are_shown(bench: Bench, topic: str) -> None:
    wait_until(lambda: "engine o" in bench.served.log.read_text(), seconds=ENGINE_TIMEOUT)  # on, or off and why
    has_engine = "engine on" in bench.served.log.read_text()
    facts = bench.facts("send", topic, "--messages", "2000", "--metrics", bench.metrics)
    server = facts["server"]
    if has_engine:
        assert server["engineShare"] > 0.9
    else:
        assert server["engineShare"] == 0
    path = "engine" if has_engine else "plain"
    stages = {stage["stage"]: stage for stage in server["stages"] if stage["path"] == path}
    assert set(stages) == {"read", "store", "answer"}
    assert sum(stage["messages"] for stage in server["stages"] if stage["stage"] == "answer") >= 2000
    assert all(stage["microsecondsPerMessage"] > 0 and stage["messagesPerCall"] >= 1 for stage in stages.values())
    text = bench.run("send", topic, "--messages", "200", "--metrics", bench.metrics).stdout
    assert "of messages on the engine\n" in text
    assert "path    stage " in text or "path   stage " in text


def test_the_syncs_of_the_server_are_shown(tmp_path: Path, topic: str) -> None:
    with serving(tmp_path, durability="sync") as served:
        bench = Bench(served)
        facts = bench.facts("send", topic, "--messages", "200", "--metrics", bench.metrics)
        assert facts["server"]["syncs"]["calls"] >= 1
        assert facts["server"]["syncs"]["seconds"] > 0


def test_a_rate_is_kept(bench: Bench, topic: str) -> None:
    facts = bench.facts("send", topic, "--seconds", "1", "--rate", "100")
    assert 0 < facts["messages"] <= 101
    assert facts["seconds"] >= 0.99


def test_what_is_there_is_read_as_often_as_one_likes(bench: Bench, topic: str) -> None:
    sent = bench.facts("send", topic, "--messages", "300", "--size", "50")
    count = 300 + sent["warmUpMessages"]
    for batch in ("1", "32"):
        facts = bench.facts("consume", topic, "--messages", str(count), "--batch", batch, "--metrics", bench.metrics)
        assert (facts["messages"], facts["group"]) == (count, None)
        check_times(facts["sinceStoredMs"])
        check_times(facts["sinceBornMs"])
        assert facts["sinceBornMs"]["max"] >= facts["sinceStoredMs"]["max"]
        assert facts["megabytesPerSecond"] > 0


def test_a_group_goes_on_where_it_was(bench: Bench, topic: str) -> None:
    sent = bench.facts("send", topic, "--messages", "300")
    count, group = 300 + sent["warmUpMessages"], f"readers-{topic}"
    facts = bench.facts("consume", topic, "--group", group, "--messages", "100")
    assert (facts["messages"], facts["group"]) == (100, group)
    facts = bench.facts("consume", topic, "--group", group, "--messages", str(count - 100))
    assert facts["messages"] == count - 100
    with Client(bench.served.namesrv) as mq:
        assert list(mq.consume(topic, group=group, timeout=1.0)) == []


def test_nothing_to_read_is_no_error(bench: Bench, topic: str) -> None:
    bench.facts("send", topic, "--messages", "10")
    facts = bench.facts("consume", topic, "--from", "latest", "--seconds", "0.5")
    assert (facts["messages"], facts["sinceStoredMs"]) == (0, {})


def test_messages_are_timed_while_they_come(bench: Bench, topic: str) -> None:
    bench.facts("send", topic, "--messages", "10")
    with bench.running("consume", topic, "--from", "latest", "--messages", "20", "--json") as process:
        with Client(bench.served.namesrv) as mq:
            wait_until(lambda: mq.send(topic, b"new") and process.poll() is not None, seconds=30)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    facts = json.loads(out)
    assert facts["messages"] == 20
    assert facts["sinceBornMs"]["p50"] < 1000


def test_an_interrupt_prints_what_was_sent(bench: Bench, topic: str) -> None:
    with bench.running("send", topic, "--seconds", "60", "--rate", "50", "--json") as process:
        # The warm-up sends 27 at most in its half second; what is more belongs to the run.
        wait_until(lambda: messages_of(bench, topic) > 50, seconds=30)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    facts = json.loads(out)
    assert facts["seconds"] < 30
    assert facts["messages"] + facts["warmUpMessages"] == messages_of(bench, topic)


def test_an_interrupt_prints_what_was_read(bench: Bench, topic: str) -> None:
    count, group = bench.facts("send", topic, "--messages", "100")["warmUpMessages"] + 100, f"readers-{topic}"
    with bench.running("consume", topic, "--group", group, "--seconds", "60", "--json") as process:
        wait_until(lambda: offsets_of(bench, group) == count, seconds=30)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert json.loads(out)["messages"] == count


def ask(bench: Bench, *arguments: str) -> dict[str, Any]:
    """What another command says; nothing if it fails."""
    command = [sys.executable, "-m", "embermq", *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=bench.environment, timeout=30, check=False)
    return {"queues": []} if done.returncode else json.loads(done.stdout)


def messages_of(bench: Bench, topic: str) -> int:
    return sum(queue["max"] - queue["min"] for queue in ask(bench, "topic", "show", topic)["queues"])


def offsets_of(bench: Bench, group: str) -> int:
    return sum(queue["offset"] or 0 for queue in ask(bench, "group", "show", group)["queues"])


def test_a_topic_that_nobody_makes_is_an_error_and_so_is_a_server_that_dies(tmp_path: Path, topic: str) -> None:
    settings = tmp_path / "ember.toml"
    settings.write_text("[broker]\nauto_create_topics = false\n")
    with serving(tmp_path, "--config", str(settings)) as served:
        bench = Bench(served)
        for verb in ("send", "consume"):
            done = bench.run(verb, topic)
            assert done.returncode == 3
            assert done.stderr == f"ember: no topic '{topic}'; make it with `ember topic create {topic}`\n"
        create = [sys.executable, "-m", "embermq", "topic", "create", topic]
        subprocess.run(create, env=bench.environment, check=True, stdout=subprocess.DEVNULL)
        options = ("--messages", "500", "--rate", "100", "--timeout", "0.5", "--json")
        with bench.running("send", topic, *options) as process:
            wait_until(lambda: messages_of(bench, topic) > 100, seconds=30)  # the warm-up sends 51 at most
            served.process.kill()
            out, errors = process.communicate(timeout=60)
    assert process.returncode == 1, errors
    facts = json.loads(out)
    assert facts["messages"] > 0
    assert facts["messages"] + sum(facts["errors"].values()) == 500
    assert set(facts["errors"]) <= {"ConnectionLost", "CallTimeout"}
    assert sum(facts["errors"].values()) > 0
    assert ", the first: " in errors
