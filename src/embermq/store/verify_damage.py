"""What `verify` can find, and the list it is collected in."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

MOST_OF_A_KIND = 1_000  # damages of one kind that are listed for one file; the rest is counted


class DamageKind(StrEnum):
    """All kinds of damage there are."""

    FILE = "file"  # a name that no store gives, a wrong size, a gap between two files, or it cannot be read
    RECORD = "record"  # bytes of the log that are no record, or a record that a checksum does not fit
    HOLE = "hole"  # zeros in the log, with records behind them
    TAIL = "tail"  # bytes behind the log's end
    QUEUE = "queue"  # a queue entry that does not lead to its record, or is missing before others
    ORPHAN = "orphan"  # records that their queue does not reach
    INDEX = "index"  # header, slot or entry of an index file
    UNINDEXED = "unindexed"  # records that the index does not know by their keys
    CHECKPOINT = "checkpoint"  # it promises more than the log holds


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is not as it should be."""

    file: str  # relative to the store's directory, if it is in there
    position: int  # in the log; in files of queues and index the byte; 0 if it is about the whole file
    kind: DamageKind
    detail: str


class DamageList:
    """The damage found so far, in a bounded number of lines."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._found: list[Damage] = []
        self._counts: Counter[tuple[str, DamageKind]] = Counter()

    def add(self, path: Path, position: int, kind: DamageKind, detail: str) -> None:
        file = str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)
        self._counts[file, kind] += 1
        if self._counts[file, kind] <= MOST_OF_A_KIND:
            self._found.append(Damage(file, position, kind, detail))

    def has(self, *kinds: DamageKind) -> bool:
        """Whether something of one of these kinds was found."""
        return any(kind in kinds for _, kind in self._counts)

    def items(self) -> list[Damage]:
        """Everything in the order in which it was found, and what was too much as one line for each file."""
        rest = [
            Damage(file, 0, kind, f"{count - MOST_OF_A_KIND} more of this kind in this file")
            for (file, kind), count in self._counts.items()
            if count > MOST_OF_A_KIND
        ]
        return self._found + rest


class Ranges:
    """Numbers as half-open ranges; added mostly in rising order."""

    def __init__(self) -> None:
        self._begins = array("q")
        self._ends = array("q")

    def add(self, begin: int, end: int) -> None:
        begins, ends = self._begins, self._ends
        if not ends or begin > ends[-1]:
            begins.append(begin)
            ends.append(end)
        elif begin == ends[-1]:
            ends[-1] = end
        else:
            self._merge(begin, end)

    def holds(self, number: int) -> bool:
        index = bisect_right(self._begins, number) - 1
        return index >= 0 and number < self._ends[index]

    def iter_gaps(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of [begin, end) that were not added."""
        for known_begin, known_end in zip(self._begins, self._ends, strict=True):
            if known_begin >= end:
                break
            if known_begin > begin:
                yield begin, known_begin
            begin = max(begin, known_end)
        if begin < end:
            yield begin, end

    def _merge(self, begin: int, end: int) -> None:
        first = bisect_right(self._begins, begin)
        if first and self._ends[first - 1] >= begin:
            first -= 1
            begin = self._begins[first]
        last = first
        while last < len(self._begins) and self._begins[last] <= end:
            end = max(end, self._ends[last])
            last += 1
        self._begins[first:last] = array("q", [begin])
        self._ends[first:last] = array("q", [end])
