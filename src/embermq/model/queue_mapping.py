"""Static topics: queues whose numbers and offsets stay the same while brokers come and go.

A queue of a static topic is made of parts, one after the other. Each part is an ordinary queue of some broker:

    static offsets     0 ──────── 120            1000 ─────────────→
    parts              broker-a, queue 3         broker-b, queue 0
    their own          0 ──────── 120            0 ─────────────────→

The broker of the last part leads the queue: it takes its messages, and answers for all of its parts. Between two
parts there may be offsets without messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from embermq.errors import IllegalField

EVERYWHERE: Final = "__global__"
UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class QueuePart:
    """A part of a static queue."""

    broker: str
    queue: int
    generation: int = 0
    static_begin: int = 0  # the static offset of its first message; UNKNOWN until the part before it has ended
    begin: int = 0  # the same in the queue itself
    end: int = UNKNOWN  # behind its last message; UNKNOWN while it is written to
    begin_time: int = UNKNOWN
    end_time: int = UNKNOWN

    @property
    def has_begun(self) -> bool:
        """Whether its static offsets are known."""
        return self.static_begin >= 0

    @property
    def has_ended(self) -> bool:
        return self.end > self.begin

    @property
    def static_end(self) -> int:
        """Behind its last message, of a part that has ended; where it begins, of any other."""
        return self.static_begin + max(self.end - self.begin, 0)

    def static_of(self, offset: int) -> int:
        """The static offset of an offset of the queue."""
        return self.static_begin + max(offset - self.begin, 0)

    def own_of(self, static_offset: int) -> int:
        """The offset in the queue of a static offset."""
        return static_offset - self.static_begin + self.begin


@dataclass(frozen=True, slots=True)
class QueueMapping:
    """What one broker knows of a static topic: the parts of the queues that it leads, or once led."""

    topic: str
    broker: str
    epoch: int
    total_queues: int  # of the topic, at all brokers
    parts: Mapping[int, tuple[QueuePart, ...]] = field(default_factory=dict)  # by the number of the static queue
    scope: str = EVERYWHERE
    is_dirty: bool = False

    def leads(self, queue: int) -> bool:
        """Whether this broker takes the messages of a static queue."""
        parts = self.parts.get(queue)
        return parts is not None and parts[-1].broker == self.broker

    def led(self) -> dict[int, int]:
        """The static queues that this broker leads, and its own queues for them."""
        return {queue: parts[-1].queue for queue, parts in self.parts.items() if self.leads(queue)}


def find_part(parts: Sequence[QueuePart], static_offset: int) -> QueuePart:
    """The part that has a static offset, or would have: the last one that begins at or before it."""
    begun = [part for part in parts if part.has_begun] or list(parts)
    return next((part for part in reversed(begun) if part.static_begin <= static_offset), begun[0])


def part_after(parts: Sequence[QueuePart], part: QueuePart) -> QueuePart | None:
    """The next part of a queue, if its static offsets are known."""
    return next((later for earlier, later in pairwise(parts) if earlier == part and later.has_begun), None)


def renewed(current: QueueMapping | None, wanted: QueueMapping, *, force: bool) -> QueueMapping:
    """What `current` becomes when somebody sets `wanted`: queues that it does not name stay. Raises IllegalField."""
    for queue, parts in wanted.parts.items():
        _check_parts(queue, parts)
    if current is None:
        return wanted
    if not force:
        _check_change(current, wanted)
    return replace(wanted, parts={**current.parts, **wanted.parts})


def _check_parts(queue: int, parts: Sequence[QueuePart]) -> None:
    """Raises IllegalField unless parts follow each other in time and in offsets."""
    if queue < 0 or not parts:
        raise IllegalField("hostedQueues", f"static queue {queue} has {len(parts)} parts; it needs one at least")
    for part in parts:
        if min(part.generation, part.queue, part.begin) < 0 or (part.end != UNKNOWN and part.end < part.begin):
            raise IllegalField("hostedQueues", f"static queue {queue}: a number out of its range in {part}")
    for earlier, later in pairwise(parts):
        if earlier.generation >= later.generation or not earlier.has_begun:
            raise IllegalField("hostedQueues", f"static queue {queue}: {later} cannot follow {earlier}")
        if later.has_begun and earlier.static_end >= later.static_begin:
            raise IllegalField("hostedQueues", f"static queue {queue}: {later} begins before the end of {earlier}")


def _check_change(current: QueueMapping, wanted: QueueMapping) -> None:
    """Raises IllegalField if `wanted` is older than what is there, or changes what was promised."""
    if wanted.epoch < current.epoch:
        raise IllegalField("epoch", f"{wanted.epoch} is older than {current.epoch}, which is known already")
    if wanted.scope != current.scope:
        raise IllegalField("scope", f"{wanted.scope[:80]!r}; topic {current.topic!r} has {current.scope!r}")
    for queue, before in current.parts.items():
        after = wanted.parts.get(queue)
        if after is None:
            if wanted.epoch == current.epoch:
                raise IllegalField("hostedQueues", f"static queue {queue} is missing, and the epoch is the same")
            continue
        _check_kept(queue, before, after)
        if wanted.epoch == current.epoch and _place(before[-1]) != _place(after[-1]):
            raise IllegalField("hostedQueues", f"static queue {queue} has another leader, and the epoch is the same")


def _check_kept(queue: int, before: Sequence[QueuePart], after: Sequence[QueuePart]) -> None:
    """Raises IllegalField if a part that is in both lies elsewhere, or begins elsewhere."""
    later = {part.generation: part for part in after}
    for part in before:
        found = later.get(part.generation, part)
        is_moved = part.has_begun and found.static_begin != part.static_begin
        if _place(found) != _place(part) or is_moved:
            raise IllegalField("hostedQueues", f"static queue {queue}: {part} cannot become {found}")


def _place(part: QueuePart) -> tuple[int, str, int, int]:
    return part.generation, part.broker, part.queue, part.begin
