"""Records that have their place in the log: all that queues and index need to know of them.

One record is a `Placed`. A batch that was just appended is a `Batch`: the same as columns, from which a
Placed is made only when somebody looks at it. Plain code makes a `PlacedBatch`, kernels make a RecordBatch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple, overload

from embermq.format.queue_entry import ENTRY
from embermq.format.record import DraftFields

if TYPE_CHECKING:
    from embermq.kernels.compiling import Table
    from embermq.log.queue_table import QueueTable


Place = tuple[str, int]  # topic and queue


class Placed(NamedTuple):
    """What the dispatcher hands on for one record.

    Most records take one offset of their queue; an inner batch takes `count` from
    `offset` on.
    """

    topic: str
    queue: int
    offset: int
    position: int
    size: int
    tags_code: int
    store_time: int
    sys_flag: int
    properties: bytes
    count: int = 1  # type: ignore[assignment]  # hides tuple.count, which nobody needs
    filter_bits: bytes = b""


class Run(NamedTuple):
    """Entries of one simple queue, from `offset` on without a gap."""

    topic: bytes
    queue: int
    offset: int
    entries: list[bytes]  # one or several in each


class Spread(NamedTuple):
    """The sizes of some records: the smallest, the largest, and all together."""

    smallest: int
    largest: int
    total: int


class Batch(Sequence[Placed]):
    """Records that follow each other, none of them divided: each has one entry in one simple queue, or none at all."""

    __slots__ = ()

    sizes: Sequence[int]
    store_time: int
    keys: Table | None = None  # what the index files, if that is known already

    @overload
    def __getitem__(self, index: int) -> Placed: ...
    @overload
    def __getitem__(self, index: slice) -> list[Placed]: ...
    def __getitem__(self, index: int | slice) -> Placed | list[Placed]:
        if isinstance(index, slice):
            return [self._make(each) for each in range(len(self))[index]]
        return self._make(range(len(self))[index])

    def enter(self, table: QueueTable, put_one: Callable[[Placed], None]) -> bool:
        """Write the entries of all records into their queues, if that can be done at once; else nothing, and False."""
        return False

    @abstractmethod
    def runs(self) -> Sequence[Run]:
        """The entries of all records by topic and queue, in the order of their first records."""

    def may_be_in(self, rows: Set[int]) -> bool:
        """Whether some of its records are in queues that have one of these rows in the table of queues, or may be."""
        return True

    def spread(self) -> Spread:
        """How large its records are."""
        return Spread(min(self.sizes), max(self.sizes), sum(self.sizes))

    @abstractmethod
    def queues_of(self, topic: bytes) -> set[int]:
        """The queues of `topic` that its records are in."""

    @abstractmethod
    def codes_by_queue(self, is_wanted: Callable[[Place], bool]) -> dict[Place, list[int]]:
        """The tags codes of the records of the queues that are wanted."""

    @abstractmethod
    def _make(self, index: int) -> Placed:
        """One of the records by itself."""


class PlacedBatch(Batch):
    """A batch of drafts."""

    __slots__ = ("_codes", "_drafts", "_offsets", "_positions", "sizes", "store_time")

    def __init__(
        self,
        drafts: Sequence[DraftFields],
        offsets: Sequence[int],
        positions: Sequence[int],
        sizes: Sequence[int],
        codes: Sequence[int],
        store_time: int,
    ) -> None:
        self.store_time = store_time
        self._drafts = drafts
        self._offsets = offsets
        self._positions = positions
        self.sizes = sizes
        self._codes = codes

    def __len__(self) -> int:
        return len(self._offsets)

    def runs(self) -> Sequence[Run]:
        runs: dict[tuple[bytes, int], Run] = {}
        topic: bytes | None = None
        of_queue: dict[int, list[bytes]] = {}  # the entries of the runs of `topic`
        entries = map(ENTRY.pack, self._positions, self.sizes, self._codes)
        for draft, offset, entry in zip(self._drafts, self._offsets, entries, strict=True):
            if draft[0] != topic:
                topic = draft[0]
                of_queue = {queue: run.entries for (name, queue), run in runs.items() if name == topic}
            queue = draft[1]
            if queue in of_queue:
                of_queue[queue].append(entry)
            else:
                of_queue[queue] = [entry]
                runs[topic, queue] = Run(topic, queue, offset, of_queue[queue])
        return [*runs.values()]

    def columns(self) -> tuple[Sequence[bytes], Sequence[bytes], Sequence[int]]:
        """The topics, properties and positions of all records."""
        return [draft[0] for draft in self._drafts], [draft[3] for draft in self._drafts], self._positions

    def queues_of(self, topic: bytes) -> set[int]:
        return {draft[1] for draft in self._drafts if draft[0] == topic}

    def codes_by_queue(self, is_wanted: Callable[[Place], bool]) -> dict[Place, list[int]]:
        found: dict[tuple[bytes, int], list[int]] = {}
        for draft, code in zip(self._drafts, self._codes, strict=True):
            found.setdefault((draft[0], draft[1]), []).append(code)
        by_place = {(topic.decode(), queue): codes for (topic, queue), codes in found.items()}
        return {place: codes for place, codes in by_place.items() if is_wanted(place)}

    def _make(self, index: int) -> Placed:
        name, queue, _, properties, _, sys_flag, *_ = self._drafts[index]
        offset, position, size = self._offsets[index], self._positions[index], self.sizes[index]
        return Placed(
            name.decode(), queue, offset, position, size, self._codes[index], self.store_time, sys_flag, properties
        )


def queues_of(items: Sequence[Placed], topic: str) -> set[int]:
    """The queues of `topic` that records among `items` are in."""
    if isinstance(items, Batch):
        return items.queues_of(topic.encode())
    return {item.queue for item in items if item.topic == topic}


def codes_by_queue(items: Sequence[Placed], is_wanted: Callable[[Place], bool]) -> dict[Place, list[int]]:
    """The tags codes of records, by those queues that are wanted: what somebody who waits for one needs to know."""
    if isinstance(items, Batch):
        return items.codes_by_queue(is_wanted)
    found: dict[Place, list[int]] = {}
    for item in items:
        if is_wanted((item.topic, item.queue)):
            found.setdefault((item.topic, item.queue), []).append(item.tags_code)
    return found
