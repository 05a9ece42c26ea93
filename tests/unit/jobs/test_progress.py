"""What is shown of a long job, and how often."""

from __future__ import annotations

import io
import json

from embermq.jobs.progress import JsonLines, Progress, TerminalLine, format_seconds


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_lines_of_json_tell_bytes_and_the_time_that_is_left() -> None:
    time, stream = Time(), io.StringIO()
    with Progress("rebuild", JsonLines(stream), now=time) as progress:
        progress.begin("queues", 1000)
        time.now = 2.0
        progress.add(250)
        time.now = 2.5
        progress.add(250)  # too soon for another line
        time.now = 4.0
        progress.add(250)
    lines = [json.loads(line)["progress"] for line in stream.getvalue().splitlines()]
    assert lines == [
        {"job": "rebuild", "step": "queues", "done": 250, "total": 1000, "leftS": 6.0},
        {"job": "rebuild", "step": "queues", "done": 750, "total": 1000, "leftS": 1.3},
    ]


def test_a_short_job_shows_nothing() -> None:
    time, stream = Time(), io.StringIO()
    with Progress("verify", TerminalLine(stream), now=time) as progress:
        progress.begin("log", 10)
        time.now = 0.9
        progress.add(10)
    assert stream.getvalue() == ""


def test_the_line_of_a_terminal_is_taken_away_when_the_job_fails() -> None:
    time, stream = Time(), io.StringIO()
    try:
        with Progress("verify", TerminalLine(stream), now=time) as progress:
            progress.begin("log", 200)
            time.now = 1.0
            progress.add(100)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert stream.getvalue() == "\r\x1b[Kverify: log   50 % of 200 bytes, 1 s left\r\x1b[K"


def test_what_is_left_is_counted_by_the_step_and_unknown_at_its_begin() -> None:
    time, stream = Time(), io.StringIO()
    progress = Progress("rebuild", JsonLines(stream), now=time)
    progress.begin("queues", 100)
    time.now = 10.0
    progress.add(100)
    progress.begin("index", 100)
    time.now = 12.0
    progress.add(0)
    assert json.loads(stream.getvalue().splitlines()[-1])["progress"]["leftS"] is None


def test_what_is_counted_may_be_something_else_than_bytes() -> None:
    time, stream = Time(), io.StringIO()
    with Progress("report", TerminalLine(stream), now=time, first_after_s=5.0) as progress:
        progress.begin("stage 3", 8, unit="tasks")
        time.now = 4.0
        progress.add(2)
        time.now = 6.0
        progress.add(2)
        assert stream.getvalue() == "\r\x1b[Kreport: stage 3   50 % of 8 tasks, 6 s left"
        progress.begin("copies", 10)
        time.now = 7.0
        progress.add(0)
        assert stream.getvalue().endswith("copies    0 % of 10 bytes")


def test_times_are_told_in_words() -> None:
    assert [format_seconds(s) for s in (0.4, 99, 100, 3599, 7500)] == ["0 s", "99 s", "2 min", "60 min", "2 h 5 min"]
