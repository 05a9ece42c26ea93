"""Medians of samples, and ratios between servers: what a bench concludes from."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NUMBERS = ("rate", "p50_us", "p99_us", "cpu_us", "cpu_share", "generator_share", "resident_mib", "anonymous_mib")
Row = dict[str, Any]


@dataclass(frozen=True)
class Ratio:
    """How many times the messages a second, and the messages per second of CPU time, the first has."""

    rate: float
    cpu: float


def medians(samples: Sequence[Mapping[str, Any]]) -> list[Row]:
    """One row per measure and server, in the order in which they came; errors are added up."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for sample in samples:
        groups.setdefault((sample["measure"], sample["peer"]), []).append(sample)
    return [
        {
            "measure": measure,
            "peer": peer,
            "samples": len(group),
            **{name: statistics.median(sample[name] for sample in group) for name in NUMBERS},
            "errors": sum(sample["errors"] for sample in group),
        }
        for (measure, peer), group in groups.items()
    ]


def find_row(rows: Sequence[Row], measure: str, peer: str) -> Row | None:
    return next((row for row in rows if row["measure"] == measure and row["peer"] == peer), None)


def find_ratio(rows: Sequence[Row], ours: tuple[str, str], theirs: tuple[str, str]) -> Ratio | None:
    """The ratio of two rows, each named by measure and server; None if one was not measured."""
    one, other = find_row(rows, *ours), find_row(rows, *theirs)
    if one is None or other is None or not other["rate"] or not one["cpu_us"]:
        return None
    return Ratio(one["rate"] / other["rate"], other["cpu_us"] / one["cpu_us"])
