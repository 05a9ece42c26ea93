"""The commands against a real server, as a shell runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from embermq import Client, Message
from tests.builders import wait_until
from tests.e2e.conftest import SOURCE, Served


@pytest.fixture
def shell(ember: Served) -> Shell:
    return Shell(ember.namesrv)


class Shell:
    """Runs `ember` for one cluster."""

    def __init__(self, namesrv: str) -> None:
        self.environment = {**os.environ, "PYTHONPATH": str(SOURCE), "EMBERMQ_NAMESRV": namesrv}

    def __call__(self, *arguments: str, input: str = "", code: int = 0) -> str:
        """What a command prints; it must end with `code`."""
        done = self.run(*arguments, input=input)
        assert done.returncode == code, done.stderr
        return done.stdout

    def lines(self, *arguments: str, input: str = "") -> list[dict[str, Any]]:
        """The objects that a command prints with --json."""
        return [json.loads(line) for line in self(*arguments, "--json", input=input).splitlines()]

    def refusal(self, *arguments: str, code: int) -> str:
        """The one line that a command fails with."""
        done = self.run(*arguments)
        assert done.returncode == code, done.stderr
        assert done.stderr.startswith("ember: ")
        assert done.stderr.count("\n") == 1
        return done.stderr

    def run(self, *arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "embermq", *arguments],
            input=input,
            capture_output=True,
            text=True,
            env=self.environment,
            timeout=60,
            check=False,
        )


def a_name(word: str) -> str:
    return f"{word}-{uuid.uuid4().hex[:8]}"


def test_a_topic_is_made_shown_changed_and_deleted(shell: Shell) -> None:
    topic = a_name("orders")
    assert shell("topic", "create", topic, "--queues", "2") == f"created {topic} at broker-a\n"
    assert topic in shell("topic", "list").split()
    assert "exists already" in shell.refusal("topic", "create", topic, code=4)
    (facts,) = shell.lines("topic", "show", topic)
    assert facts["brokers"]["broker-a"]["writeQueues"] == len(facts["queues"]) == 2
    assert "would change" in shell("topic", "update", topic, "--queues", "8", "--dry-run")
    assert len(shell.lines("topic", "show", topic)[0]["queues"]) == 2
    shell("topic", "update", topic, "--queues", "8")
    assert len(shell.lines("topic", "show", topic)[0]["queues"]) == 8
    assert "would delete" in shell("topic", "delete", topic, "--dry-run")
    assert "say --yes" in shell.refusal("topic", "delete", topic, code=4)
    shell("topic", "delete", topic, "--yes")
    assert f"no topic '{topic}'" in shell.refusal("topic", "show", topic, code=3)


def test_the_systems_topics_are_listed_when_asked_for(shell: Shell) -> None:
    kinds = {line["topic"]: line["kind"] for line in shell.lines("topic", "list", "--all")}
    assert kinds["SCHEDULE_TOPIC_XXXX"] == kinds["TBW102"] == "system"
    assert "TBW102" not in shell("topic", "list").split()


def test_a_message_is_sent_and_found(shell: Shell) -> None:
    topic = a_name("orders")
    (receipt,) = shell.lines(
        *("send", topic, "hello", "--tags", "eu", "--key", "o-1", "--key", "o-2", "--property", "amount=12")
    )
    assert receipt["status"] == "STORED"
    (found,) = shell.lines("message", "find", topic, "--key", "o-2", "--since", "1h")
    assert (found["body"], found["tags"], found["keys"]) == ("hello", "eu", ["o-1", "o-2"])
    assert found["properties"]["amount"] == "12"
    assert shell.lines("message", "get", receipt["messageId"]) == [found]
    assert shell.lines("message", "get", receipt["uniqueKey"], "--topic", topic) == [found]
    assert shell.lines("message", "find", topic, "--unique-key", receipt["uniqueKey"]) == [found]
    whole = shell("message", "get", receipt["messageId"])
    assert "  amount=12\n" in whole
    assert whole.endswith("body        5 bytes\n  hello\n")


def test_what_is_not_there_is_exit_code_3(shell: Shell) -> None:
    topic = a_name("orders")
    (receipt,) = shell.lines("send", topic, "x")
    nowhere = receipt["messageId"][:-8] + "0FFFFFF0"
    assert "no message" in shell.refusal("message", "get", nowhere, code=3)
    assert "no message id" in shell.refusal("message", "get", "xyz", code=3)
    assert "no message of topic" in shell.refusal("message", "find", topic, "--key", "nope", code=3)
    assert "no topic" in shell.refusal("tail", "no-such-topic", code=3)
    assert "no group" in shell.refusal("group", "show", "no-such-group", code=3)


def test_nobody_at_the_address_is_a_line(shell: Shell) -> None:
    assert "127.0.0.1:1" in shell.refusal("--namesrv", "127.0.0.1:1", "topic", "list", code=1)
    assert "127.0.0.1:1" in shell.refusal("topic", "list", "--namesrv", "127.0.0.1:1", code=1)


def test_lines_and_json_lines_are_sent_from_stdin(shell: Shell) -> None:
    topic, other = a_name("orders"), a_name("others")
    done = shell.run("send", topic, "--tags", "eu", input="one\ntwo\r\nthree")
    assert done.returncode == 0
    assert "sent 3 messages, 0 failed" in done.stderr
    lines = [
        {"body": {"n": 1}, "tags": "us", "keys": ["k"], "properties": {"a": "b"}, "shardingKey": "s"},
        {"topic": other, "body": "elsewhere"},
        {"bodyHex": "00ff"},
    ]
    receipts = shell.lines("send", topic, "--jsonl", input="\n".join(map(json.dumps, lines)))
    assert [receipt["topic"] for receipt in receipts] == [topic, other, topic]
    found = {line.get("body", line.get("bodyHex")): line for line in shell.lines("tail", topic, "-n", "100")}
    assert set(found) == {"one", "two", "three", '{"n":1}', "00ff"}
    assert found["one"]["tags"] == "eu"
    assert found['{"n":1}']["properties"]["a"] == "b"


def test_a_line_that_is_no_message_is_named(shell: Shell) -> None:
    done = shell.run("send", a_name("orders"), "--jsonl", input='{"body":"x"}\n{"bodi":"y"}\n')
    assert done.returncode == 1
    assert "line 2" in done.stderr
    assert "'bodi'" in done.stderr


def test_what_tail_prints_can_be_sent_again(shell: Shell) -> None:
    first, second = a_name("first"), a_name("second")
    shell("send", first, "hello", "--tags", "eu", "--property", "a=b")
    shell("send", second, "--jsonl", input=shell("tail", first, "--json"))
    (message,) = shell.lines("tail", second)
    assert (message["topic"], message["body"], message["tags"]) == (second, "hello", "eu")
    assert message["properties"]["a"] == "b"


def test_tail_shows_the_newest_in_order(shell: Shell, ember: Served) -> None:
    topic = a_name("orders")
    with Client(ember.namesrv) as mq:
        for number in range(30):
            mq.send(topic, b"%d" % number, tags="even" if number % 2 == 0 else "odd")
    assert [line["body"] for line in shell.lines("tail", topic)] == [str(n) for n in range(20, 30)]
    assert [line["body"] for line in shell.lines("tail", topic, "-n", "3")] == ["27", "28", "29"]
    assert len(shell.lines("tail", topic, "--since", "1h")) == 30
    assert shell.lines("tail", topic, "--since", "2999-01-01T00:00:00Z") == []
    assert {line["tags"] for line in shell.lines("tail", topic, "--filter", "even", "--since", "1h")} == {"even"}
    assert shell("tail", topic, "-n", "1").rstrip().endswith(" tags=odd  29")


def test_tail_follows_until_it_is_interrupted(shell: Shell) -> None:
    topic = a_name("orders")
    shell("send", topic, "old")
    process = subprocess.Popen(
        # Tests that run in the background ignore interrupts, and so would all that they start.
        ["env", "--default-signal=INT", sys.executable, "-m", "embermq", "tail", topic, "-f", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=shell.environment,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        assert json.loads(process.stdout.readline())["body"] == "old"
        sent_at = time.monotonic()
        shell("send", topic, "new")
        assert json.loads(process.stdout.readline())["body"] == "new"
        assert time.monotonic() - sent_at < 5
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stderr.read() == ""
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def behind(ember: Served) -> Iterator[tuple[str, str]]:
    """A topic of 40 messages, and a group that has done the first 10 of its one queue."""
    topic, group = a_name("orders"), a_name("billing")
    with Client(ember.namesrv) as mq:
        mq.send_many(Message(topic, b"%d" % number, queue=0) for number in range(40))
        consumer = mq.consume(topic, group=group)
        for number, message in enumerate(consumer):
            if number == 10:
                break
            message.ack()
        consumer.close()
    yield topic, group


def test_a_group_is_shown_with_its_lag_in_messages_and_time(shell: Shell, behind: tuple[str, str]) -> None:
    topic, group = behind
    (facts,) = shell.lines("group", "show", group)
    assert facts["lag"] == 30
    assert 0 < facts["lagMs"] < 60_000
    lags = {(line["topic"], line["queue"]): (line["offset"], line["end"], line["lag"]) for line in facts["queues"]}
    assert lags[topic, 0] == (10, 40, 30)
    assert facts["members"] == []
    (line,) = [line for line in shell.lines("group", "list") if line["group"] == group]
    assert (line["lag"], line["members"]) == (30, 0)
    text = shell("group", "show", group)
    assert text.startswith(f"group    {group}, 30 messages behind, ")


def test_a_group_shows_who_reads_what_and_cannot_be_deleted_then(shell: Shell, ember: Served) -> None:
    topic, group = a_name("orders"), a_name("billing")
    with Client(ember.namesrv) as mq:
        mq.send(topic, b"x")
        with mq.consume(topic, group=group, filter="eu || us"):
            wait_until(lambda: len(owners(shell, group)) >= 4)
            (facts,) = shell.lines("group", "show", group)
            assert facts["subscriptions"][topic] == {"expression": "eu || us", "type": "TAG"}
            assert [member["language"] for member in facts["members"]] == ["PYTHON"]
            assert "in use by" in shell.refusal("group", "delete", group, "--yes", code=4)
    wait_until(lambda: not shell.lines("group", "show", group)[0]["members"])
    assert "would delete" in shell("group", "delete", group, "--dry-run")
    shell("group", "delete", group, "--yes")
    shell.refusal("group", "show", group, code=3)


def test_members_that_want_different_things_are_named(shell: Shell, ember: Served) -> None:
    topic, group = a_name("orders"), a_name("billing")
    with Client(ember.namesrv) as mq:
        mq.send(topic, b"x")
        with mq.consume(topic, group=group, filter="eu"), mq.consume(topic, group=group, filter="us"):
            wait_until(lambda: len(set(owners(shell, group))) == 2, seconds=30)
            (facts,) = shell.lines("group", "show", group)
            assert len(facts["conflicts"]) == 2
            done = shell.run("group", "show", group)
            assert sum(line.startswith("conflict ") for line in done.stdout.splitlines()) == 2
            assert "messages are lost" in done.stderr
    said = [line for line in ember.log.read_text().splitlines() if "subscriptions differ" in line and group in line]
    assert said and all(json.loads(line)["level"] == "WARNING" for line in said)


def owners(shell: Shell, group: str) -> list[str]:
    (facts,) = shell.lines("group", "show", group)
    return [line["clientId"] for line in facts["queues"] if line["clientId"]]


def test_a_group_is_made_once(shell: Shell) -> None:
    group = a_name("billing")
    assert shell("group", "create", group, "--max-retries", "3") == f"created {group} at broker-a\n"
    assert shell.lines("group", "show", group)[0]["brokers"]["broker-a"]["maxRetries"] == 3
    assert "exists already" in shell.refusal("group", "create", group, code=4)
    assert "illegal group" in shell.refusal("group", "create", "no good", code=1)


def test_a_group_is_reset_to_places_times_and_offsets(shell: Shell, behind: tuple[str, str], ember: Served) -> None:
    topic, group = behind

    def moved(to: str, *more: str) -> dict[int, tuple[int | None, int]]:
        lines = shell.lines("group", "reset", group, topic, "--to", to, *more)
        return {line["queue"]: (line["before"], line["after"]) for line in lines}

    assert moved("earliest", "--dry-run")[0] == (10, 0)
    assert "say --yes" in shell.refusal("group", "reset", group, topic, "--to", "latest", code=4)
    assert moved("latest", "--yes")[0] == (10, 40)
    assert moved("17", "--yes", "--queue", "0") == {0: (40, 17)}
    assert moved("1h", "--yes")[0] == (17, 0)
    assert moved("2999-01-01T00:00:00", "--yes")[0] == (0, 40)
    moved("35", "--yes", "--queue", "0")
    with Client(ember.namesrv) as mq:
        rest = []
        for message in mq.consume(topic, group=group, timeout=2):
            with message:
                rest.append(int(message.body))
    assert rest == [35, 36, 37, 38, 39]
