"""What `verify` can find, and the list it is collected in."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

MOST_OF_A_KIND = 1_000  # damages of one kind that are listed for one file; the rest is counted
MOST_HIDDEN = 1_000  # ranges of messages that one damage is told to hide


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


class Hidden(NamedTuple):
    """Messages that cannot be read, or not be found, for some damage: the offsets [begin, end) of a queue."""

    topic: str
    queue: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is not as it should be."""

    file: str  # relative to the store's directory, if it is in there
    position: int  # in the log; in files of queues and index the byte; 0 if it is about the whole file
    kind: DamageKind
    detail: str
    hides: tuple[Hidden, ...] = ()  # as far as it is known


class NumberedEntry(NamedTuple):
    """Which entry of its file a damage is in: those side by side are told of as one."""

    name: str
    number: int


class _Found:
    """A damage while more may become known of what it hides, and of entries behind it that are damaged, too."""

    __slots__ = ("_entry", "_hides", "_last", "damage")

    def __init__(self, damage: Damage, entry: NumberedEntry | None = None) -> None:
        self.damage = damage
        self._hides = list(damage.hides)
        self._entry = entry
        self._last = entry

    def take(self, entry: NumberedEntry, hides: Iterable[Hidden]) -> bool:
        """Be about `entry`, too, if it is the one behind the last; whether it is."""
        if self._last is None or entry != self._last._replace(number=self._last.number + 1):
            return False
        self._last = entry
        self.hide(hides)
        return True

    def hide(self, hides: Iterable[Hidden]) -> None:
        self._hides.extend(hides)
        if len(self._hides) > 4 * MOST_HIDDEN:
            self._hides[:] = join_hidden(self._hides)

    def finish(self) -> Damage:
        detail = self.damage.detail
        if self._entry is not None and self._last is not None and self._entry != self._last:
            detail = f"{self._entry.name} {self._entry.number} to {self._last.number} are wrong; {detail}"
        return replace(self.damage, detail=detail, hides=join_hidden(self._hides))


class DamageList:
    """The damage found so far, in a bounded number of lines."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._found: list[_Found] = []
        self._counts: Counter[tuple[str, DamageKind]] = Counter()
        self._runs: dict[tuple[str, DamageKind], _Found] = {}  # the last of a file that is about numbered entries
        self._rest: dict[tuple[str, DamageKind], _Found] = {}  # what is only counted
        self._covers: list[tuple[int, int, _Found]] = []  # positions of the log that are damaged, and by what

    def add(
        self,
        path: Path,
        position: int,
        kind: DamageKind,
        detail: str,
        *,
        hides: Iterable[Hidden] = (),
        covers: tuple[int, int] | None = None,
        entry: NumberedEntry | None = None,
    ) -> None:
        """Add a damage; `covers` are the positions of the log that cannot be read for it."""
        file = str(path.relative_to(self._root) if path.is_relative_to(self._root) else path)
        damage = Damage(file, position, kind, detail, tuple(hides))
        run = self._runs.get((file, kind))
        if entry is None:
            self.add_found(damage, covers)
        elif run is None or not run.take(entry, damage.hides):
            self._runs[file, kind] = self._add(_Found(damage, entry))

    def add_found(self, damage: Damage, covers: tuple[int, int] | None = None) -> None:
        """The same for what was found elsewhere."""
        found = self._add(_Found(damage))
        if covers is not None and found.damage is damage:
            self._covers.append((*covers, found))

    def _add(self, found: _Found) -> _Found:
        """Keep it, or what it hides if there are too many already; returns what is kept."""
        damage = found.damage
        place = damage.file, damage.kind
        self._counts[place] += 1
        if self._counts[place] <= MOST_OF_A_KIND:
            self._found.append(found)
            return found
        rest = self._rest.setdefault(place, _Found(Damage(damage.file, 0, damage.kind, "")))
        rest.hide(damage.hides)
        return rest

    def find_cover(self, position: int) -> int | None:
        """Where the damage begins that covers log `position`; None if none does."""
        return next((begin for begin, end, _ in self._covers if begin <= position < end), None)

    def hide(self, begin: int, hidden: Iterable[Hidden]) -> None:
        """The damage that covers the log from `begin` on hides these messages."""
        found = next((found for first, _, found in self._covers if first == begin), None)
        if found is not None:
            found.hide(hidden)

    @property
    def count(self) -> int:
        """How much was found."""
        return self._counts.total()

    def has(self, *kinds: DamageKind) -> bool:
        """Whether something of one of these kinds was found."""
        return any(kind in kinds for _, kind in self._counts)

    def iter_with_covers(self) -> Iterator[tuple[Damage, tuple[int, int] | None]]:
        """What was found so far, with what it covers, for another list."""
        covers = {id(found): (begin, end) for begin, end, found in self._covers}
        for found in self._found:
            yield found.finish(), covers.get(id(found))

    def items(self) -> list[Damage]:
        """Everything in the order in which it was found, and what was too much as one line for each file."""
        rest = [
            replace(found.finish(), detail=f"{self._counts[place] - MOST_OF_A_KIND} more of this kind in this file")
            for place, found in self._rest.items()
        ]
        return [found.finish() for found in self._found] + rest


def join_hidden(hidden: Iterable[Hidden]) -> tuple[Hidden, ...]:
    """The same messages in as few ranges as they make, by queue; not more than `MOST_HIDDEN`."""
    joined: list[Hidden] = []
    for each in sorted(set(hidden)):
        if joined and joined[-1][:2] == each[:2] and each.begin <= joined[-1].end:
            joined[-1] = joined[-1]._replace(end=max(joined[-1].end, each.end))
        else:
            joined.append(each)
    return tuple(joined[:MOST_HIDDEN])


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

    def items(self) -> list[tuple[int, int]]:
        """All ranges."""
        return list(zip(self._begins, self._ends, strict=True))

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
