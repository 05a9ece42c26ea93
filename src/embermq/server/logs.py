"""What a server writes to stderr: one event a line, with its values.

    on a terminal    12:00:00.123 WARNING refused peer=127.0.0.1:4711 code=17 reason=…
    otherwise        {"time":"…","level":"WARNING","event":"refused","peer":"127.0.0.1:4711","code":17,…}

Events are logged as `log.warning("refused peer=%s code=%d", peer, code)`: the text before the first
`name=%` is the event, the rest are its values. What repeats is counted instead of written, secrets
are blotted out, and nothing is ever written to a file of its own.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from embermq.clock import Clock, SystemClock
from embermq.errors import SettingsError
from embermq.server.repeats import Repeats

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_VALUE: Final = re.compile(r"(\w+)=%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
_CONVERSION: Final = re.compile(r"%[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
_SECRET: Final = re.compile(
    r"""(?ix) (["']? \b \w* (?: password | secret | signature | securitytoken ) \w* ["']? \s* [:=] \s*)
        ( "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | [^\s,;&}'"]+ )"""
)
_BLOT: Final = "***"
_OUR_NAMES: Final = frozenset({"time", "level", "event", "logger", "exception"})


class Redaction:
    """Blots out whatever looks like a secret, and those that it was told."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()

    def add(self, *secrets: str) -> None:
        """Never let these be written."""
        self._secrets.update(secret for secret in secrets if secret)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _BLOT)
        return _SECRET.sub(rf"\g<1>{_BLOT}", text)


redact: Final = Redaction()  # one for the process: a secret is one wherever it is logged


class HumanLines(logging.Formatter):
    """For people at a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S.%f")[:-3]
        line = f"{time} {record.levelname} {_printable(redact(record.getMessage()))}"
        if record.exc_info:
            line += "\n" + redact(self.formatException(record.exc_info))
        return line


class JsonLines(logging.Formatter):
    """For programs that collect logs."""

    def format(self, record: logging.LogRecord) -> str:
        event, values = split_event(record)
        members: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "event": redact(event),
            "logger": record.name,
        }
        for name, value in values.items():
            key = f"{name}_" if name in _OUR_NAMES else name
            # With its name, because a secret may be known by that alone.
            members[key] = redact(f"{name}={value}").partition("=")[2] if isinstance(value, str) else value
        if record.exc_info:
            members["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(members, ensure_ascii=True, separators=(",", ":"))


class EventHandler(logging.StreamHandler[TextIO]):
    """Writes events, each kind of them only so often."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        super().__init__(stream)
        self._repeats = Repeats(clock)

    def emit(self, record: logging.LogRecord) -> None:
        for summary in self._repeats.due():
            super().emit(summary)
        if self._repeats.admits(record):
            super().emit(record)

    def close(self) -> None:
        for summary in self._repeats.due(all_of_them=True):
            super().emit(summary)
        super().close()


def set_up_logs(
    level: str = "INFO", *, stream: TextIO | None = None, as_json: bool | None = None, clock: Clock | None = None
) -> EventHandler:
    """Have all events of this process written to `stream`, stderr by default. Raises SettingsError."""
    if level.upper() not in LEVELS:
        raise SettingsError(f"log level {level!r} is none of {', '.join(LEVELS)}")
    stream = stream or sys.stderr
    handler = EventHandler(stream, clock or SystemClock())
    handler.setFormatter(JsonLines() if (not stream.isatty() if as_json is None else as_json) else HumanLines())
    root = logging.getLogger()
    for present in [each for each in root.handlers if isinstance(each, EventHandler)]:
        root.removeHandler(present)
        present.close()
    root.addHandler(handler)
    root.setLevel(level.upper())
    return handler


def split_event(record: logging.LogRecord) -> tuple[str, dict[str, object]]:
    """The event of a record and its values by name; the whole text, where it is not made of these."""
    template, arguments = str(record.msg), record.args
    found = list(_VALUE.finditer(template))
    is_plain = isinstance(arguments, tuple) and len(found) == len(arguments) == len(_CONVERSION.findall(template))
    if not is_plain or not found:
        return record.getMessage(), {}
    assert isinstance(arguments, tuple)
    plain = (int, float, bool, type(None))
    values = [value if isinstance(value, plain) else str(value) for value in arguments]
    event = template[: found[0].start()].strip() + template[found[-1].end() :].replace("%%", "%").rstrip()
    return event, dict(zip((match[1] for match in found), values, strict=True))


def _printable(text: str) -> str:
    """One line, whatever a peer put into it: nothing that moves the cursor."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
