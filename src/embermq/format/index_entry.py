"""A file of the key index: header, hash slots, entries.

    header 40   slots × 4   entries × 20

    header: begin time 8   end time 8   begin position 8   end position 8   used slots 4   next entry 4
    slot:   number of the newest entry in its chain, 0 for none
    entry:  key hash 4   position 8   seconds since the begin time 4   number of the chain's previous entry 4

Entry 0 is never used, because 0 ends a chain.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord

HEADER: Final = struct.Struct(">qqqqii")
SLOT: Final = struct.Struct(">i")
ENTRY: Final = struct.Struct(">iqii")

FIRST_ENTRY: Final = 1


class IndexHeader(NamedTuple):
    """What one index file holds. A header of zeros is that of a file nothing was put into."""

    begin_time: int = 0
    end_time: int = 0
    begin_position: int = 0
    end_position: int = 0
    used_slots: int = 0
    next_entry: int = FIRST_ENTRY


class IndexEntry(NamedTuple):
    """One key of one record."""

    key_hash: int
    position: int
    seconds: int
    previous: int


def encode_index_header(header: IndexHeader) -> bytes:
    return HEADER.pack(*header)


def decode_index_header(data: memoryview | bytes) -> IndexHeader:
    """The header that `data` begins with. A file that was never used counts from 1, too."""
    if len(data) < HEADER.size:
        raise CorruptRecord(0, f"{len(data)} bytes of an index header of {HEADER.size}")
    header = IndexHeader._make(HEADER.unpack_from(data))
    return header if header.next_entry > 0 else header._replace(next_entry=FIRST_ENTRY)


def encode_index_entry(entry: IndexEntry) -> bytes:
    return ENTRY.pack(*entry)


def decode_index_entry(data: memoryview | bytes, at: int = 0) -> IndexEntry:
    if at < 0 or len(data) - at < ENTRY.size:
        raise CorruptRecord(at, f"{len(data) - at} bytes left of an index entry of {ENTRY.size}")
    return IndexEntry._make(ENTRY.unpack_from(data, at))


def decode_slot(data: memoryview | bytes, at: int) -> int:
    if at < 0 or len(data) - at < SLOT.size:
        raise CorruptRecord(at, f"{len(data) - at} bytes left of an index slot of {SLOT.size}")
    slot: int = SLOT.unpack_from(data, at)[0]
    return slot


def index_file_size(slots: int, entries: int) -> int:
    return entry_at(slots, entries)


def slot_at(slot: int) -> int:
    """Where slot number `slot` begins in a file."""
    return HEADER.size + SLOT.size * slot


def entry_at(slots: int, number: int) -> int:
    """Where entry `number` begins in a file of `slots` slots."""
    return HEADER.size + SLOT.size * slots + ENTRY.size * number
