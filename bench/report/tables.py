"""Results as text: for a terminal in columns, for a page in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bench.report.bars import Outcome
from bench.report.medians import Row, find_ratio

GENERATOR_BOUND = 0.95  # the share of its core from which on the generator, and not the server, limits the rate
HEADS = ("msgs/s", "p50 µs", "p99 µs", "CPU µs/msg", "CPU", "MiB", "errors")


def cells(row: Row) -> list[str]:
    """The numbers of a row, as HEADS names them; a rate that the generator limited has a mark."""
    mark = "*" if row["generator_share"] > GENERATOR_BOUND else ""
    numbers = [f"{row['rate']:,.0f}{mark}", f"{row['p50_us']:,.0f}", f"{row['p99_us']:,.0f}", f"{row['cpu_us']:.2f}"]
    return [*numbers, f"{row['cpu_share']:.0%}", f"{row['resident_mib']:,.0f}", str(row["errors"])]


def text_rows(rows: Sequence[Row]) -> Iterable[str]:
    yield f"{'measure':<12}{'server':<16}" + "".join(f"{head:>12}" for head in HEADS)
    for row in rows:
        yield f"{row['measure']:<12}{row['peer']:<16}" + "".join(f"{cell:>12}" for cell in cells(row))
    if any(row["generator_share"] > GENERATOR_BOUND for row in rows):
        yield "* the load generator had no more: the server may be faster"


def text_ratios(rows: Sequence[Row]) -> Iterable[str]:
    """Ours to each other server: messages a second, and messages per second of CPU time."""
    ours = list(dict.fromkeys(row["peer"] for row in rows if row["peer"].startswith("ember")))
    others = [(row["measure"], row["peer"]) for row in rows if row["peer"] not in ours]
    if not ours or not others:
        return
    yield f"{'measure':<12}{'compared with':<16}" + "".join(f"{name:>14}{'per CPU':>10}" for name in ours)
    for measure, other in others:
        found = [find_ratio(rows, (measure, name), (measure, other)) for name in ours]
        pairs = [(amount(ratio.rate, "×"), amount(ratio.cpu, "×")) if ratio else ("–", "–") for ratio in found]
        yield f"{measure:<12}{other:<16}" + "".join(f"{rate:>14}{cpu:>10}" for rate, cpu in pairs)


def text_bars(found: Sequence[Outcome]) -> Iterable[str]:
    width = max(len(outcome.text) for outcome in found) + 2
    yield f"{'bar':<{width}}{'at least':>10}{'found':>10}{'per CPU':>10}  "
    for outcome in found:
        cpu = amount(outcome.cpu, outcome.unit) if outcome.cpu is not None else ""
        numbers = f"{amount(outcome.wanted, outcome.unit):>10}{amount(outcome.found, outcome.unit):>10}{cpu:>10}"
        yield f"{outcome.text:<{width}}{numbers}  {outcome.word}"


def markdown_rows(rows: Sequence[Row], measures: Mapping[str, str], peers: Mapping[str, str]) -> Iterable[str]:
    """One table; a measure is named in its first row."""
    yield "| | server | " + " | ".join(HEADS) + " |"
    yield "|---|---|" + "---:|" * len(HEADS)
    before = None
    for row in rows:
        title = measures.get(row["measure"], row["measure"]) if row["measure"] != before else ""
        yield f"| {title} | {peers.get(row['peer'], row['peer'])} | " + " | ".join(cells(row)) + " |"
        before = row["measure"]
    if any(row["generator_share"] > GENERATOR_BOUND for row in rows):
        yield ""
        yield r"\* The load generator had no more to give: the server may be faster, as its CPU time per message tells."


def markdown_bars(found: Sequence[Outcome]) -> Iterable[str]:
    yield "| bar | at least | found | per CPU second | |"
    yield "|---|---:|---:|---:|---|"
    for outcome in found:
        cpu = amount(outcome.cpu, outcome.unit) if outcome.cpu is not None else ""
        word = f"**{outcome.word}**" if outcome.word != "reached" else outcome.word
        numbers = f"{amount(outcome.wanted, outcome.unit)} | {amount(outcome.found, outcome.unit)} | {cpu}"
        yield f"| {outcome.text} | {numbers} | {word} |"


def amount(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return f"{value:.0%}" if unit == "share" else f"{value:.2f} {unit}"
