"""What every way to read a split needs: the store, an engine, who selects, and who is told of damage.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TypeAlias

from embermq.errors import CorruptRecord, DamagedRecord, DataLoss
from embermq.scan.engine import Engine, Looked, Numbers
from embermq.scan.file_walk import FileWalk
from embermq.scan.matching import Matcher
from embermq.scan.selecting import Selector
from embermq.scan.splits import LogFile, PullSplit, QueuePart, QueueSplit, Split
from embermq.scan.store_files import StoreFiles
from embermq.scan.tally import Tally
from embermq.scan.wanted import Wanted

MakeEngine: TypeAlias = Callable[[Callable[[str], bool]], Engine]


class SplitContext:
    """One split, being read."""

    def __init__(self, split: Split, wanted: Wanted, tally: Tally, make_engine: MakeEngine) -> None:
        self.place = split.place
        self.files = split.files
        self.log_end = split.log_end
        self._wanted = wanted
        self._tally = tally
        matcher = Matcher(wanted, through_queues=isinstance(split, QueueSplit | PullSplit))
        self.engine = make_engine(matcher.accepts_topic)
        self.selector = Selector(wanted, self.engine, matcher, self.add_damage)

    @cached_property
    def store(self) -> StoreFiles:
        """The files, for those who read them."""
        return StoreFiles(self.place)

    def look(self, data: memoryview, position: int, *, stop: int = -1, places: Numbers | None = None) -> Looked:
        """What the engine finds; see Engine.find."""
        selector = self.selector
        return self.engine.find(
            data, position, stop=stop, places=places, times=selector.times, check_body=selector.checks_body,
            with_rest=selector.with_rest,
        )  # fmt: skip

    def next_record(self, walk: FileWalk) -> memoryview | None:
        """The record that a walk is at; None if it is damaged, or the file is closed there. The walk goes on."""
        position = walk.position
        reason = "no record where the log goes on"
        try:
            record = walk.next(check_body=False)
            if record is not None or walk.is_closed:
                return record
        except CorruptRecord as error:
            reason = error.reason
        self.add_damage(position, reason)
        walk.skip_damage()
        return None

    def add_damage(self, position: int, reason: str) -> None:
        """Count a damaged record. Raises DamagedRecord unless it may be skipped."""
        file = next((file for file in self.files if file.start <= position < file.end), None)
        path = self.store.name_of(file.path) if file else self.place.name
        damage = DamagedRecord(path, position=position, reason=reason)
        self._tally.add_damage(damage, skip=self._wanted.skip_damaged)

    def add_gone(self, file: LogFile, begin: int, end: int) -> None:
        """Count what lay at log positions [begin, end) of a file that is gone. Raises DataLoss unless it may be."""
        loss = DataLoss(self.place.name, what=f"log positions [{begin}, {end})", reason=self.reason_of_gone(file))
        self._tally.add_loss(loss, 1, fail=self._wanted.fail_on_loss)

    def reason_of_gone(self, file: LogFile) -> str:
        """Why nothing can be read of a file that was there when the split was planned."""
        name = self.store.name_of(file.path)
        return f"{name} was deleted after this read was planned, as retention does; what is there now, a new one reads"

    def add_loss(self, part: QueuePart, count: int, reason: str) -> None:
        """Count messages that are gone. Raises DataLoss unless they may be."""
        place = f"{self.place.name}, topic {part.topic!r}, queue {part.queue}"
        loss = DataLoss(place, what=f"{count} of the offsets [{part.begin}, {part.end})", reason=reason)
        self._tally.add_loss(loss, count, fail=self._wanted.fail_on_loss)
