"""A consume queue: from offset to the place of a record in the log.

Every offset has an entry of 20 bytes; an offset that has no message, because the queue
began later or a record was lost, has a blank one. The log is the truth: what differs
from it is cut and written again, and a queue that is gone is filled from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from embermq.errors import CorruptRecord
from embermq.files.mapped_file import MappedFile
from embermq.format.extended_entry import ExtendedEntry
from embermq.format.queue_entry import ENTRY, PRE_BLANK, QUEUE_ENTRY_SIZE, QueueEntry, is_address
from embermq.log.entry_chain import EntryChain
from embermq.log.extended_queue import ExtendedQueue
from embermq.log.open_chains import OpenChains
from embermq.log.placed import Placed, Run
from embermq.log.queue_kind import QueueKind
from embermq.log.time_search import first_at_or_after, last_at_or_before

log = logging.getLogger(__name__)

LARGEST_GAP: Final = 2**23  # offsets without a message (168 MB of entries); more than that is damage
_BLOCK: Final = 4_096  # entries handled at once
_BLANKS: Final = PRE_BLANK * _BLOCK


class ConsumeQueue:
    """One queue of a topic, one entry a message. One thread writes, any number may read.

    `min_offset` is the first offset with a message, `max_offset` the next to be given.
    """

    kind = QueueKind.SIMPLE

    def __init__(
        self, folder: Path, topic: str, queue: int, *,
        file_size: int, extended: ExtendedQueue | None = None, read_only: bool = False,
        row: memoryview | None = None, open_chains: OpenChains | None = None,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.topic = topic
        self.queue = queue
        whole = -(-file_size // QUEUE_ENTRY_SIZE) * QUEUE_ENTRY_SIZE
        self._entries = EntryChain(
            folder, ENTRY, QueueEntry._make, file_size=whole, blank=PRE_BLANK, read_only=read_only, row=row,
            open_chains=open_chains,
        )  # fmt: skip
        if extended is not None:
            self._entries.withhold()
        self._extended = extended

    def load(self) -> None:
        """Find the entries on disk. Raises what a FileChain does for files that are not as they should be."""
        self._entries.load()
        self.min_offset = self._entries.first_record()
        if self._extended is not None:
            self._extended.load(self._find_last_address())

    @property
    def min_offset(self) -> int:
        return self._entries.first

    @min_offset.setter
    def min_offset(self, offset: int) -> None:
        self._entries.first = offset

    @property
    def max_offset(self) -> int:
        return self._entries.end

    @property
    def end_position(self) -> int:
        """The end of the last record in the log that the queue knows."""
        last = self.last_entry()
        return 0 if last is None else last.position + last.size

    @property
    def is_dirty(self) -> bool:
        """Whether a `flush` has something to do."""
        return self._entries.is_dirty or (self._extended is not None and self._extended.is_dirty)

    def put(self, items: Sequence[Placed]) -> None:
        """Add entries, in the order of the log; those that are there already are skipped.

        Offsets rise, unless a topic was deleted and used again, or a record is damaged. Raises
        OSError when the disk is full, and CorruptRecord for an offset that lies absurdly far
        ahead; of the offsets that rise together, none is added then.
        """
        for rising in _iter_rising(items):
            self._put_rising(rising)

    def _put_rising(self, items: Sequence[Placed]) -> None:
        if items[0].offset < self.max_offset:
            items = self._without_known(items)
        if not items:
            return
        end = self._entries.write(self._iter_blocks(items), at=items[0].offset)
        # Before the end: a reader that sees the new end must not see the blank entries before it.
        if self.min_offset == self.max_offset:
            self.min_offset = items[0].offset
        self._entries.end = end

    def takes_run(self, offset: int) -> bool:
        """Whether entries that begin at `offset` can be added as they are: next in order, and none to extend."""
        return self._extended is None and offset == self._entries.end and self._entries.has_files

    def put_run(self, run: Run) -> None:
        """Add entries that `takes_run` allows. Raises OSError when the disk is full; the queue is unchanged then."""
        end = self._entries.write([b"".join(run.entries)])
        self._entries.end = end  # last, because readers trust what lies before it

    def read(self, offset: int, count: int) -> list[QueueEntry]:
        """The entries of [offset, offset + count), up to the first that does not exist.

        Blank ones are among them. An address is resolved to the tags code it stands for, if it
        can be. Nothing is found from an offset below `min_offset` on.
        """
        end = min(self._entries.end, offset + count)  # before min_offset, see put
        if offset < self.min_offset or offset >= end:
            return []
        entries = self._entries.read(offset, end)
        if self._extended is None:
            return entries
        return [self._resolved(entry) if is_address(entry.tags_code) else entry for entry in entries]

    def select(self, offset: int, count: int) -> memoryview | None:
        """The same as bytes in mapped memory, not looked at; None where there are none, or not all in one file."""
        end = min(self._entries.end, offset + count)  # before min_offset, see put
        return self._entries.select(offset, end) if self.min_offset <= offset < end else None

    def file_of(self, offset: int) -> MappedFile | None:
        """The file that has a place for the entry of `offset`."""
        return self._entries.file_of(offset)

    def last_entry(self) -> QueueEntry | None:
        """The last entry that is not blank."""
        return self._entries.record_at(self.max_offset - 1)

    def read_extended(self, offset: int) -> ExtendedEntry | None:
        """The extended entry of the message at `offset`, if it has one."""
        if self._extended is None or not self.min_offset <= offset < self.max_offset:
            return None
        entry = self._entries.find(offset)
        return None if entry is None else self._extended.get(entry.tags_code)

    def find_offset(self, time_ms: int, *, upper: bool, time_at: Callable[[QueueEntry], int | None]) -> int:
        """The offset of the first message stored at `time_ms` or later, or the next offset if there is none.

        With `upper`, of the last message stored until then, or the smallest offset if there is none.
        `time_at` tells when the record of an entry was stored, None when it is gone.
        """
        end, begin = self.max_offset, self.min_offset

        def time_of(offset: int) -> int | None:
            record = self._entries.record_at(offset)
            return time_at(record) if record is not None and record.is_valid else None

        if not upper:
            return first_at_or_after(time_ms, begin, end, time_of)
        found = last_at_or_before(time_ms, begin, end, time_of)
        return max(begin, self._entries.last_record(found + 1) or 0)

    def cut(self, position: int) -> None:
        """Forget every entry whose record begins at or after `position`. Raises SyncFailed."""
        if position < self.end_position:
            self._cut_at(self._entries.find_from(position, self._entries.begin))

    def correct_min(self, log_begin: int) -> None:
        """Raise `min_offset` to the first message with a record at or after `log_begin`, else to the end."""
        if log_begin > 0:
            self.min_offset = self._entries.find_from(log_begin, self.min_offset)

    def delete_before(self, log_begin: int) -> int:
        """Delete the files all of whose records lie before `log_begin`; return how many went."""
        self.correct_min(log_begin)
        first = self._entries.find(self.min_offset)
        if self._extended is not None and first is not None:
            self._extended.delete_before(first.tags_code)
        return self._entries.delete_before(log_begin)

    def flush(self, least_pages: int = 0) -> None:
        """Bring what is written onto the disk. Raises SyncFailed."""
        if self._extended is not None:
            self._extended.flush(least_pages)  # first, so that no address on disk leads nowhere
        self._entries.flush(least_pages)

    def unflushed(self) -> list[tuple[MappedFile, int]]:
        """The files with entries that a `flush` has something to do for, and how far each is written."""
        return self._entries.unflushed()

    def sync(self) -> None:
        """Bring everything onto the disk, also what `load` found there in memory. Raises SyncFailed."""
        if self._extended is not None:
            self._extended.sync()
        self._entries.sync()

    def destroy(self) -> None:
        """Delete the queue's files."""
        self._entries.destroy()
        self.min_offset = 0
        if self._extended is not None:
            self._extended.destroy()

    def close(self) -> None:
        """Let go of the files. Flush first."""
        self._entries.close()
        if self._extended is not None:
            self._extended.close()

    def _without_known(self, items: Sequence[Placed]) -> Sequence[Placed]:
        """`items` from the first on that is not there yet; what is there instead of it is cut."""
        begin, end = self._entries.begin, self.max_offset
        known = [item for item in items if begin <= item.offset < end]
        if self._extended is None and _is_run(known) and self._entries.holds(known[0].offset, _encode(known)):
            known = []
        for item in known:
            if not self._holds(item):
                if self._is_taken(item):
                    log.error("offset taken, record passed over folder=%s offset=%d", self.folder, item.offset)
                    return [each for each in items if each.offset >= end]
                log.warning("queue differs from the log, cut folder=%s offset=%d", self.folder, item.offset)
                self._cut_at(item.offset)
                end = item.offset
                break
        return [item for item in items if item.offset >= end]

    def _is_taken(self, item: Placed) -> bool:
        """Whether an earlier record has the offset of `item`, so that one of the two must be damaged.

        Offset 0 is given twice where a topic was deleted and used again; then the later record counts.
        """
        entry = self._entries.find(item.offset)
        return (
            item.offset > 0
            and entry is not None
            and entry.is_valid
            and not entry.is_blank
            and (entry.position < item.position)
        )

    def _holds(self, item: Placed) -> bool:
        """Whether the entry of `item` is in the queue already."""
        entry = self._entries.find(item.offset)
        if entry is None or entry[:2] != (item.position, item.size):
            return False
        # An address whose entry is lost stays: filters take it for a match and read the message.
        code = self._resolved(entry).tags_code
        return code == item.tags_code or is_address(code)

    def _iter_blocks(self, items: Sequence[Placed]) -> Iterator[bytes]:
        """The entries of `items`, with blank ones before them where offsets are missing."""
        first = items[0].offset
        end = self.max_offset if self._entries.has_files else first - first % self._entries.per_file
        for run in _iter_runs(items):
            gap = run[0].offset - end
            assert gap >= 0, "offsets must rise"
            if gap > LARGEST_GAP:
                reason = f"its offset is {run[0].offset}, the next of {self.folder} is {end}"
                raise CorruptRecord(run[0].position, reason)
            while gap > 0:
                yield _BLANKS[: gap * QUEUE_ENTRY_SIZE]
                gap -= _BLOCK
            yield _encode(run if self._extended is None else [self._with_address(item) for item in run])
            end = run[-1].offset + 1

    def _with_address(self, item: Placed) -> Placed:
        assert self._extended is not None
        address = self._extended.put(ExtendedEntry(item.tags_code, item.store_time, item.filter_bits))
        return item if address is None else item._replace(tags_code=address)

    def _resolved(self, entry: QueueEntry) -> QueueEntry:
        found = self._extended.get(entry.tags_code) if self._extended is not None else None
        return entry if found is None else entry._replace(tags_code=found.tags_code)

    def _cut_at(self, offset: int) -> None:
        self._entries.cut(offset)
        self.min_offset = min(self.min_offset, self.max_offset)
        if self._extended is not None:
            self._cut_extended(self._extended)

    def _cut_extended(self, extended: ExtendedQueue) -> None:
        last = self._find_last_address()
        if last is not None:
            extended.cut(last)
        elif self.end_position == 0:
            extended.destroy()

    def _find_last_address(self) -> int | None:
        """The address of the last extended entry that the queue refers to."""
        begin, end = self._entries.begin, self._entries.end
        while begin < end:
            part = max(begin, end - _BLOCK)
            codes = [entry.tags_code for entry in self._entries.read(part, end)]
            last = next(filter(is_address, reversed(codes)), None)
            if last is not None:
                return last
            end = part
        return None


def _iter_rising(items: Sequence[Placed]) -> Iterator[Sequence[Placed]]:
    """`items` in parts within which offsets rise; mostly there is one."""
    begin = 0
    for index in range(1, len(items)):
        if items[index].offset <= items[index - 1].offset:
            yield items[begin:index]
            begin = index
    if items:
        yield items[begin:] if begin else items


def _iter_runs(items: Sequence[Placed]) -> Iterator[Sequence[Placed]]:
    """`items` in parts whose offsets follow each other without a gap."""
    if _is_run(items):
        yield items
        return
    begin = 0
    for index in range(1, len(items) + 1):
        if index == len(items) or items[index].offset != items[index - 1].offset + 1:
            yield items[begin:index]
            begin = index


def _is_run(items: Sequence[Placed]) -> bool:
    first = items[0].offset if items else 0
    return bool(items) and [item[2] for item in items] == list(range(first, first + len(items)))  # 2 is its offset


def _encode(items: Sequence[Placed]) -> bytes:
    pack = ENTRY.pack
    return b"".join([pack(*item[3:6]) for item in items])  # its position, size and tags code
