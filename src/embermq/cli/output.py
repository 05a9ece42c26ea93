"""Printing: JSON for programs, lines and tables for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TextIO

_RED, _GREEN, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[0m"


def print_json(value: object, *, flush: bool = False) -> None:
    """One object on one line."""
    print(json.dumps(value, separators=(",", ":")), flush=flush)


def print_line(text: str, *, flush: bool = False) -> None:
    """A line of data; what the terminal cannot show is escaped, and nothing in it moves the cursor."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    if not text.isascii():
        encoding = sys.stdout.encoding or "utf-8"
        text = text.encode(encoding, "backslashreplace").decode(encoding)
    print(text, flush=flush)


def print_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Rows under their heads; numbers stand to the right."""
    table = [tuple(heads), *(tuple(map(str, row)) for row in rows)]
    numeric = [all(_is_number(row[at]) for row in table[1:]) for at in range(len(heads))]
    widths = [max(len(row[at]) for row in table) for at in range(len(heads))]
    for row in table:
        cells = (
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, numeric, strict=True)
        )
        print_line("  ".join(cells).rstrip())


def _is_number(cell: str) -> bool:
    return cell.lstrip("-").replace(".", "", 1).isdigit()


def print_note(text: str) -> None:
    """Words that are no data."""
    print(f"ember: {text}", file=sys.stderr)


def print_verdict(text: str, *, is_good: bool) -> None:
    """The last line of a check, in colour where that is wanted."""
    if may_colour(sys.stdout):
        text = f"{_GREEN if is_good else _RED}{text}{_PLAIN}"
    print(text)


def may_colour(stream: TextIO) -> bool:
    """Whether `stream` is a terminal and nobody said NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def format_time(milliseconds: int) -> str:
    """A moment in UTC; the number itself if no calendar has it."""
    try:
        moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03}Z"


def count_of(number: int, word: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
