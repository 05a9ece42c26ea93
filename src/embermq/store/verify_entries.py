"""The entries of one queue, as `verify` compares them with records.

An entry is *confirmed* when a record was found that it fits in every field. Entries are
numbered from the beginning of the queue: in a simple queue the number is the offset.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from embermq.errors import CorruptRecord
from embermq.format.batch_entry import BATCH_ENTRY, BatchEntry
from embermq.format.extended_entry import decode_extended_entry
from embermq.format.queue_entry import ENTRY, QueueEntry, is_address, real_of
from embermq.log.placed import Placed
from embermq.model.topic import SCHEDULE_TOPIC
from embermq.store.verify_damage import Hidden, Ranges
from embermq.store.verify_files import Segment, Views, find_nonzero, find_used

NO_INDEX: Final = -1
_END_OF_OFFSETS: Final = 1 << 62

Unmatched = list[tuple[int, int]]  # the number an entry has or should have, and the position of its record


class EntriesState(NamedTuple):
    """What is known of a queue after some records were looked up."""

    confirmed: list[tuple[int, int]]
    first: tuple[int, int] | None


E = TypeVar("E", QueueEntry, BatchEntry)


class Entries(Generic[E]):
    """What both kinds of queue have in common."""

    layout: struct.Struct
    make: Callable[[Iterable[Any]], E]
    word = "entry"
    has_gaps = False  # between offsets

    def __init__(
        self, folder: Path | None, topic: str, queue: int, segments: Sequence[Segment], file_size: int, views: Views
    ) -> None:
        self.topic = topic
        self.queue = queue
        self.has_folder = folder is not None
        self.confirmed = Ranges()
        self._folder = folder
        self._segments = segments
        self._starts = [segment.start for segment in segments]
        self._file_size = file_size
        self._views = views
        self._first: tuple[int, int] | None = None  # position and offset of the first record with an entry

    @property
    def begin(self) -> int:
        """The first number that has a place."""
        return self._starts[0] // self.layout.size if self._starts else 0

    @property
    def used(self) -> int:
        """The number behind the last entry that is not zero."""
        for segment in reversed(self._segments):
            end = find_used(self._views.of(segment.path), segment.path, 0)
            if end:
                return (segment.start + end - 1) // self.layout.size + 1
        return self.begin

    @property
    def next_offset(self) -> int:
        """The offset that the next message would get."""
        raise NotImplementedError

    def match(self, items: Sequence[Placed]) -> Unmatched:
        """Confirm the entries of these records; returns those that do not fit."""
        raise NotImplementedError

    def window_at(self, index: int) -> tuple[memoryview, int]:
        """The entries of a simple queue that are in one file with this one, and the number of the first; or none."""
        return memoryview(b""), 0

    def hidden(self, first: int, last: int) -> list[Hidden]:
        """The messages of the entries with these numbers and all between, as far as it is known which they are."""
        raise NotImplementedError

    def is_below(self, item: Placed) -> bool:
        """Whether the queue begins behind the offset of `item`."""
        raise NotImplementedError

    def find_difference(self, index: int, item: Placed) -> str | None:
        """How the entry differs from its record; None if there is no entry."""
        raise NotImplementedError

    def find_gap(self, item: Placed) -> int:
        """The number of an entry that is missing where that of `item` should be; NO_INDEX if none is."""
        return NO_INDEX

    @property
    def first_record(self) -> int:
        """The first number whose entry stands for a record; those before are there to fill the file."""
        return self.begin

    def is_of_former_life(self, item: Placed) -> bool:
        """Whether a record is older than the queue: of a topic that was deleted and made again."""
        if self._first is None:
            return False
        position, offset = self._first
        return item.position < position and item.offset >= offset

    def read(self, index: int) -> E | None:
        """The entry with this number, whatever it holds; None if it has no place in a file."""
        found = self._locate(index)
        if found is None:
            return None
        segment, at = found
        try:
            return self.make(self.layout.unpack_from(self._views.of(segment.path), at))
        except struct.error:
            return None

    def place_of(self, index: int) -> tuple[Path, int]:
        """The file of an entry, and the byte in it where the entry begins."""
        found = self._locate(index)
        if found is None:
            return self._folder or Path(), 0
        return found[0].path, found[1]

    def name_of(self, index: int) -> str:
        return f"{self.topic}/{self.queue} {self.word} {index}"

    def iter_unconfirmed(self) -> Iterator[int]:
        """The numbers of entries that no record was found for, up to the last that is used."""
        for begin, end in self.confirmed.iter_gaps(self.first_record, self.used):
            yield from range(begin, end)

    def state(self) -> EntriesState:
        """What was confirmed so far, for another object of the same queue."""
        return EntriesState(self.confirmed.items(), self._first)

    def absorb(self, state: EntriesState) -> None:
        """Go on with what another object confirmed, of records behind those that this one has looked up."""
        for begin, end in state.confirmed:
            self.confirmed.add(begin, end)
        if self._first is None:
            self._first = state.first

    def _locate(self, index: int) -> tuple[Segment, int] | None:
        place = index * self.layout.size
        number = bisect_right(self._starts, place) - 1
        if number < 0 or index < 0:
            return None
        segment = self._segments[number]
        at = place - segment.start
        return (segment, at) if at < self._file_size else None

    def confirm(self, begin: int, end: int, *, position: int, offset: int) -> None:
        """The entries [begin, end) fit; position and offset are those of the first one's record."""
        self.confirmed.add(begin, end)
        if self._first is None or position < self._first[0]:
            self._first = position, offset


class SimpleEntries(Entries[QueueEntry]):
    """A queue with one entry for each offset."""

    layout = ENTRY
    make = QueueEntry._make
    word = "offset"

    def __init__(
        self,
        folder: Path | None,
        topic: str,
        queue: int,
        segments: Sequence[Segment],
        file_size: int,
        views: Views,
        *,
        extended: Sequence[Segment] = (),
    ) -> None:
        super().__init__(folder, topic, queue, segments, file_size, views)
        self._extended = extended
        self._extended_starts = [segment.start for segment in extended]

    @classmethod
    def missing(cls, topic: str, queue: int, views: Views) -> Self:
        """A queue that has no directory."""
        return cls(None, topic, queue, [], 0, views)

    @property
    def next_offset(self) -> int:
        return self.used

    def match(self, items: Sequence[Placed]) -> Unmatched:
        if self._match_all(items):
            return []
        unmatched = []
        for item in items:
            index = item.offset if 0 <= item.offset < _END_OF_OFFSETS else NO_INDEX
            entry = self.read(index)
            if entry is not None and entry[:2] == (item.position, item.size) and self._fits(entry.tags_code, item):
                self.confirm(index, index + 1, position=item.position, offset=item.offset)
            else:
                unmatched.append((index, item.position))
        return unmatched

    def hidden(self, first: int, last: int) -> list[Hidden]:
        return [Hidden(self.topic, self.queue, first, last + 1)]

    def is_below(self, item: Placed) -> bool:
        return self.has_folder and item.offset < self.first_record

    def find_difference(self, index: int, item: Placed) -> str | None:
        entry = self.read(index)
        if entry is None or not entry.is_valid or entry.is_blank:
            return None
        if entry.position != item.position:
            return f"leads to position {entry.position}, its record begins at {item.position}"
        if entry.size != item.size:
            return f"says {entry.size} bytes, its record at {item.position} has {item.size}"
        if is_address(entry.tags_code):
            return f"has no extended entry that fits its record at {item.position}"
        return f"has the tags code {entry.tags_code}, its record at {item.position} calls for {item.tags_code}"

    @cached_property
    def first_record(self) -> int:
        index = self.begin
        while (entry := self.read(index)) is not None and entry.is_blank:
            index += 1
        return index

    def _match_all(self, items: Sequence[Placed]) -> bool:
        """Confirm all at once, if their entries lie side by side and fit to the byte."""
        first, last = items[0].offset, items[-1].offset
        if last - first != len(items) - 1 or [item.offset for item in items] != list(range(first, last + 1)):
            return False
        if not 0 <= first < _END_OF_OFFSETS:
            return False
        found = self._locate(first)
        if found is None or self._locate(last) is None:
            return False
        segment, at = found
        pack = ENTRY.pack
        entries = b"".join([pack(item.position, item.size, item.tags_code) for item in items])
        if bytes(self._views.of(segment.path)[at : at + len(entries)]) != entries:
            return False
        self.confirm(first, last + 1, position=items[0].position, offset=first)
        return True

    def window_at(self, index: int) -> tuple[memoryview, int]:
        found = self._locate(index)
        if found is None:
            return super().window_at(index)
        segment, at = found
        following = bisect_right(self._starts, segment.start)
        end = min([self._file_size, *(start - segment.start for start in self._starts[following : following + 1])])
        view = self._views.of(segment.path)[:end]
        if segment.start % ENTRY.size or len(view) < at + ENTRY.size:
            return super().window_at(index)
        return view, segment.start // ENTRY.size

    def _fits(self, code: int, item: Placed) -> bool:
        if code == item.tags_code:
            return True
        if is_address(code):
            return self._fits_extended(real_of(code), item)
        # The levels are settings of the broker that wrote it; they are counted in seconds.
        delay = code - item.store_time
        return item.topic == SCHEDULE_TOPIC and delay > 0 and delay % 1000 == 0

    def _fits_extended(self, place: int, item: Placed) -> bool:
        number = bisect_right(self._extended_starts, place) - 1
        if number < 0:
            return False
        segment = self._extended[number]
        try:
            found = decode_extended_entry(self._views.of(segment.path), place - segment.start)
        except CorruptRecord:
            return False
        return found is not None and found.tags_code == item.tags_code and found.store_time == item.store_time


class BatchEntries(Entries[BatchEntry]):
    """A queue with one entry for each record, which may hold many messages."""

    layout = BATCH_ENTRY
    make = BatchEntry._make

    def __init__(
        self, folder: Path, topic: str, queue: int, segments: Sequence[Segment], file_size: int, views: Views,
        *, log_begin: int,
    ) -> None:  # fmt: skip
        super().__init__(folder, topic, queue, segments, file_size, views)
        self._next = self._search(log_begin)  # where the entry of the next record should be

    @property
    def next_offset(self) -> int:
        last = self.read(self.used - 1)
        return last.base_offset + last.count if last is not None and last.is_valid else 0

    def match(self, items: Sequence[Placed]) -> Unmatched:
        unmatched = []
        for item in items:
            index = self._find_index(item)
            if index != NO_INDEX:
                self._next = index + 1
            if index == NO_INDEX or not self._fits(index, item):
                unmatched.append((index, item.position))
            else:
                self.confirm(index, index + 1, position=item.position, offset=item.offset)
        return unmatched

    def hidden(self, first: int, last: int) -> list[Hidden]:
        """They begin behind the last entry before them, and end before the next one behind them or as the last says."""
        before, behind, own = self.read(first - 1), self.read(last + 1), self.read(last)
        begin = before.base_offset + before.count if before is not None and before.is_valid else 0
        if behind is not None and behind.is_valid:
            end = behind.base_offset
        else:
            end = own.base_offset + own.count if own is not None and own.is_valid else begin
        return [Hidden(self.topic, self.queue, begin, end)] if begin < end else []

    def hidden_in(self, begin: int, end: int) -> list[Hidden]:
        """The messages whose entries are in these bytes of the queue."""
        first, last = begin // self.layout.size, -(-end // self.layout.size)
        return self.hidden(first, last - 1) if first < last else []

    def find_gap(self, item: Placed) -> int:
        following = self._search(item.offset, "base_offset")
        before = self.read(following - 1)
        is_gap = self.begin < following < self.used and (before is None or not before.is_valid)
        return following - 1 if is_gap else NO_INDEX

    def is_below(self, item: Placed) -> bool:
        first = self.read(self.begin)
        return first is not None and first.is_valid and item.offset < first.base_offset

    def find_difference(self, index: int, item: Placed) -> str | None:
        entry = self.read(index)
        if entry is None or not entry.is_valid:
            return None
        wanted = _batch_entry_of(item)
        differing = [
            f"{name} {found}, not {expected}"
            for name, found, expected in zip(entry._fields, entry[:6], wanted[:6], strict=False)
            if found != expected
        ]
        return f"differs from its record at {item.position}: {'; '.join(differing) or 'it follows a gap'}"

    def _fits(self, index: int, item: Placed) -> bool:
        entry = self.read(index)
        if entry is None or entry[:6] != _batch_entry_of(item)[:6]:
            return False
        return self._follows(index)

    def _follows(self, index: int) -> bool:
        """Whether the entry's offsets are where they should be after those of the one before it."""
        before, entry = self.read(index - 1), self.read(index)
        if before is None or entry is None or not before.is_valid:
            return True
        return before.base_offset + before.count == entry.base_offset

    def _find_index(self, item: Placed) -> int:
        """Where the entry of `item` is, or should be."""
        expected = self.read(self._next)
        if expected is None or not expected.is_valid:
            return self._next
        if item.position == expected.position or item.offset == expected.base_offset:
            return self._next
        for field, wanted in (("position", item.position), ("base_offset", item.offset)):  # one of them may be damaged
            index = self._search(wanted, field)
            found = self.read(index)
            if found is not None and getattr(found, field) == wanted:
                return index
        return NO_INDEX

    def _search(self, wanted: int, field: str = "position") -> int:
        """The first entry there is whose `field` is `wanted` or more, in a queue that is sorted by it as it should be.

        Entries that are missing say nothing: those behind them are asked instead.
        """
        begin = self.begin
        end = used = self.used
        while begin < end:
            middle = (begin + end) // 2
            asked = self._skip_missing(middle, end)
            entry = self.read(asked) if asked < end else None
            if entry is not None and getattr(entry, field) < wanted:
                begin = asked + 1
            else:
                end = middle
        return self._skip_missing(begin, used)

    def _skip_missing(self, index: int, end: int) -> int:
        """The first number from `index` on that has an entry; `end` if none before it has."""
        while index < end:
            entry = self.read(index)
            if entry is None:  # in no file, or behind the end of one that is too short
                index = self._begin_of_next_file(index, end)
            elif entry.is_valid:
                return index
            elif any(entry):
                index += 1
            else:
                index = self._end_of_zeros(index, end)
        return end

    def _begin_of_next_file(self, index: int, end: int) -> int:
        following = bisect_right(self._starts, index * self.layout.size)
        return self._starts[following] // self.layout.size if following < len(self._starts) else end

    def _end_of_zeros(self, index: int, end: int) -> int:
        found = self._locate(index)
        assert found is not None, "zeros lie in a file"
        segment, at = found
        nonzero = find_nonzero(self._views.of(segment.path), segment.path, at)
        if nonzero is None:
            return self._begin_of_next_file(index, end)
        return (segment.start + nonzero) // self.layout.size


def _batch_entry_of(item: Placed) -> BatchEntry:
    return BatchEntry(item.position, item.size, item.tags_code, item.store_time, item.offset, item.count)
