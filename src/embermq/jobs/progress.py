"""How far a long job is, and when it may be done: on a terminal, or as lines of JSON.

    rebuild: queues   34 % of 6442450944 bytes, 12 s left
    {"progress":{"job":"rebuild","step":"queues","done":2190433320,"total":6442450944,"leftS":12.1}}

A job has steps, one after the other; each has so many bytes, and what is left is told by the speed of the step so far.
The line of a terminal goes to stderr, and only if that is one. Lines of JSON go to stdout, before the result,
which is the last line. A job that takes less than a second shows nothing. Where nobody can tell bytes, other things are
counted: of a report, Spark's tasks.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self, TextIO

_FIRST_AFTER_S: Final = 1.0
_TERMINAL_EVERY_S: Final = 0.2
_JSON_EVERY_S: Final = 1.0

Report = Callable[[int], None]  # so many bytes more are done


class State(NamedTuple):
    """How far a step is."""

    job: str
    step: str
    done: int  # in `unit`
    total: int
    left_s: float | None  # until the end of the step; None while nobody can say
    unit: str = "bytes"


class Show(Protocol):
    """Shows how far a job is."""

    every_s: float  # not more often

    def show(self, state: State) -> None:
        """Show this instead of what was shown before."""

    def clear(self) -> None:
        """Take away what is shown, for the job has ended."""


class Progress:
    """Counts the bytes that are done, and has them shown from time to time. For one thread.

    To be used with `with`, so that what is shown goes away however the job ends.
    """

    def __init__(
        self,
        job: str,
        show: Show | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        first_after_s: float = _FIRST_AFTER_S,
    ) -> None:
        self._job = job
        self._show = show
        self._now = now
        self._step, self._unit = "", "bytes"
        self._done = self._total = 0
        self._begun_at = now()
        self._next_at = self._begun_at + first_after_s

    def begin(self, step: str, total: int, *, unit: str = "bytes") -> None:
        """The next step begins, with so many bytes, or what `unit` says."""
        self._step, self._done, self._total, self._unit = step, 0, total, unit
        self._begun_at = self._now()

    def add(self, size: int) -> None:
        """So many bytes more are done; 0 only shows that time goes on. What runs tasks calls it: it is a Report."""
        self._done = min(self._done + size, self._total)
        now = self._now()
        if self._show is not None and now >= self._next_at:
            self._next_at = now + self._show.every_s
            self._show.show(State(self._job, self._step, self._done, self._total, self._left(now), self._unit))

    def _left(self, now: float) -> float | None:
        if not self._done:
            return None
        return (now - self._begun_at) * (self._total - self._done) / self._done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._show is not None:
            self._show.clear()


class TerminalLine:
    """One line that is written over."""

    every_s = _TERMINAL_EVERY_S

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_shown = False

    def show(self, state: State) -> None:
        share = 100 * state.done // state.total if state.total else 0
        left = "" if state.left_s is None else f", {format_seconds(state.left_s)} left"
        line = f"{state.job}: {state.step}  {share:3} % of {state.total} {state.unit}{left}"
        print(f"\r\x1b[K{line}", end="", file=self._stream, flush=True)
        self._is_shown = True

    def clear(self) -> None:
        if self._is_shown:
            print("\r\x1b[K", end="", file=self._stream, flush=True)
            self._is_shown = False


class JsonLines:
    """One object a line, under the name `progress`."""

    every_s = _JSON_EVERY_S

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, state: State) -> None:
        left = None if state.left_s is None else round(state.left_s, 1)
        facts = {"job": state.job, "step": state.step, "done": state.done, "total": state.total, "leftS": left}
        print(json.dumps({"progress": facts}, separators=(",", ":")), file=self._stream, flush=True)

    def clear(self) -> None:
        """Lines stay."""


def choose_show(*, as_json: bool) -> Show | None:
    """What a command shows: lines of JSON if it was asked for these, else a line on a terminal, if stderr is one."""
    if as_json:
        return JsonLines(sys.stdout)
    return TerminalLine(sys.stderr) if sys.stderr.isatty() else None


def format_seconds(seconds: float) -> str:
    """`12 s`, `3 min`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
