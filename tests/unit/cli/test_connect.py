"""Times, addresses and questions of commands that talk to a cluster."""

from __future__ import annotations

import argparse
import io
import sys
from datetime import UTC, datetime, timedelta

import pytest

from embermq.cli.connect import confirm, parse_duration, parse_moment
from embermq.cli.main import build_parser
from embermq.errors import NotPermitted


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600), ("1.5h", 5400), ("500ms", 0.5), ("2d", 172_800), (" 30s ", 30)]
)
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "10 m", "10w", "1e3s"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="10m"):
        parse_duration(text)


def test_a_moment_is_how_long_ago_or_a_time() -> None:
    before = datetime.now(UTC) - timedelta(minutes=10)
    assert before <= parse_moment("10m") <= datetime.now(UTC) - timedelta(minutes=10)
    assert parse_moment("2026-11-01T12:00:00Z") == datetime(2026, 11, 1, 12, tzinfo=UTC)
    assert parse_moment("2026-11-01T12:00:00+02:00") == datetime(2026, 11, 1, 10, tzinfo=UTC)
    assert parse_moment("2026-11-01") == datetime(2026, 11, 1).astimezone(UTC)
    with pytest.raises(argparse.ArgumentTypeError, match="yesterday"):
        parse_moment("yesterday")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (["--namesrv", "a:1", "topic", "list"], "a:1"),
        (["topic", "list", "--namesrv", "b:2"], "b:2"),
        (["--namesrv", "a:1", "topic", "list", "--namesrv", "b:2"], "b:2"),
        (["topic", "list"], None),
    ],
)
def test_the_name_servers_may_be_named_before_or_behind_the_noun(line: list[str], expected: str | None) -> None:
    assert build_parser().parse_args(line).namesrv == expected


def ask(monkeypatch: pytest.MonkeyPatch, answer: str, *, yes: bool = False) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    confirm(argparse.Namespace(yes=yes), "delete all")


@pytest.mark.parametrize("answer", ["y\n", "YES\n"])
def test_who_says_yes_is_believed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    ask(monkeypatch, answer)
    assert capsys.readouterr() == ("", "delete all. Go on? [y/N] ")


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "what\n"])
def test_anything_else_is_no(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    with pytest.raises(NotPermitted, match="not done"):
        ask(monkeypatch, answer)


def test_with_yes_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ask(monkeypatch, "n\n", yes=True)
    assert capsys.readouterr().err == ""


def test_where_nobody_can_be_asked_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(NotPermitted, match="--yes"):
        confirm(argparse.Namespace(yes=False), "delete all")
