"""`ember archive` as its users run it: beside a server that works, killed, started again, and back into topics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from embermq import Client, Message, open_store
from tests.archive_checks import FORMATS, rows_of_archive, rows_of_store
from tests.builders import some_messages
from tests.e2e.conftest import SOURCE, Served, serving

PATIENCE_S = 120.0
COUNT = 300


def run_ember(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(*arguments), env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "embermq", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE)}


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def send(served: Served, topic: str, begin: int, end: int) -> None:
    messages = [Message(topic, b"order %d" % n, tags=f"t{n % 2}", keys=[f"k{n}"]) for n in range(begin, end)]
    with Client(served.namesrv) as mq:
        for outcome in mq.send_many(messages):
            assert not isinstance(outcome, Exception), outcome


def read(served: Served, topic: str) -> list[Message]:
    with Client(served.namesrv) as mq:
        return list(mq.read(topic, follow=False))  # type: ignore[arg-type]


def archived(target: Path) -> int:
    """Files that are part of a Parquet archive, more or less: enough to see that it goes on."""
    return sum(1 for _ in target.glob("topic=*/day=*/[!.]*.parquet"))


def test_an_archive_that_follows_a_server_is_killed_and_goes_on(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        target = tmp_path / "archive"
        for life in range(3):
            send(served, "orders", life * COUNT, (life + 1) * COUNT)
            before = archived(target)
            following = subprocess.Popen(
                command("archive", "run", str(served.data), str(target), "--follow", "--every", "0.05"),
                env=environment(),
                stdout=subprocess.DEVNULL,
            )
            try:
                until(lambda before=before: archived(target) > before)
                send(served, "orders-2", 0, 5)  # it is at work on these, or about to be
            finally:
                following.send_signal(signal.SIGKILL if life < 2 else signal.SIGINT)
                assert following.wait(PATIENCE_S) == (-signal.SIGKILL if life < 2 else 0)
        done = json.loads(run_ember("archive", "run", str(served.data), str(target), "--json").stdout.splitlines()[-1])
        assert done["damaged"] == 0
        assert rows_of_archive(target, "parquet") == rows_of_store(served.data)
        marks = list((served.data / "archived").glob("*.json"))
        assert [json.loads(mark.read_text())["position"] for mark in marks] == [done["end"]]


def test_a_running_broker_is_archived_from_afar_and_keeps_the_mark(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        send(served, "orders", 0, COUNT)
        place, target = f"embermq://{served.broker}", tmp_path / "archive"
        for count in (COUNT, 0):
            said = run_ember("archive", "run", place, str(target), "--json").stdout.splitlines()[-1]
            assert json.loads(said)["messages"] == count
        found = rows_of_archive(target, "parquet")
        assert found == rows_of_store(served.data)
        (mark,) = (served.data / "archived").glob("*.json")
        assert json.loads(mark.read_text())["position"] > int(found[-1]["physicalOffset"])  # type: ignore[call-overload]


@pytest.mark.parametrize("format", FORMATS)
def test_a_replay_is_killed_and_sends_each_message_once(tmp_path: Path, ember: Served, format: str) -> None:
    served, source, again = ember, f"replayed-{format}", f"again-{format}"
    send(served, source, 0, COUNT)
    target = tmp_path / "archive"
    run_ember("archive", "run", str(served.data), str(target), "--format", format, "--topic", source)
    arguments = ("--namesrv", served.namesrv, "archive", "replay", str(target), "--to", again, "--job", f"job-{format}")
    for sent in (0, 60):
        replaying = subprocess.Popen(
            command(*arguments, "--rate", "30"), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            until(lambda sent=sent: count(served, again) > sent)
            assert replaying.poll() is None  # it is in the middle of it
        finally:
            replaying.kill()
            replaying.wait()
    run_ember(*arguments)
    assert json.loads(run_ember(*arguments, "--json").stdout) == {"messages": 0, "batches": 0}
    first, second = read(served, source), read(served, again)
    assert Counter(facts(message) for message in second) == Counter(facts(message) for message in first)
    keys = {message.properties["UNIQ_KEY"] for message in first}
    assert {message.properties["ORIGIN_MESSAGE_ID"] for message in second} == keys


def count(served: Served, topic: str) -> int:
    try:
        return len(read(served, topic))
    except Exception:  # it is not there yet
        return 0


def facts(message: Message) -> tuple[object, ...]:
    return message.queue, message.body, message.tags, tuple(message.keys), message.born_time  # type: ignore[attr-defined]


def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("mine")
    assert "no store at" in run_ember("archive", "run", str(tmp_path / "no"), str(tmp_path / "a"), code=3).stderr
    assert "no store at" in run_ember("archive", "replay", str(tmp_path / "mine"), code=3).stderr
    assert "OLD=NEW" in run_ember("archive", "replay", str(tmp_path / "mine"), "--map", "orders", code=2).stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "mine"]
    with open_store(tmp_path / "store") as store:
        store.put_many(some_messages(3))
    for name in ("mine", "mine/notes"):
        said = run_ember("archive", "run", str(tmp_path / "store"), str(tmp_path / name), code=4).stderr
        assert f"{name} exists already" in said and said.count("\n") == 1
    assert not (tmp_path / "store" / "archived").exists()
    store = str(tmp_path / "store")
    assert "is none" in run_ember("archive", "replay", store, "--log", store, "--dry-run", code=2).stderr
    for wrong in (("--topic", "ordrs"), ("--map", "ordrs=again"), ("--topic", "orders", "--map", "bills=again")):
        said = run_ember("archive", "replay", store, *wrong, "--dry-run", code=3).stderr
        assert f"no messages of topic '{wrong[-1].partition('=')[0]}'" in said
    backwards = ("--since", "2026-02-01", "--until", "2026-01-01", "--out", str(tmp_path / "new"))
    assert "nothing lies between" in run_ember("archive", "replay", store, *backwards, code=2).stderr
    assert not (tmp_path / "new").exists()


def test_a_dry_run_says_what_would_be_sent(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.put_many(some_messages(7))
    arguments = ("archive", "replay", str(tmp_path / "store"), "--out", str(tmp_path / "new"))
    assert run_ember(*arguments, "--dry-run").stdout == "would replay 7 messages\n"
    assert not (tmp_path / "new").exists()
    assert run_ember(*arguments).stdout == "replayed 7 messages\n"
    assert "exists already" in run_ember(*arguments, "--dry-run", code=4).stderr


def test_a_replay_tells_how_far_it_is(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.put_many(some_messages(300))
    arguments = ("archive", "replay", str(tmp_path / "store"), "--out", str(tmp_path / "new"), "--rate", "150")
    *steps, last = map(json.loads, run_ember(*arguments, "--json").stdout.splitlines())
    assert last["messages"] == 300
    assert steps and all(step["progress"]["total"] for step in steps)


def test_a_topic_that_is_not_there_yet_is_told(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        store.put_many(some_messages(3))
    done = run_ember("archive", "run", str(tmp_path / "store"), str(tmp_path / "a"), "--topic", "order")
    assert "the store has no topic 'order' yet" in done.stderr
