"""Printing for people and for programs."""

from __future__ import annotations

import io
import json
import sys

import pytest

from embermq.cli.output import (
    count_of,
    format_time,
    may_colour,
    print_json,
    print_line,
    print_table,
    print_verdict,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make both streams a terminal."""
    made = Terminal()
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return made


def test_json_is_one_line_of_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"topic": "Bücher\n", "n": 1})
    line = capsys.readouterr().out
    assert line.isascii()
    assert line.count("\n") == 1
    assert json.loads(line) == {"topic": "Bücher\n", "n": 1}


def test_what_would_move_the_cursor_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    print_line("a\x1b[2Jb\r\nc ü")
    assert capsys.readouterr().out == "a\\x1b[2Jb\\r\\nc ü\n"


def test_what_the_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    print_line("ü \udcff")
    sys.stdout.flush()
    assert raw.getvalue() == b"\\xfc \\udcff\n"


def test_numbers_of_a_table_stand_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("topic", "max"), [("orders", 5), ("x", -123)])
    assert capsys.readouterr().out == "topic    max\norders     5\nx       -123\n"


def test_fractions_are_numbers_too(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("us", "at"), [("0.25", "1.2.3"), ("12.5", "-")])
    assert capsys.readouterr().out == "  us  at\n0.25  1.2.3\n12.5  -\n"


def test_a_verdict_is_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    print_verdict("sound", is_good=True)
    print_verdict("damaged", is_good=False)
    assert terminal.getvalue() == "\x1b[32msound\x1b[0m\n\x1b[31mdamaged\x1b[0m\n"


def test_a_verdict_is_plain_where_nobody_wants_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = open_terminal(monkeypatch)
    monkeypatch.setenv("NO_COLOR", "1")
    print_verdict("sound", is_good=True)
    assert terminal.getvalue() == "sound\n"
    assert not may_colour(io.StringIO())


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (1_700_000_000_123, "2023-11-14T22:13:20.123Z"), (2**62, str(2**62))],
)
def test_a_time_is_shown_in_utc(milliseconds: int, text: str) -> None:
    assert format_time(milliseconds) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 records"), (1, "1 record"), (2, "2 records")])
def test_one_is_not_many(number: int, text: str) -> None:
    assert count_of(number, "record") == text
