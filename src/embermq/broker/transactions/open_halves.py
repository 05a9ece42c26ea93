"""The half messages whose transactions are open: a table in memory, made from the two topics when a broker starts.

    half topic    0  1  2  3  4  5  6  7  8        an offset from `low` on that is not in the table is done
                           ▲              ▲
                          low        followed      done topic   {0,1,2} {4} {5,7}
                                                                         ▲ read again by whoever starts next

Who ends a transaction takes it out first and, when the done mark is in the log, forgets it; if the put fails,
it goes back. Progress is kept as offsets of the group CID_RMQ_SYS_TRANS, where RocketMQ's brokers look for it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Set
from typing import Final, NamedTuple

from embermq.broker.transactions.halves import HALF_QUEUE, Half, SentHalf, read_half
from embermq.errors import CorruptRecord, OutOfRange
from embermq.format.done_marks import decode_done_marks
from embermq.format.queue_entry import QueueEntry
from embermq.format.record import Record
from embermq.model.group import HALVES_GROUP
from embermq.model.topic import HALF_DONE_TOPIC, HALF_TOPIC
from embermq.store.offsets import ConsumerOffsets
from embermq.store.store import Store

log = logging.getLogger(__name__)

MOST_SENT_BYTES: Final = 64 * 1024 * 1024
_ENTRIES_AT_ONCE: Final = 4096


class Open(NamedTuple):
    """An open transaction: where its half message is."""

    offset: int
    position: int


class _Mark(NamedTuple):
    offset: int  # in the done topic
    highest: int  # offset of a half message that it names


class OpenHalves:
    """Open transactions by the offset of their half message. All of it runs in the event loop."""

    def __init__(self, store: Store, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._offsets = offsets
        self._open: dict[int, int] = {}  # offset to position
        self._ending: dict[int, int] = {}  # taken out, and not known to be done
        self._ahead: set[int] = set()  # known before they were followed
        self._copies: dict[tuple[str, int], int] = {}  # offsets of copies, by what they share with their originals
        self._found: list[int] = []  # since somebody asked
        self._sent: dict[int, SentHalf] = {}  # of open ones, the youngest, as they were sent
        self._sent_size = 0
        self._marks: deque[_Mark] = deque()
        self._next_mark = 0  # offset in the done topic from which marks matter
        self.end = 0  # the offset up to which the half topic was followed
        self.found_at_start = 0  # offsets below it were there before this broker

    def __len__(self) -> int:
        return len(self._open) + len(self._ending)

    def load(self) -> list[Half]:
        """Find out which transactions are open; what a broker that is gone has left of them."""
        low = self._saved(HALF_TOPIC)
        done = set(self._load_marks(low))
        self.end = low
        self._follow_entries(skip=done)
        self._found = []
        self.found_at_start = self.end
        found: list[Half] = []
        replaced: dict[tuple[str, int, int], int] = {}
        for offset, position in list(self._open.items()):
            half = self.read(Open(offset, position))
            if half is None:
                continue
            # A put back that was cut short: the copy is there, and the mark of what it stands for is not.
            before = half.copied_offset if half.copied_offset in self._open else replaced.get(_before(half))
            if before is not None and before != offset and half.unique_id:
                self._open.pop(before, None)
            replaced[(*half.identity, half.checks)] = offset
            if half.checks or half.copied_offset is not None:
                self._copies[half.identity] = offset
            found.append(half)
        self.save_progress()
        return [half for half in found if half.record.offset in self._open]

    def note_sent(self, offset: int, position: int, sent: SentHalf) -> None:
        """A half message was stored."""
        if offset >= self.end:
            self._ahead.add(offset)
            self._open[offset] = position
            self._found.append(offset)
        if offset in self._open:
            self._sent[offset] = sent
            self._sent_size += sent.size
            while self._sent_size > MOST_SENT_BYTES:
                self._forget_sent(next(iter(self._sent)))

    def find_sent(self, offset: int) -> SentHalf | None:
        """A half message as it was sent, if that is still known."""
        return self._sent.get(offset)

    def take_sent(self, at: Open, group: str) -> bool:
        """Take a transaction out to end it, if its half message is there and known as `group` sent it."""
        offset, position = at
        if self._open.get(offset) != position or self._sent[offset].group != group:
            return False
        del self._open[offset]
        self._ending[offset] = position
        return True

    def take_found(self) -> list[int]:
        """The offsets of half messages that became visible since the last time."""
        self._follow_entries()
        found, self._found = self._found, []
        return found

    def position_of(self, offset: int) -> int | None:
        """Where an open half message is; None if it is not open."""
        return self._open.get(offset)

    def take(self, half: Half) -> Open | None:
        """Take a transaction out to end it, by its half message or by one that it is a copy of; None if it is done."""
        offset = half.record.offset
        if offset not in self._open:
            self._follow_entries()
        if offset >= self.end and offset not in self._ahead:  # in the log, and not visible yet
            self._ahead.add(offset)
            self._open[offset] = half.record.position
            self._found.append(offset)
        if offset not in self._open:
            offset = self._copies.get(half.identity, -1)
        return self.take_at(offset)

    def take_at(self, offset: int) -> Open | None:
        position = self._open.pop(offset, None)
        if position is None:
            return None
        self._ending[offset] = position
        return Open(offset, position)

    def is_ending(self, offset: int) -> bool:
        return offset in self._ending

    def give_back(self, taken: Iterable[Open]) -> None:
        """Put transactions back whose end could not be stored."""
        for offset, position in taken:
            if self._ending.pop(offset, None) is not None:
                self._open[offset] = position

    def forget_sent(self, offset: int) -> None:
        """The done mark of a transaction that was taken out by `take_sent` is in the log."""
        self._ending.pop(offset, None)
        self._forget_sent(offset)

    def forget(self, half: Half, offset: int) -> None:
        """The done mark of a transaction that was taken out is in the log."""
        self.forget_sent(offset)
        if self._copies.get(half.identity) == offset:
            del self._copies[half.identity]

    def drop(self, offset: int) -> None:
        """Forget a transaction of which nothing is left."""
        self._open.pop(offset, None)
        self._ending.pop(offset, None)

    def replace(self, half: Half, copy: Open) -> None:
        """A half message that was taken out goes on as a copy of itself."""
        self.forget(half, half.record.offset)
        if copy.offset >= self.end:
            self._ahead.add(copy.offset)
        self._open[copy.offset] = copy.position
        self._copies[half.identity] = copy.offset

    def note_mark(self, offset: int, highest: int) -> None:
        """A done mark is in the log."""
        self._marks.append(_Mark(offset, highest))

    def save_progress(self) -> None:
        """Tell how far both topics are done with; whoever starts next begins there."""
        low = min(min(self._open, default=self.end), min(self._ending, default=self.end), self.end)
        while self._marks and self._marks[0].highest < low:
            self._next_mark = self._marks.popleft().offset + 1
        for topic, offset in ((HALF_TOPIC, low), (HALF_DONE_TOPIC, self._next_mark)):
            if offset or self._offsets.find(topic, HALVES_GROUP, HALF_QUEUE) is not None:
                self._offsets.commit(topic, HALVES_GROUP, HALF_QUEUE, offset)

    def read(self, at: Open) -> Half | None:
        """The half message of an open transaction; None, said aloud, if it cannot be read any more."""
        try:
            half = read_half(self._store.read_record(at.position))
            reason = "it does not say where it belongs"
        except (OutOfRange, CorruptRecord) as error:
            half, reason = None, str(error)
        if half is None:
            log.error("half message lost offset=%d position=%d reason=%s", *at, reason)
            self.drop(at.offset)
        return half

    def _forget_sent(self, offset: int) -> None:
        sent = self._sent.pop(offset, None)
        if sent is not None:
            self._sent_size -= sent.size

    def _saved(self, topic: str) -> int:
        """Where to go on in one of the two topics."""
        low, high = self._store.offsets(topic, queue=HALF_QUEUE)
        saved = self._offsets.find(topic, HALVES_GROUP, HALF_QUEUE)
        return min(max(low, saved or 0), high)

    def _load_marks(self, low: int) -> Iterator[int]:
        """The offsets from `low` on that are marked as done."""
        at = self._next_mark = self._saved(HALF_DONE_TOPIC)
        while entries := self._entries(HALF_DONE_TOPIC, at):
            for number, entry in enumerate(entries, start=at):
                record = self._read_mark(entry)
                named = decode_done_marks(record.body) if record is not None else []
                self._marks.append(_Mark(number, max(named, default=-1)))
                yield from (offset for offset in named if offset >= low)
            at += len(entries)

    def _read_mark(self, entry: QueueEntry) -> Record | None:
        try:
            return self._store.read_record(entry.position)
        except (OutOfRange, CorruptRecord) as error:
            log.error("done mark lost position=%d reason=%s", entry.position, error)
            return None

    def _follow_entries(self, skip: Set[int] = frozenset()) -> None:
        ahead = self._ahead
        while self.end in ahead:  # what is known need not be read
            ahead.remove(self.end)
            self.end += 1
        while entries := self._entries(HALF_TOPIC, self.end):
            for offset, entry in enumerate(entries, start=self.end):
                if offset in self._ahead:
                    self._ahead.remove(offset)
                elif offset not in skip and not entry.is_blank:
                    self._open[offset] = entry.position
                    self._found.append(offset)
            self.end += len(entries)

    def _entries(self, topic: str, offset: int) -> list[QueueEntry]:
        found = self._store.entries(topic, queue=HALF_QUEUE, offset=offset, limit=_ENTRIES_AT_ONCE)
        return [entry for entry in found if isinstance(entry, QueueEntry)]


def _before(half: Half) -> tuple[str, int, int]:
    """What a half message was before its producers were asked the last time."""
    return (*half.identity, half.checks - 1)
