"""Who used the processors while something was measured: the bench with all it started, other programs, the host.

Where others had a large part, times say more about them than about what was measured.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_TICKS: Final = os.sysconf("SC_CLK_TCK")  # a second
_IDLE: Final = (3, 4)  # of the numbers of /proc/stat: idle, and waiting for a disk
_STOLEN: Final = 7


class Busy(NamedTuple):
    """Seconds of processors, since the machine was started, or of a time."""

    ours: float
    others: float
    stolen: float  # by the host, for other machines
    all: float  # that there were, idle or not

    @classmethod
    def now(cls) -> Busy:
        """Since the start. A child that ended long ago and was no child of a child that runs still is not ours."""
        times = [int(each) / _TICKS for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        used = sum(times) - sum(times[each] for each in _IDLE) - times[_STOLEN]
        ours = sum(_seconds_of(process) for process in _tree(os.getpid()))
        return cls(ours, used - ours, times[_STOLEN], sum(times))

    def since(self, before: Busy) -> Busy:
        return Busy(*(late - early for late, early in zip(self, before, strict=True)))

    def shares(self) -> dict[str, float]:
        """Of the machine, who had which part."""
        parts = {"ours": self.ours, "others": max(self.others, 0.0), "stolen": self.stolen}
        return {name: round(seconds / self.all, 3) for name, seconds in parts.items()}


def _tree(root: int) -> Iterator[list[str]]:
    """What /proc says of a process and of all below it, from the third number on."""
    children: dict[int, list[int]] = {}
    found: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        found[int(path.parent.name)] = words
        children.setdefault(int(words[1]), []).append(int(path.parent.name))
    waiting = [root]
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, ())
        if process in found:
            yield found[process]


def _seconds_of(words: list[str]) -> float:
    """Of a process, its threads, and the children that it has waited for."""
    return sum(map(int, words[11:15])) / _TICKS
