"""Events that repeat: the first are written, the rest of a while are counted.

Of identical events one is written in ten seconds; of events that differ only in their values, a
hundred: somebody who knocks from a new port each time must not fill the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from embermq.clock import Clock

WINDOW_S: Final = 10.0
LIKE_LIMIT: Final = 100  # events with other values, in one window
_MOST_KEYS: Final = 10_000  # more than that are not remembered one by one


@dataclass(slots=True)
class _Seen:
    """What became of one kind of event since its window began."""

    began: float
    admitted: int
    left_out: int
    last: logging.LogRecord


class Repeats:
    """Decides which events are written. Called under the lock of a log handler."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[object, _Seen] = {}
        self._looked_at = clock.monotonic()

    def admits(self, record: logging.LogRecord) -> bool:
        """Whether `record` is written; counts it otherwise. Errors with a cause to look at always are."""
        if record.exc_info:
            return True
        kind = (record.name, record.levelno, str(record.msg))
        return self._is_within((*kind, record.getMessage()), 1, record) and self._is_within(kind, LIKE_LIMIT, record)

    def due(self, *, all_of_them: bool = False) -> Iterator[logging.LogRecord]:
        """A record for each kind whose window is over and that had more than was written."""
        now = self._clock.monotonic()
        if not all_of_them and now - self._looked_at < WINDOW_S / 10:
            return
        self._looked_at = now
        over = [key for key, seen in self._seen.items() if all_of_them or now - seen.began >= WINDOW_S]
        for key in over:
            seen = self._seen.pop(key)
            if seen.left_out:
                yield _summary(seen)

    def _is_within(self, key: object, limit: int, record: logging.LogRecord) -> bool:
        seen = self._seen.get(key)
        if seen is None:
            if len(self._seen) < _MOST_KEYS:
                self._seen[key] = _Seen(self._clock.monotonic(), 1, 0, record)
            return True
        seen.last = record
        if seen.admitted < limit:
            seen.admitted += 1
            return True
        seen.left_out += 1
        return False


def _summary(seen: _Seen) -> logging.LogRecord:
    last = seen.last
    text = "repeated times=%d event=%s"
    arguments = (seen.left_out, last.getMessage())
    return logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, arguments, None)
