"""The results of all parts: in bench/results/spark.json, and as a table of docs/performance.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bench.report.machine import machine
from bench.report.page import PAGE, RESULTS

FILE = RESULTS / "spark.json"
BEGIN, END = "<!-- results: written by `dev.py bench spark` -->", "<!-- end of Spark's results -->"


class Bar(NamedTuple):
    """What must be reached, and what was found; of some, less is better."""

    text: str
    wanted: float
    found: float
    unit: str = ""
    is_limit: bool = False

    @property
    def is_reached(self) -> bool:
        return self.found <= self.wanted if self.is_limit else self.found >= self.wanted


def save(part: str, found: Mapping[str, Any], bars: Sequence[Bar]) -> None:
    """Keep what a part found, print how it did, and leave other parts as they are."""
    for bar in bars:
        word = "reached" if bar.is_reached else "not reached"
        bound = "at most" if bar.is_limit else "at least"
        print(f"{bar.text:<60} {bar.found:>14,.2f} {bar.unit}, {bound} {bar.wanted:,g}: {word}", flush=True)
    results = json.loads(FILE.read_text()) if FILE.exists() else {}
    results[part] = {"machine": machine(), **found, "bars": [bar._asdict() for bar in bars]}
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
    """One row a bar, with the day and the machine it was measured on."""
    machines = {
        f"{found['machine']['date']} on {found['machine']['cpu'] or 'an unknown processor'},"
        f" {found['machine']['cores']} cores, {found['machine']['memory_gib']} GiB"
        for found in results.values()
    }
    yield f"Measured on {'; '.join(sorted(machines))}, with `local[2]`."
    yield ""
    yield "| bar | wanted | found | |"
    yield "|---|---:|---:|---|"
    for found in results.values():
        for each in found["bars"]:
            bar = Bar(**each)
            word = "reached" if bar.is_reached else "**not reached**"
            bound = "≤" if bar.is_limit else "≥"
            wanted, reached = f"{bound} {_amount(bar.wanted)} {bar.unit}", f"{_amount(bar.found)} {bar.unit}"
            yield f"| {bar.text} | {wanted} | {reached} | {word} |"


def _amount(number: float) -> str:
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"
