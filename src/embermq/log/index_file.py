"""One file of the key index: a hash table whose chains run from the newest entry to the oldest.

    header │ slot │ slot │ … │ entry 0, never used │ entry 1 │ entry 2 │ …
               └─── number of the newest entry ────────────────────▲
                                                     ▲─ `previous` ┘

Entries lie in the order of the log. One thread puts, any number may look keys up meanwhile, from other
processes, too: an entry is written before the slot that leads to it, and both before the header counts them.
The disk space of header and slots is reserved when a file is made, that of entries in steps as they come.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from embermq.errors import CorruptRecord, FileSealed, WrongFileSize
from embermq.files.durable import sync_directory
from embermq.files.mapped_file import MappedFile
from embermq.format.index_entry import (
    ENTRY,
    FIRST_ENTRY,
    HEADER,
    SLOT,
    IndexEntry,
    IndexHeader,
    decode_index_header,
    encode_index_header,
    entry_at,
    index_file_size,
    slot_at,
)
from embermq.log.index_chain import ReadBytes, Shape, is_chained, iter_chain, usual_shape
from embermq.log.index_keys import Row

if TYPE_CHECKING:
    from embermq.kernels.compiling import Table

RESERVE_STEP: Final = 8 << 20  # bytes of disk space, a multiple of what a map needs; about 400 000 entries
MAX_SECONDS: Final = 2**31 - 1
UNUSED: Final = IndexHeader(next_entry=0)  # what a file nothing was put into begins with

_NEXT_ENTRY_AT: Final = HEADER.size - SLOT.size  # it is the last in the header, and as large as a slot
_MOST_TRIED: Final = 65_536  # shapes: a position of 0 is found nearly everywhere
_CHECKED: Final = 100  # entries that must fit before a shape is believed


class IndexFile:
    """The keys of one stretch of the log."""

    __slots__ = ("entries", "mapped", "slots")

    def __init__(self, mapped: MappedFile, *, slots: int, entries: int) -> None:
        self.mapped = mapped
        self.slots = slots
        self.entries = entries

    @classmethod
    def open(cls, path: Path, *, slots: int, entries: int, read_only: bool = False) -> Self:
        """Map the file at `path`.

        Raises WrongFileSize, and CorruptRecord for a header that no index file has.
        """
        size = index_file_size(slots, entries)
        if (found := path.stat().st_size) != size:
            raise WrongFileSize(path, found=found, expected=size)
        mapped = MappedFile.open(path, size, start=0, read_only=read_only, reserve_step=RESERVE_STEP)
        mapped.fill_steps()
        file = cls(mapped, slots=slots, entries=entries)
        try:
            file._check_header()
        except BaseException:
            file.close()
            raise
        return file

    @classmethod
    def create(cls, path: Path, *, slots: int, entries: int, after: IndexHeader = UNUSED) -> Self:
        """Make the file that follows one with the header `after`, durably.

        Raises OSError or SyncFailed; then there is no such file.
        """
        size = index_file_size(slots, entries)
        try:
            mapped = MappedFile.open(path, size, start=0, reserve_step=RESERVE_STEP)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        mapped.fill_steps()
        file = cls(mapped, slots=slots, entries=entries)
        # Until something is put, a file says where the one before it ended, as RocketMQ's does.
        time, position = after.end_time, after.end_position
        try:
            file.reserve(0)
            file.write_header(IndexHeader(time, time, position, position, used_slots=0, next_entry=0))
            file.flush()
            sync_directory(path.parent)
        except BaseException:
            file.mapped.destroy(force=True)
            raise
        return file

    @property
    def path(self) -> Path:
        return self.mapped.path

    @property
    def header(self) -> IndexHeader:
        return decode_index_header(self.mapped.view)

    @property
    def next_entry(self) -> int:
        """The number of the next entry."""
        number: int = SLOT.unpack_from(self.mapped.view, _NEXT_ENTRY_AT)[0]
        return max(number, FIRST_ENTRY)

    @property
    def entry_count(self) -> int:
        return self.next_entry - FIRST_ENTRY

    @property
    def room(self) -> int:
        """How many more entries fit."""
        return self.entries - self.next_entry

    @property
    def is_dirty(self) -> bool:
        return self.mapped.is_dirty

    def reserve(self, count: int) -> None:
        """Get the disk space for `count` more entries. Raises OSError; then nothing changed."""
        self.mapped.reserve(entry_at(self.slots, self.next_entry + count))

    def put(self, rows: Sequence[Row]) -> None:
        """Add an entry for each row, in the order of the log. The caller has made sure that they fit."""
        view, slots, header = self.mapped.view, self.slots, self.header
        begin_position, begin_time = header.begin_position, header.begin_time
        if header.next_entry == FIRST_ENTRY:  # before any entry counts its seconds from it
            _, (begin_position, begin_time) = rows[0]
        number = header.next_entry
        newest: dict[int, int] = {}  # the newest entry of each slot in use, by where the slot is
        entries: list[bytes] = []
        used_slots = header.used_slots
        unpack, pack, first_slot, slot_size = SLOT.unpack_from, ENTRY.pack, slot_at(0), SLOT.size
        seconds, of_time = 0, None
        for key_hash, (position, store_time) in rows:
            at = first_slot + key_hash % slots * slot_size
            previous = newest.get(at) or unpack(view, at)[0]
            if not 0 < previous < number:
                previous = 0
                used_slots += 1
            if store_time != of_time:
                of_time, seconds = store_time, min(max((store_time - begin_time) // 1000, 0), MAX_SECONDS)
            entries.append(pack(key_hash, position, seconds, previous))
            newest[at] = number
            number += 1
        # In this order, because readers follow slots, and a crash may come in between.
        self.mapped.write_at(entry_at(slots, header.next_entry), b"".join(entries))
        self.mapped.write_numbers(SLOT, newest)
        self.write_header(IndexHeader(begin_time, store_time, begin_position, position, used_slots, number))

    def make_ready(self, number: int) -> int:
        """Get the disk space for entries below `number`, which the caller writes itself; where the file is in memory.

        0 if it can only be written otherwise.
        """
        end = entry_at(self.slots, number)
        address = self.mapped.address(end)
        if address:
            self.mapped.touched(end)
        return address

    def put_table(self, keys: Table) -> None:
        """The same for keys in a table, by a kernel."""
        from embermq.kernels.index_rows import put_index

        address = self.make_ready(self.next_entry + len(keys))
        if not address:  # the disk gave no space that can be mapped
            self.put([(key_hash, (position, store_time)) for key_hash, position, store_time in keys.tolist()])
            return
        count, reason = put_index(address, self.mapped.size, self.slots, self.entries, keys)
        assert count == len(keys), f"{count} of {len(keys)} keys put, reason {reason}"

    def iter_positions(self, key_hash: int, *, begin_ms: int, end_ms: int) -> Iterator[int]:
        """Positions of records filed under `key_hash` that were stored in that time, newest first."""
        view = self.mapped.view  # stays readable, even if the file is deleted meanwhile
        header = decode_index_header(view) if view else UNUSED
        shape = Shape(self.slots, self.entries)
        return iter_chain(_reader_of(view), header, shape, key_hash, begin_ms=begin_ms, end_ms=end_ms)

    def begins_before(self, time_ms: int) -> bool:
        """Whether its first record was stored before `time_ms`; without records, no."""
        view = self.mapped.view
        header = decode_index_header(view) if view else UNUSED
        return header.next_entry > FIRST_ENTRY and header.begin_time < time_ms

    def read_slot(self, slot: int) -> int:
        """The number of the newest entry in the chain of `slot`."""
        number: int = SLOT.unpack_from(self.mapped.view, slot_at(slot))[0]
        return number

    def read_entry(self, number: int) -> IndexEntry:
        return IndexEntry._make(ENTRY.unpack_from(self.mapped.view, entry_at(self.slots, number)))

    def write_header(self, header: IndexHeader) -> None:
        self.mapped.write_at(0, encode_index_header(header))

    def flush(self) -> None:
        """Force everything put before this call onto the disk. Raises SyncFailed, later on FileSealed."""
        if not (self.mapped.is_dirty or self.mapped.sealed):
            return
        try:
            self.mapped.sync()
        except FileSealed:
            if self.mapped.is_available:  # else it was deleted meanwhile
                raise

    def close(self) -> None:
        self.mapped.close()

    def _check_header(self) -> None:
        header = self.header
        if header.next_entry > self.entries or header.used_slots < 0:
            raise CorruptRecord(0, f"{self.path}: {self.entries} entries, {self.slots} slots, but {header}")
        if not 0 <= header.begin_position <= header.end_position:
            raise CorruptRecord(0, f"{self.path}: positions that go backwards in {header}")


def detect_shape(path: Path) -> Shape:
    """With how many slots and entries the index file at `path` was made.

    Its size allows many shapes. Four entries for each slot are usual and tried first, then the shape
    that puts the last entry where its position is found. Raises CorruptRecord when no shape fits.
    """
    size = path.stat().st_size
    usual = usual_shape(size)
    if size > HEADER.size:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            header = decode_index_header(data[: HEADER.size])
            for shape in chain([usual] if usual else [], islice(_iter_shapes(data, header), _MOST_TRIED)):
                if is_chained(_reader_of(data), header, shape, _CHECKED):
                    return shape
        if usual:  # torn by a crash, but of no other shape
            return usual
    raise CorruptRecord(0, f"{path}: no number of slots and entries makes {size} bytes an index file")


def _iter_shapes(data: mmap.mmap, header: IndexHeader) -> Iterator[Shape]:
    """The shapes that have the last entry where its position occurs."""
    last = header.next_entry - FIRST_ENTRY
    position = HEADER.pack(0, 0, 0, header.end_position, 0, 0)[24:32]
    at = data.find(position, HEADER.size)
    while last and at >= 0:
        slots, rest = divmod(at - SLOT.size - entry_at(0, last), SLOT.size)
        entries, left = divmod(len(data) - slot_at(slots), ENTRY.size)
        if rest == 0 and left == 0:
            yield Shape(slots, entries)
        at = data.find(position, at + 1)


def _reader_of(data: memoryview | mmap.mmap) -> ReadBytes:
    return lambda at, size: data[at : at + size]
