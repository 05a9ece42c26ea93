"""A log file of a compacted queue and the queue file of the same name, mapped. The layout is in format/compacted.py.

One thread appends; any number may read what is counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from embermq.errors import CorruptRecord
from embermq.files.mapped_file import MappedFile
from embermq.files.paths import file_name
from embermq.format.batch_entry import BATCH_ENTRY, BATCH_ENTRY_SIZE, END_MARK, BatchEntry, encode_batch_entry
from embermq.format.compacted import entry_of, iter_compacted_entries, moved, pair_has_room
from embermq.format.record import encode_blank, scan_record

RESERVE_STEP: Final = 1 << 20
_BASE_OFFSET_AT: Final = 28  # of the base offset in an entry
_END: Final = encode_batch_entry(END_MARK)


class Pair:
    """Records [0, count) of one pair of files."""

    def __init__(self, log: MappedFile, queue: MappedFile, *, count: int, is_closed: bool) -> None:
        self.log = log
        self.queue = queue
        self.start = log.start
        self.count = count  # what readers trust
        self.is_closed = is_closed

    @classmethod
    def make(cls, log_folder: Path, queue_folder: Path, start: int, *, log_size: int, queue_size: int) -> Self:
        """Two empty files. Raises OSError."""
        name = file_name(start)
        queue = MappedFile.open(queue_folder / name, queue_size, reserve_step=RESERVE_STEP)
        log = MappedFile.open(log_folder / name, log_size, reserve_step=RESERVE_STEP)
        return cls(log, queue, count=0, is_closed=False)

    @classmethod
    def load(cls, log_path: Path, queue_path: Path, *, is_last: bool) -> Self:
        """Two files that are there. Of the last pair every record is checked, and what is not whole is forgotten."""
        log = MappedFile.open(log_path, log_path.stat().st_size, reserve_step=RESERVE_STEP)
        queue = MappedFile.open(queue_path, queue_path.stat().st_size, reserve_step=RESERVE_STEP)
        count = end = 0
        for entry in iter_compacted_entries(queue.view):
            if not _is_whole(log, entry, end, check_body=is_last):
                break
            count, end = count + 1, end + entry.size
        rest = queue.view[count * BATCH_ENTRY_SIZE : (count + 1) * BATCH_ENTRY_SIZE]
        is_closed = bytes(rest) == _END or len(rest) < BATCH_ENTRY_SIZE
        log.set_end(end if is_last else log.size)
        queue.set_end(count * BATCH_ENTRY_SIZE if is_last else queue.size)
        if is_last and not is_closed:
            log.truncate(end)
            queue.truncate(count * BATCH_ENTRY_SIZE)
        return cls(log, queue, count=count, is_closed=is_closed or not is_last)

    @property
    def end(self) -> int:
        """The place behind the last record."""
        last = self.entry(self.count - 1) if self.count else None
        return self.start if last is None else last.position + last.size

    @property
    def first_offset(self) -> int:
        return self.entry(0).base_offset

    @property
    def next_offset(self) -> int:
        """The offset behind the last record's."""
        return self.entry(self.count - 1).base_offset + 1

    def has_room(self, size: int) -> bool:
        """Whether a record of so many bytes fits, and what closes both files behind it."""
        return pair_has_room(
            self.end - self.start, self.count, size, log_size=self.log.size, queue_size=self.queue.size
        )

    def append(self, record: bytes | memoryview) -> None:
        """Add a record, for which there must be room. Raises CorruptRecord, and OSError on a full disk."""
        position = self.end
        data = moved(record, position)
        entry = entry_of(data, position)
        self.log.append(data)
        self.queue.append(encode_batch_entry(entry))
        self.count += 1  # last, because readers trust every entry below it

    def close_for_good(self) -> None:
        """Write what ends both files."""
        self.queue.append(_END)
        self.log.append(encode_blank(self.log.size - self.log.written))
        self.is_closed = True

    def entry(self, index: int) -> BatchEntry:
        return BatchEntry._make(BATCH_ENTRY.unpack_from(self.queue.view, index * BATCH_ENTRY_SIZE))

    def find(self, offset: int) -> int:
        """The index of the record with this offset, or of the next one."""
        return bisect_left(range(self.count), offset, key=self._offset_at)

    def record(self, entry: BatchEntry) -> memoryview:
        at = entry.position - self.start
        return self.log.view[at : at + entry.size]

    def iter_records(self) -> Iterator[tuple[BatchEntry, memoryview]]:
        for index in range(self.count):
            entry = self.entry(index)
            yield entry, self.record(entry)

    def flush(self) -> None:
        """Bring both onto the disk, the log first. Raises SyncFailed."""
        self.log.flush()
        self.queue.flush()

    def sync(self) -> None:
        self.log.sync()
        self.queue.sync()

    def close(self) -> None:
        self.log.close()
        self.queue.close()

    def _offset_at(self, index: int) -> int:
        at = index * BATCH_ENTRY_SIZE + _BASE_OFFSET_AT
        return int.from_bytes(self.queue.view[at : at + 8], "big")


def _is_whole(log: MappedFile, entry: BatchEntry, end: int, *, check_body: bool) -> bool:
    """Whether the record of an entry lies where it should, behind the one before."""
    if entry.position != log.start + end or end + entry.size > log.size:
        return False
    if not check_body:
        return True
    try:
        found = scan_record(log.view[end : end + entry.size], 0, entry.position, check_body=True)
    except CorruptRecord:
        return False
    return found is not None and found.size == entry.size and found.offset == entry.base_offset
