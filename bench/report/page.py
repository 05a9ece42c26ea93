"""docs/performance.md: what lies between its two marks is written from the results, and the plot beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from bench.loadgen.measures import MEASURES
from bench.report.bars import outcomes
from bench.report.plot import draw_rates
from bench.report.tables import markdown_bars, markdown_rows
from bench.servers.peers import PEERS
from bench.servers.server import ROOT

RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "performance.md"
PLOT = PAGE.with_suffix(".svg")
BEGIN, END = "<!-- results: written by `dev.py bench peers` -->", "<!-- end of results -->"
MEASURE_TITLES = {measure.name: measure.title for measure in MEASURES.values()}
PEER_TITLES = {peer.name: peer.title for peer in PEERS.values()}


def write_page() -> None:
    """Write page and plot from what is in bench/results; FileNotFoundError if `peers` never ran as a whole."""
    peers = json.loads((RESULTS / "peers.json").read_text())
    text = "\n".join(results_text(peers, read_results("append"), read_results("growth")))
    PAGE.write_text(replace_results(PAGE.read_text(), text))
    PLOT.write_text(draw_rates(peers["medians"], MEASURE_TITLES, PEER_TITLES))


def read_results(name: str) -> dict[str, Any]:
    """The results of another bench; empty if it never ran."""
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def replace_results(page: str, text: str) -> str:
    """The page with `text` between its marks. Raises ValueError if they are not there, once each and in order."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in after:
        raise ValueError(f"the page has no place for results: {BEGIN} and then {END}, once each")
    return f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{after}"


def results_text(peers: Mapping[str, Any], append: Mapping[str, Any], growth: Mapping[str, Any]) -> Iterable[str]:
    """The results in Markdown, with the machine, the date and the versions."""
    rows = peers["medians"]
    yield machine_sentence(peers)
    yield ""
    yield "![Messages a second by measure and server](performance.svg)"
    yield ""
    yield from markdown_rows(rows, MEASURE_TITLES, PEER_TITLES)
    yield ""
    if peers["verified"]:
        yield (
            f"Every message that EmberMQ acknowledged was looked for: {peers['verified']:,} in all runs, each stored"
            " once, each sound by `ember store verify`."
        )
        yield ""
    for peer, reason in peers["failures"].items():
        yield f"{PEER_TITLES.get(peer, peer)} was left out: {reason.splitlines()[0]}"
        yield ""
    yield "What was asked of it:"
    yield ""
    yield from markdown_bars(outcomes(rows, append, growth))
    if growth.get("rows"):
        yield ""
        yield from growth_table(growth)


def growth_table(growth: Mapping[str, Any]) -> Iterable[str]:
    yield "| grown to | msgs/s | of the first |"
    yield "|---|---:|---:|"
    for row in growth["rows"]:
        yield f"| {row['title']} | {row['rate']:,.0f} | {row['ratio']:.0%} |"


def machine_sentence(peers: Mapping[str, Any]) -> str:
    machine = peers["machine"]
    where = f"{machine['cpu'] or 'an unknown processor'}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    versions = ", ".join(dict.fromkeys(peers["versions"].values()))
    return (
        f"Measured on {machine['date']} on {where}, Linux {machine['kernel']}, Python {machine['python']};"
        f" load at its end {machine['load']:.1f}. {versions}."
        f" Medians of {peers['rounds']} rounds of {peers['seconds']:g} s each."
    )
