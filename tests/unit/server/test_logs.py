"""What a server's log lines look like, what is left out of them, and what never gets in."""

from __future__ import annotations

import ast
import io
import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embermq.errors import SettingsError
from embermq.server.logs import EventHandler, redact, set_up_logs
from embermq.server.repeats import LIKE_LIMIT, WINDOW_S
from tests.builders import ManualClock

log = logging.getLogger("embermq.tests.logs")

SOURCE = Path(__file__).parents[3] / "src" / "embermq"
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
NAMED = re.compile(r"\w=%(?:\.\d+)?[a-z]")


class Clock(ManualClock):
    """One whose seconds stand still, too."""

    seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    yield
    for handler in [each for each in root.handlers if isinstance(each, EventHandler)]:
        root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture
def lines(clock: Clock) -> io.StringIO:
    stream = io.StringIO()
    set_up_logs("DEBUG", stream=stream, clock=clock)
    return stream


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_collected_line_is_an_object_with_the_event_and_its_values(lines: io.StringIO) -> None:
    log.warning("refused peer=%s code=%d reason=%s; call us", Path("/x"), 17, 'a "b"\nc')
    (event,) = events(lines)
    time = event.pop("time")
    assert event == {
        "level": "WARNING",
        "event": "refused; call us",
        "logger": "embermq.tests.logs",
        "peer": "/x",
        "code": 17,
        "reason": 'a "b"\nc',
    }
    assert time.endswith("+00:00")


@pytest.mark.parametrize(
    ("template", "arguments", "event"),
    [
        ("no values", (), "no values"),
        ("100 % sure", (), "100 % sure"),
        ("done %d of %d name=%s", (1, 2, "x"), "done 1 of 2 name=x"),
        ("by name %(a)s", ({"a": 1},), "by name 1"),
    ],
)
def test_other_texts_are_the_event_as_a_whole(
    template: str, arguments: tuple[Any, ...], event: str, lines: io.StringIO
) -> None:
    log.info(template, *arguments)
    assert events(lines)[0]["event"] == event


def test_a_value_cannot_take_the_place_of_ours(lines: io.StringIO) -> None:
    log.info("sent level=%s time=%s", "x", "y")
    (event,) = events(lines)
    assert (event["level"], event["level_"], event["time_"]) == ("INFO", "x", "y")


def test_a_person_reads_one_line_that_nobody_can_forge(clock: Clock) -> None:
    stream = Terminal()
    set_up_logs(stream=stream, clock=clock)
    log.warning("refused name=%s", "a\n12:00:00 ERROR forged\x1b[31m")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r" WARNING refused name=a\n12:00:00 ERROR forged\x1b[31m")


def test_an_exception_is_kept_whole_and_on_one_line_for_programs(lines: io.StringIO) -> None:
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        log.exception("handler failed code=%d", 1)
    (event,) = events(lines)
    assert "ValueError: password=***" in event["exception"]
    assert "Traceback" in event["exception"]


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2",
        "password: hunter2",
        "{'Signature': 'hunter2', 'topic': 't'}",
        '{"secretKey":"hunter2"}',
        '{"password":"hun\\"ter2 hunter2"}',
        "first_password='hunter2'",
        "SecurityToken=hunter2,topic=t",
    ],
)
def test_what_looks_like_a_secret_is_blotted_out(text: str, lines: io.StringIO) -> None:
    log.error("failed fields=%s", text)
    log.error(text)
    assert "hunter2" not in lines.getvalue()
    assert "***" in lines.getvalue()


def test_a_value_that_is_a_secret_by_its_name_is_blotted_out(lines: io.StringIO) -> None:
    log.error("user made name=%s secret=%s", "u", "hunter2")
    (event,) = events(lines)
    assert (event["name"], event["secret"]) == ("u", "***")


def test_a_secret_that_was_told_is_never_written(lines: io.StringIO) -> None:
    redact.add("correct horse")
    log.error("got text=%s", "xx correct horse xx")
    assert events(lines)[0]["text"] == "xx *** xx"


def test_identical_events_are_counted(lines: io.StringIO, clock: Clock) -> None:
    for _ in range(413):
        log.warning("refused peer=%s", "a")
    log.warning("refused peer=%s", "b")
    clock.seconds += WINDOW_S
    log.info("other")
    found = [(event["event"], event.get("times"), event.get("event_")) for event in events(lines)]
    assert found == [
        ("refused", None, None),
        ("refused", None, None),
        ("repeated", 412, "refused peer=a"),
        ("other", None, None),
    ]


def test_events_that_differ_in_a_value_only_have_a_limit_too(lines: io.StringIO, clock: Clock) -> None:
    for port in range(LIKE_LIMIT + 50):
        log.warning("refused peer=%s", f"a:{port}")
    assert len(events(lines)) == LIKE_LIMIT
    clock.seconds += WINDOW_S
    log.warning("refused peer=%s", "a:1")
    assert [event.get("times") for event in events(lines)[LIKE_LIMIT:]] == [50, None]


def test_what_was_counted_is_told_at_the_end(clock: Clock) -> None:
    stream = io.StringIO()
    handler = set_up_logs(stream=stream, clock=clock)
    log.warning("again")
    log.warning("again")
    handler.close()
    assert [event.get("times") for event in events(stream)] == [None, 1]


def test_levels_and_a_second_set_up(lines: io.StringIO, clock: Clock) -> None:
    stream = io.StringIO()
    set_up_logs("error", stream=stream, clock=clock)
    log.warning("too little")
    log.error("enough")
    assert [event["event"] for event in events(stream)] == ["enough"]
    assert lines.getvalue() == ""
    with pytest.raises(SettingsError, match="DEBUG, INFO"):
        set_up_logs("LOUD")


def test_nothing_is_written_to_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    set_up_logs(stream=io.StringIO(), clock=clock)
    log.error("something")
    assert os.listdir(tmp_path) == []


def logged_texts() -> Iterator[tuple[str, str]]:
    """What every `log.warning(…)` of the sources says, and where."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {f"log.{level}" for level in LEVELS}:
                yield f"{path.name}:{node.lineno}", ast.literal_eval(node.args[0])


def test_every_line_of_ours_is_an_event_with_named_values() -> None:
    texts = dict(logged_texts())
    assert len(texts) > 50
    assert [where for where, text in texts.items() if len(NAMED.findall(text)) != text.count("%")] == []
    assert [where for where, text in texts.items() if re.search(r"\w=[^%]", text)] == []
