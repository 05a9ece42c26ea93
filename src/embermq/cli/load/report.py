"""The end of a run, in words or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from embermq.cli.load.client_log import ClientLog
from embermq.cli.load.figures import Figures
from embermq.cli.load.tally import Tally, format_ms
from embermq.cli.output import count_of, print_json, print_line, print_table

_PERCENTS: Final = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9}
_BUSY: Final = 0.9  # of a core: one thread that has this much to do is what limits the run
_REACHED: Final = 0.95  # of a rate, since the last messages of a run are waited for
_WIDTH: Final = 10


def print_report(tally: Tally, figures: Figures | None, *, how: str, kinds: Mapping[str, str]) -> None:
    """For people. `how` tells what was done, `kinds` what each kind of times is called."""
    _say("messages", f"{tally.messages} in {tally.seconds:.2f} s; {how}")
    _say("rate", f"{tally.rate:.0f} messages/s, {tally.megabytes_rate:.1f} MB/s")
    width = max(map(len, kinds.values()))
    for kind, title in kinds.items():
        times = "  ".join(f"{name} {format_ms(ms)}" for name, ms in _times(tally, kind).items()) or "none"
        _say("latency", f"{title:{width}}  {times}" if title else times)
    _say("errors", ", ".join(f"{count} {kind}" for kind, count in tally.errors.most_common()) or "none")
    _say("client", f"{tally.cpu_share:.0%} of a core")
    if figures is not None:
        _print_figures(figures, tally.messages)


def print_facts(facts: Mapping[str, object], tally: Tally, figures: Figures | None) -> None:
    """For programs, one object."""
    values: dict[str, object] = {
        **facts,
        "messages": tally.messages,
        "seconds": round(tally.seconds, 6),
        "messagesPerSecond": round(tally.rate, 1),
        "megabytesPerSecond": round(tally.megabytes_rate, 3),
        **{f"{kind}Ms": _times(tally, kind) for kind in tally.latencies},
        "errors": dict(tally.errors),
        "clientCpu": round(tally.cpu_share, 3),
    }
    if figures is not None:
        values["server"] = _figures_facts(figures)
    print_json(values)


def notes_of(tally: Tally, log: ClientLog, *, rate: float | None = None) -> Iterator[str]:
    """What should be known besides; `rate` is the one that was asked for."""
    for kind, said in log.first.items():
        yield f"logged {count_of(log.counts[kind], 'time')}, the first: {said}"
    for kind, said in tally.first_errors.items():
        yield f"{count_of(tally.errors[kind], 'error')} {kind}, the first: {said}"
    if rate is not None and tally.rate < rate * _REACHED:
        yield f"{rate:.0f} messages a second were not reached; more --in-flight or --connections may help"
    if tally.cpu_share > _BUSY:
        yield "the client is the limit; dev.py bench peers drives a server harder"


def _say(name: str, text: str) -> None:
    print_line(f"{name:{_WIDTH}} {text}")


def _times(tally: Tally, kind: str) -> dict[str, float]:
    if not tally.latencies[kind].count:
        return {}
    times = {name: tally.percentile_ms(kind, percent) for name, percent in _PERCENTS.items()}
    return {name: round(ms, 3) for name, ms in (*times.items(), ("max", tally.largest_ms(kind)))}


def _print_figures(figures: Figures, messages: int) -> None:
    if figures.engine_share is not None:
        _say("server", f"{figures.engine_share:.1%} of messages on the engine")
    if figures.syncs.calls:
        each = format_ms(figures.syncs.seconds * 1000 / figures.syncs.calls)
        _say("syncs", f"{figures.syncs.calls}, {each} each, {messages / figures.syncs.calls:.1f} messages a sync")
    if figures.stages:
        print_line("")
        print_table(
            ("path", "stage", "messages", "calls", "messages/call", "us/message"),
            ((*stage[:4], f"{stage.messages_per_call:.1f}", f"{stage.microseconds:.2f}") for stage in figures.stages),
        )


def _figures_facts(figures: Figures) -> dict[str, object]:
    stages = [
        {
            **{"path": stage.path, "stage": stage.name, "messages": stage.messages, "calls": stage.calls},
            **{"seconds": round(stage.seconds, 6), "microsecondsPerMessage": round(stage.microseconds, 3)},
            "messagesPerCall": round(stage.messages_per_call, 2),
        }
        for stage in figures.stages
    ]
    share = figures.engine_share
    return {
        "engineShare": None if share is None else round(share, 4),
        "stages": stages,
        "syncs": {"calls": figures.syncs.calls, "seconds": round(figures.syncs.seconds, 6)},
    }
