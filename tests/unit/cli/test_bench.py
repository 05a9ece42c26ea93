"""What `ember bench` measures with: histograms, how long a run goes on, a server's figures, and what is said."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embermq.broker.stages import ENGINE, PLAIN
from embermq.cli.load.client_log import counting_events
from embermq.cli.load.course import Course, Pace
from embermq.cli.load.figures import Figures, FiguresSource, Stage, Syncs, find_figures, usual_url
from embermq.cli.load.latencies import Latencies, bucket_of, middle_of
from embermq.cli.load.report import notes_of, print_facts, print_report
from embermq.cli.load.tally import Tally, format_ms, show_seconds
from embermq.cli.main import main
from embermq.client.routes import Route
from embermq.errors import ConnectionLost, SettingsError
from embermq.server.exposition import Family, Row, render
from embermq.server.meters import Histogram

TIMES = st.integers(0, 2**63 - 1)


@given(st.lists(TIMES, min_size=1, max_size=200), st.floats(1, 100))
def test_a_percentile_is_known_to_one_part_in_64(values: list[int], percent: float) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[math.ceil(len(values) * percent / 100) - 1]
    assert abs(latencies.percentile(percent) - exact) <= exact / 64
    assert latencies.largest == max(values)
    assert latencies.percentile(percent) <= latencies.largest


@given(TIMES)
def test_a_bucket_has_the_values_around_its_middle(value: int) -> None:
    assert abs(middle_of(bucket_of(value)) - value) <= value / 128
    assert bucket_of(value) <= bucket_of(min(value + 1, 2**63 - 1)) <= bucket_of(value) + 1


def test_small_times_are_exact_and_none_are_0() -> None:
    latencies = Latencies()
    assert latencies.percentile(50) == 0
    for value in range(128):
        latencies.add(value)
    assert [latencies.percentile(100 * (value + 1) / 128) for value in range(128)] == list(range(128))


def test_memory_does_not_grow_with_the_times() -> None:
    assert bucket_of(2**63 - 1) == 3_711
    latencies = Latencies()
    latencies.add(-5)
    latencies.add(2**80, 3)
    assert (latencies.count, latencies.largest) == (4, 2**63 - 1)
    assert latencies.percentile(25) == 0


async def take_all(course: Course, count: int) -> list[int]:
    taken = []
    while some := course.take(count):
        taken.append(some)
        await asyncio.sleep(0)
    return taken


def test_a_run_ends_after_so_many_messages() -> None:
    async def run() -> list[int]:
        return await take_all(Course(messages=10), 4)

    assert asyncio.run(run()) == [4, 4, 2]


def test_a_run_ends_after_so_many_seconds() -> None:
    async def run() -> float:
        began = time.monotonic()
        course = Course(seconds=0.05)
        course.begin()
        await take_all(course, 1)
        return time.monotonic() - began

    assert 0.04 < asyncio.run(run()) < 5


def test_an_interrupt_ends_a_run() -> None:
    async def run() -> tuple[int, bool]:
        course = Course(messages=10, seconds=60)
        course.begin()
        with course.interruptible():
            course.interrupt()
        return course.take(1), course.interrupted.is_set()

    assert asyncio.run(run()) == (0, True)


def test_a_pace_is_kept_by_all_together() -> None:
    async def run() -> float:
        over, pace = asyncio.Event(), Pace(200.0)
        began = time.monotonic()
        await asyncio.gather(*(pace.wait(2, over) for _ in range(11)))
        return time.monotonic() - began

    assert 0.09 < asyncio.run(run()) < 5  # ten times two messages after the first two


def test_nobody_waits_for_a_run_that_is_over() -> None:
    async def run() -> None:
        over, pace = asyncio.Event(), Pace(0.001)
        await pace.wait(1, over)
        waiting = [asyncio.ensure_future(pace.wait(1, over)) for _ in range(3)]
        await asyncio.sleep(0)
        over.set()
        async with asyncio.timeout(5):
            await asyncio.gather(*waiting)

    asyncio.run(run())


def some_tally(*kinds: str, messages: int = 1000) -> Tally:
    tally = Tally(*kinds or ("latency",), unit_ms=1.0)
    tally.begin()
    tally.count(messages, messages * 100)
    for number in range(messages):
        for latencies in tally.latencies.values():
            latencies.add(number // 10)
    tally.finish()
    tally.seconds, tally.cpu_seconds = 2.0, 1.0
    return tally


@contextmanager
def figures_server(*texts: bytes) -> Iterator[str]:
    """The address of a server that gives one text after the other."""
    left = list(texts)

    class Figures(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(left.pop(0))

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Figures) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/metrics"
        finally:
            server.shutdown()
            thread.join()


def figures_text(scale: int, *, topic: str = "orders") -> bytes:
    """What a server says, as it says it."""
    labels = ("node_id", "path", "stage")
    stages = [(path, stage) for path in (ENGINE, PLAIN) for stage in ("read", "store", "answer")]
    worth = {ENGINE: 9, PLAIN: 1}
    families = [
        Family(
            f"embermq_send_{what}",
            "counter",
            "…",
            labels,
            [Row(("a", *key), scale * worth[key[0]] * unit) for key in stages],
        )
        for what, unit in (("messages", 100), ("calls", 4), ("seconds", 0.001))
    ]
    families += [
        Family("embermq_pull_messages", "counter", "…", labels, [Row(("a", "engine", "answer"), 5 * scale)]),
        Family("rocketmq_messages_in", "counter", "…", ("topic",), [Row((topic,), 1000 * scale)]),
        Family("embermq_sync_latency_seconds", "histogram", "…", (), [Row((), Histogram((1.0,), (scale, scale), 0.5))]),
    ]
    return render(families)[0]


def test_what_happened_at_the_server_is_the_difference(capsys: pytest.CaptureFixture[str]) -> None:
    async def run(url: str) -> None:
        source = FiguresSource(url, "send", "orders", is_guess=True)
        await source.begin()
        figures = await source.finish(1000)
        assert figures is not None
        assert figures.engine_share == 0.9
        assert figures.syncs.calls == 2
        assert [(stage.path, stage.name, stage.messages, stage.calls) for stage in figures.stages[:2]] == [
            ("engine", "read", 900, 36),
            ("engine", "store", 900, 36),
        ]
        assert {stage.messages_per_call for stage in figures.stages} == {25.0}
        assert {round(stage.microseconds, 6) for stage in figures.stages} == {10.0}
        print_report(some_tally(), figures, how="so", kinds={"latency": ""})

    with figures_server(figures_text(3), figures_text(4)) as url:
        asyncio.run(run(url))
    lines = capsys.readouterr().out.splitlines()
    assert "server     90.0% of messages on the engine" in lines
    assert lines[-6:][0].split() == ["engine", "read", "900", "36", "25.0", "10.00"]


def test_the_figures_of_pulls_are_their_own() -> None:
    async def run(url: str) -> None:
        source = FiguresSource(url, "pull", "orders")
        await source.begin()
        figures = await source.finish(5)
        assert figures is not None
        assert [stage.messages for stage in figures.stages] == [5]

    with figures_server(figures_text(3), figures_text(4)) as url:
        asyncio.run(run(url))


def test_the_share_of_the_engine_is_that_of_the_last_stage() -> None:
    def share(*stages: Stage) -> float | None:
        return Figures(list(stages), Syncs(0, 0.0)).engine_share

    engine, plain = Stage("engine", "answer", 30, 1, 0.1), Stage("plain", "answer", 10, 1, 0.1)
    assert share(engine, plain, Stage("engine", "read", 40, 1, 0.1)) == 0.75
    assert share(Stage("plain", "find", 4, 1, 0.1)) == 0
    assert share() is None


def test_the_figures_of_another_server_are_not_shown() -> None:
    async def run(url: str) -> None:
        source = FiguresSource(url, "send", "orders", is_guess=True)
        await source.begin()
        with pytest.raises(SettingsError, match="--metrics"):
            await source.finish(1000)

    with figures_server(*(figures_text(scale, topic="elsewhere") for scale in (3, 4))) as url:
        asyncio.run(run(url))


def test_a_broker_without_such_figures_shows_none() -> None:
    async def run(url: str) -> None:
        source = FiguresSource(url, "send", "orders", is_guess=True)
        await source.begin()
        assert await source.finish(1000) is None

    with figures_server(b'# HELP x\nrocketmq_messages_in_total{topic="orders"} 5\n', b"up 1\n\n{}\nnonsense\n") as url:
        asyncio.run(run(url))


def a_route(*addresses: str) -> Route:
    masters = {str(number): address for number, address in enumerate(addresses)}
    return Route("orders", (), (), masters, masters)


@pytest.mark.parametrize(
    ("addresses", "url"),
    [
        (["127.0.0.1:10911"], "http://127.0.0.1:5557/metrics"),
        (["[::1]:10911"], "http://[::1]:5557/metrics"),
        (["localhost:10911"], "http://localhost:5557/metrics"),
        (["192.0.2.1:10911"], None),
        (["broker.example:10911"], None),
        (["127.0.0.1:10911", "127.0.0.1:20911"], None),
        ([], None),
    ],
)
def test_figures_are_looked_for_at_one_broker_of_this_machine(addresses: list[str], url: str | None) -> None:
    assert usual_url(a_route(*addresses)) == url


def test_figures_that_were_asked_for_must_be_there() -> None:
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1/metrics"):
        asyncio.run(find_figures("http://127.0.0.1:1/metrics", a_route(), kind="send", topic="orders"))
    with pytest.raises(SettingsError, match="http://"):
        asyncio.run(find_figures("/etc/passwd", a_route(), kind="send", topic="orders"))


def test_the_end_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    tally = some_tally("stored", "born")
    tally.fail("CallTimeout", "late\nagain", 2)
    print_report(tally, None, how="so", kinds={"stored": "since stored", "born": "since born"})
    assert capsys.readouterr().out == (
        "messages   1000 in 2.00 s; so\n"
        "rate       500 messages/s, 0.1 MB/s\n"
        "latency    since stored  p50 49.0 ms  p90 89.0 ms  p99 98.0 ms  p99.9 99.0 ms  max 99.0 ms\n"
        "latency    since born    p50 49.0 ms  p90 89.0 ms  p99 98.0 ms  p99.9 99.0 ms  max 99.0 ms\n"
        "errors     2 CallTimeout\n"
        "client     50% of a core\n"
    )


def test_a_run_without_messages_has_no_times(capsys: pytest.CaptureFixture[str]) -> None:
    tally = some_tally(messages=0)
    print_report(tally, None, how="so", kinds={"latency": ""})
    assert "latency    none\n" in capsys.readouterr().out
    print_facts({"topic": "orders"}, tally, None)
    facts = json.loads(capsys.readouterr().out)
    assert (facts["latencyMs"], facts["messagesPerSecond"]) == ({}, 0.0)
    assert "server" not in facts


def test_what_should_be_known_besides_is_noted() -> None:
    tally = some_tally()
    with counting_events() as log:
        assert list(notes_of(tally, log)) == []
        for number in range(3):
            logging.getLogger("embermq.client.routes").warning("not refreshed cause=%d", number)
    tally.fail("CallTimeout", "late\nagain")
    tally.cpu_seconds = 1.9
    assert list(notes_of(tally, log, rate=600.0)) == [
        "logged 3 times, the first: not refreshed cause=0",
        "1 error CallTimeout, the first: late again",
        "600 messages a second were not reached; more --in-flight or --connections may help",
        "the client is the limit; dev.py bench peers drives a server harder",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_line_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)

    async def run() -> None:
        tally = some_tally()
        task = asyncio.ensure_future(show_seconds(tally, every_s=0.01))
        tally.fail("CallTimeout", "late")
        async with asyncio.timeout(10):
            while terminal.getvalue().count("\n") < 2:
                await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(run())
    for line in terminal.getvalue().splitlines():
        assert line.endswith("MB/s  p50 49.0 ms  p99 98.0 ms  1 errors")


def test_nobody_else_gets_one(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(show_seconds(some_tally(), every_s=0.0))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0.00 ms"), (9.994, "9.99 ms"), (12.34, "12.3 ms"), (999.5, "1000 ms"), (12_345, "12.3 s")],
)
def test_times_have_three_digits(ms: float, text: str) -> None:
    assert format_ms(ms) == text


def test_percentiles_grow_with_the_percent() -> None:
    tally = some_tally()
    times = [tally.percentile_ms("latency", percent) for percent in (1, 25, 50, 75, 99, 100)]
    assert all(low < high for low, high in pairwise(times))


@pytest.mark.parametrize(
    "options",
    [
        ["--messages", "0"],
        ["--messages", "-5"],
        ["--seconds", "0"],
        ["--seconds", "nan"],
        ["--seconds", "soon"],
        ["--messages", "5", "--seconds", "5"],
        ["--size", "1.5"],
    ],
)
def test_what_makes_no_sense_is_wrong_usage(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "send", "orders", *options]) == 2
    assert "usage: ember bench send" in capsys.readouterr().err
