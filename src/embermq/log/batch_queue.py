"""A batch queue: from offset to the place of a record in the log that holds many messages.

An entry of 46 bytes covers the offsets [base_offset, base_offset + count), so entries are
found by a search for their base. Files are named after the place of their entries in
the queue, which has nothing to do with offsets.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from embermq.files.mapped_file import MappedFile
from embermq.format.batch_entry import BATCH_ENTRY, BatchEntry
from embermq.log.entry_chain import EntryChain
from embermq.log.open_chains import OpenChains
from embermq.log.placed import Placed
from embermq.log.queue_kind import QueueKind
from embermq.log.time_search import first_at_or_after, last_at_or_before

log = logging.getLogger(__name__)

_UNUSED: Final = (-1, 0)  # the last two fields: compacted offset and reserved


class BatchQueue:
    """One queue of a topic, one entry a record. One thread writes, any number may read.

    `min_offset` is the first offset with a message, -1 when nothing was ever put;
    `max_offset` is the next to be given, `end_position` the end of the last record in the log
    that the queue knows.
    """

    kind = QueueKind.BATCH

    def __init__(
        self, folder: Path, topic: str, queue: int, *, file_size: int, read_only: bool = False,
        open_chains: OpenChains | None = None,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.topic = topic
        self.queue = queue
        self.min_offset = -1
        self.max_offset = 0
        self.end_position = 0
        self._entries = EntryChain(
            folder,
            BATCH_ENTRY,
            BatchEntry._make,
            file_size=file_size,
            read_only=read_only,
            open_chains=open_chains,
        )

    def load(self) -> None:
        """Find the entries on disk. Raises what a FileChain does for files that are not as they should be."""
        self._entries.load()
        self._entries.first = self._entries.begin
        self._update()

    @property
    def is_dirty(self) -> bool:
        """Whether a `flush` has something to do."""
        return self._entries.is_dirty

    def put(self, items: Sequence[Placed]) -> None:
        """Add entries, in the order of their offsets; those that are there already are skipped.

        Raises OSError when the disk is full; the queue is unchanged then.
        """
        if items and items[0].offset < self.max_offset:
            items = self._without_known(items)
        if not items:
            return
        end = self._entries.write([_encode(items)])
        last = items[-1]
        self.end_position = last.position + last.size
        if self._entries.first == self._entries.end:
            self.min_offset = items[0].offset
        self._entries.end = end
        self.max_offset = last.offset + last.count

    def read(self, offset: int, count: int) -> list[BatchEntry]:
        """The entries with messages of [offset, offset + count).

        The first one holds `offset` or, where no entry does, comes next. Nothing is found from an
        offset below `min_offset` on.
        """
        if count <= 0 or not self.min_offset <= offset < self.max_offset:
            return []
        end = bisect_left(range(self._entries.end), offset + count, lo=self._entries.first, key=self._base_at)
        return self._entries.read(self._find_index(offset), end)

    def last_entry(self) -> BatchEntry | None:
        """The last entry there is."""
        return self._entries.record_at(self._entries.end - 1)

    def find_offset(
        self, time_ms: int, *, upper: bool, time_at: Callable[[BatchEntry], int | None] | None = None
    ) -> int:
        """The base of the first entry stored at `time_ms` or later, or of the last entry if all are earlier.

        With `upper`, of the last among those stored exactly then, if there are any. Entries know
        their times, so `time_at` is not asked.
        """
        begin, end = self._entries.first, self._entries.end
        if begin >= end:
            return self.max_offset
        found = first_at_or_after(time_ms, begin, end, self._time_of)
        if upper and found < end and self._time_of(found) == time_ms:
            found = last_at_or_before(time_ms, found, end, self._time_of)
        return self._base_at(min(found, end - 1))

    def cut(self, position: int) -> None:
        """Forget every entry whose record begins at or after `position`. Raises SyncFailed."""
        if position < self.end_position:
            self._cut_at(self._entries.find_from(position, self._entries.begin))

    def correct_min(self, log_begin: int) -> None:
        """Raise `min_offset` to the first message with a record at or after `log_begin`, else to the end."""
        if log_begin > 0:
            self._entries.first = self._entries.find_from(log_begin, self._entries.first)
            self._update()

    def delete_before(self, log_begin: int) -> int:
        """Delete the files all of whose records lie before `log_begin`; return how many went."""
        self.correct_min(log_begin)
        return self._entries.delete_before(log_begin)

    def flush(self, least_pages: int = 0) -> None:
        """Bring what is written onto the disk. Raises SyncFailed."""
        self._entries.flush(least_pages)

    def unflushed(self) -> list[tuple[MappedFile, int]]:
        """The files that a `flush` has something to do for, and how far each is written."""
        return self._entries.unflushed()

    def sync(self) -> None:
        """Bring everything onto the disk, also what `load` found there in memory. Raises SyncFailed."""
        self._entries.sync()

    def destroy(self) -> None:
        """Delete the queue's files."""
        self._entries.destroy()
        self._entries.first = 0
        self._update()

    def close(self) -> None:
        """Let go of the files. Flush first."""
        self._entries.close()

    def _update(self) -> None:
        """Tell readers what the entries [_first, end) hold."""
        first, last = self._entries.find(self._entries.first), self.last_entry()
        self.end_position = 0 if last is None else last.position + last.size
        self.max_offset = 0 if last is None else last.base_offset + last.count
        if last is None:
            self.min_offset = -1
        else:
            self.min_offset = self.max_offset if first is None else first.base_offset

    def _without_known(self, items: Sequence[Placed]) -> Sequence[Placed]:
        """`items` from the first on that is not there yet; what is there instead of it is cut."""
        begin = self._entries.find(self._entries.begin)
        for number, item in enumerate(items):
            if item.offset >= self.max_offset:
                return items[number:]
            if begin is None or item.offset < begin.base_offset:
                continue  # its file is deleted
            index = self._find_index(item.offset, self._entries.begin)
            if not self._entries.holds(index, _encode([item])):
                log.warning("queue differs from the log, cut folder=%s offset=%d", self.folder, item.offset)
                self._cut_at(index)
                return items[number:]
        return ()

    def _cut_at(self, index: int) -> None:
        self._entries.cut(index)
        self._entries.first = min(self._entries.first, self._entries.end)
        self._update()

    def _find_index(self, offset: int, begin: int | None = None) -> int:
        """The index of the entry that holds `offset`, else of the next one."""
        first = self._entries.first if begin is None else begin
        after = bisect_right(range(self._entries.end), offset, lo=first, key=self._base_at)
        entry = self._entries.find(after - 1) if after > first else None
        return after if entry is None or entry.base_offset + entry.count <= offset else after - 1

    def _base_at(self, index: int) -> int:
        entry = self._entries.find(index)
        return entry.base_offset if entry is not None and entry.is_valid else -1

    def _time_of(self, index: int) -> int | None:
        entry = self._entries.find(index)
        return entry.store_time if entry is not None and entry.is_valid else None


def _encode(items: Sequence[Placed]) -> bytes:
    pack = BATCH_ENTRY.pack
    return b"".join(
        [
            pack(item.position, item.size, item.tags_code, item.store_time, item.offset, item.count, *_UNUSED)
            for item in items
        ]
    )
