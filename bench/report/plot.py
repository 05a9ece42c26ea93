"""A plot of rates as SVG: for every measure one bar per server, as long as its share of the fastest.

Rates of different measures differ by a hundred times, so each measure has its own scale, and each bar its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby

from bench.report.medians import Row

WIDTH, LABELS, NUMBERS = 860, 200, 110  # of the picture, and of the columns left and right of the bars
LINE, HEAD, MARGIN = 20, 30, 14
COLORS = {"ember": "#d9480f", "redis": "#5c7cfa", "nats": "#12b886", "rocketmq": "#868e96", "kafka": "#343a40"}
PLAIN = "#ffa94d"  # EmberMQ without its engine


def draw_rates(rows: Sequence[Row], measures: Mapping[str, str], peers: Mapping[str, str]) -> str:
    """The picture; `measures` and `peers` give the titles of names."""
    parts: list[str] = []
    y = MARGIN
    for measure, group in groupby(rows, key=lambda row: row["measure"]):
        chosen = list(group)
        parts.append(_text(MARGIN, y + 14, measures.get(measure, measure), weight="bold"))
        y += HEAD - 8
        fastest = max(row["rate"] for row in chosen) or 1.0
        for row in chosen:
            parts += _bar(
                y, peers.get(row["peer"], row["peer"]), row["rate"], row["rate"] / fastest, color(row["peer"])
            )
            y += LINE
        y += 8
    return _picture(parts, height=y + MARGIN)


def color(peer: str) -> str:
    return PLAIN if peer == "ember-plain" else COLORS.get(peer.partition("-")[0], "#adb5bd")


def _bar(y: int, title: str, rate: float, share: float, fill: str) -> list[str]:
    width = max(1.0, share * (WIDTH - LABELS - NUMBERS - MARGIN))
    return [
        _text(LABELS - 8, y + 13, title, anchor="end"),
        f'<rect x="{LABELS}" y="{y + 2}" width="{width:.1f}" height="{LINE - 6}" rx="2" fill="{fill}"/>',
        _text(LABELS + width + 6, y + 13, f"{rate:,.0f}/s"),
    ]


def _text(x: float, y: int, words: str, *, anchor: str = "start", weight: str = "normal") -> str:
    where = f'x="{x:.1f}" y="{y}" text-anchor="{anchor}"'
    return f'<text {where} font-weight="{weight}">{escape(words)}</text>'


def _picture(parts: Sequence[str], *, height: int) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    style = ' font-family="sans-serif" font-size="12" fill="#212529">'
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head + style, "<title>Messages a second</title>", ground, *parts, "</svg>", ""])
