"""Results of jobs: in bench/results/jobs.json, and as a table of docs/performance.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from bench.report.machine import machine
from bench.report.page import PAGE, RESULTS
from bench.whole_stores.making import Store

FILE = RESULTS / "jobs.json"
BEGIN, END = "<!-- results: written by `dev.py bench jobs` -->", "<!-- end of the results of jobs -->"
BODIES = {1024: "1 KiB", 100: "100 B"}


class Bar(NamedTuple):
    """What a job must reach: so many of `column`, which are shown by the million."""

    column: str
    wanted: float


BARS = {
    "verify": Bar("bytes_per_s", 2e9),
    "rebuild queues": Bar("messages_per_s", 2.5e6),
    "rebuild all": Bar("messages_per_s", 1e6),
    "compaction plan": Bar("messages_per_s", 0.5e6),
    "archive parquet": Bar("bytes_per_s", 300e6),
    "archive delta": Bar("bytes_per_s", 300e6),
    "archive iceberg": Bar("bytes_per_s", 300e6),
}


def save(store: Store, seconds: Mapping[str, list[float]]) -> None:
    """Keep and print what some jobs took on a store, the best of their rounds; others keep what they had."""
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    for job, rounds in seconds.items():
        best = min(rounds)
        found = {"bytes_per_s": round(store.size / best), "messages_per_s": round(store.records / best)}
        speed = f"{found['bytes_per_s'] / 1e6:>6,.0f} MB/s  {found['messages_per_s'] / 1e6:>6.2f} M messages/s"
        print(f"{store.body:>5} B  {job:<16} {best:>7.2f} s  {speed}{_verdict(job, found)}", flush=True)
        row = {**found, "seconds": [round(each, 3) for each in rounds], "machine": machine()}
        results.setdefault(job, {})[str(store.body)] = row
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(results, indent=1) + "\n")


def write_page() -> None:
    """Write the results into the page, between their marks. Raises ValueError if these are not there."""
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no place for results: {BEGIN} and then {END}")
    text = "\n".join(results_text(json.loads(FILE.read_text())))
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def results_text(results: Mapping[str, Any]) -> Iterable[str]:
    """One row a job, with the day and the machine it was measured on."""
    machines = {
        f"{row['machine']['date']} on {row['machine']['cpu'] or 'an unknown processor'},"
        f" {row['machine']['cores']} cores, {row['machine']['memory_gib']} GiB, Linux {row['machine']['kernel']},"
        f" Python {row['machine']['python']}"
        for rows in results.values()
        for row in rows.values()
    }
    yield f"Measured on {'; '.join(sorted(machines))}."
    yield ""
    yield "| job | wanted | " + " | ".join(BODIES.values()) + " |"
    yield "|---|---:|" + "---:|" * len(BODIES)
    for job, rows in results.items():
        cells = [_cell(job, rows.get(str(body))) for body in BODIES]
        yield f"| {job} | {_wanted(job)} | " + " | ".join(cells) + " |"


def _wanted(job: str) -> str:
    match BARS.get(job):
        case None:
            return ""
        case Bar("bytes_per_s", wanted):
            return f"≥ {wanted / 1e6:,.0f} MB/s"
        case Bar(_, wanted):
            return f"≥ {wanted / 1e6:g} M messages/s"


def _cell(job: str, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "not measured"
    speed = f"{row['bytes_per_s'] / 1e6:,.0f} MB/s, {row['messages_per_s'] / 1e6:.2f} M messages/s"
    return speed + _verdict(job, row)


def _verdict(job: str, row: Mapping[str, Any]) -> str:
    bar = BARS.get(job)
    return "" if bar is None or row[bar.column] >= bar.wanted else ": **not reached**"
