"""Pictures of reports: PNG, or a page of HTML with the table below. Needs the extra `plot`."""

from __future__ import annotations

import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from embermq.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Row = Mapping[str, Any]

MOST_BARS: Final = 40
MOST_LETTERS: Final = 30  # of a label
_KEPT_LETTERS: Final = 8
_UNITS: Final = {"d": 86_400_000, "h": 3_600_000, "min": 60_000, "s": 1_000}
_LINE_WIDTH: Final = 10.0  # inches
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body{{font:14px system-ui,sans-serif;margin:2em}}table{{border-collapse:collapse}}
td,th{{border:1px solid #ccc;padding:.2em .6em;text-align:left}}svg{{max-width:100%;height:auto}}</style></head>
<body><h1>{title}</h1>
{picture}
<table><thead><tr>{heads}</tr></thead><tbody>
{rows}
</tbody></table></body></html>
"""


def check_picture(path: Path) -> None:
    """Raise SettingsError for a picture that cannot be made, before anything is computed."""
    if path.suffix.lower() not in (".png", ".html"):
        raise SettingsError(f"{path} is neither .png nor .html; a picture is one of these")
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise SettingsError(f"no picture can be made at {path}; name a file in a folder that is there")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise SettingsError(f"--plot needs matplotlib ({error}); pip install 'embermq[plot]'") from error


def plot_bars(path: Path, title: str, rows: Sequence[Row], labels: Sequence[str], value: str) -> None:
    """Draw a bar for each of the first rows, the first at the top."""
    shown = rows[:MOST_BARS]
    texts = [" ".join(_short(str(row[label])) for label in labels if row[label] is not None) for row in shown]

    def draw(axes: Axes) -> None:
        places = range(len(shown))
        axes.barh(places, [float(row[value] or 0) for row in shown], color="#c8501e")
        axes.set_yticks(places, texts)
        axes.invert_yaxis()
        if "Ms" in value:
            axes.xaxis.set_major_formatter(lambda number, _: format_duration(number))

    _save(path, title, draw, rows, height=1.5 + 0.25 * len(shown))


def plot_lines(path: Path, title: str, rows: Sequence[Row], *, at: str, labels: Sequence[str], value: str) -> None:
    """Draw a line over time for every combination of labels."""
    lines: dict[str, list[Row]] = {}
    for row in rows:
        lines.setdefault(" ".join(str(row[label]) for label in labels), []).append(row)

    def draw(axes: Axes) -> None:
        for name, points in sorted(lines.items()):
            axes.plot([row[at] for row in points], [float(row[value] or 0) for row in points], marker="o", label=name)
        axes.legend()
        axes.set_ylim(bottom=0)
        axes.tick_params(axis="x", rotation=30)

    _save(path, title, draw, rows, height=5.0)


def _short(text: str) -> str:
    """A long text without its middle: unique keys differ at their ends."""
    return text if len(text) <= MOST_LETTERS else f"{text[:_KEPT_LETTERS]}…{text[-2 * _KEPT_LETTERS :]}"


def format_duration(milliseconds: float) -> str:
    """`250 ms`, `1.5 s`, `20 min`, `3 h`, `2.5 d`: what stands at the axis of a picture."""
    for unit, size in _UNITS.items():
        if abs(milliseconds) >= size:
            return f"{milliseconds / size:.4g} {unit}"
    return f"{milliseconds:.4g} ms"


def _save(path: Path, title: str, draw: Any, rows: Sequence[Row], *, height: float) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_LINE_WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.grid(visible=True, alpha=0.3)
    if rows:
        draw(axes)
    else:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "nothing to report", ha="center", va="center", transform=axes.transAxes)
    if path.suffix.lower() == ".png":
        figure.savefig(path, format="png", dpi=110)
        return
    picture = io.StringIO()
    figure.savefig(picture, format="svg")
    path.write_text(_page(title, picture.getvalue(), rows), encoding="utf-8")


def _page(title: str, svg: str, rows: Sequence[Row]) -> str:
    heads = "".join(f"<th>{html.escape(name)}</th>" for name in (rows[0] if rows else ()))
    lines = "\n".join(
        "<tr>"
        + "".join(f"<td>{html.escape('' if cell is None else str(cell))}</td>" for cell in row.values())
        + "</tr>"
        for row in rows
    )
    return _PAGE.format(title=html.escape(title), picture=svg[svg.index("<svg") :], heads=heads, rows=lines)
