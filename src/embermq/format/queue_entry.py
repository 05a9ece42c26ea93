"""The 20-byte entry of a consume queue: where a message lies, and what it is filtered by.

    position 8   size 4   tags code 8

The third field holds the hash of the tags, or when the message is due (delay levels), or the
address of an extended entry. Addresses are real places moved down by 2⁶³, so they lie below
every 32-bit hash.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord
from embermq.model.hashing import java_hash

ENTRY: Final = struct.Struct(">qiq")
QUEUE_ENTRY_SIZE: Final = ENTRY.size

PRE_BLANK_SIZE: Final = 0x7FFF_FFFF
PRE_BLANK: Final = ENTRY.pack(0, PRE_BLANK_SIZE, 0)  # fills offsets that have no message

MAX_ADDRESS: Final = -(2**31) - 1
MAX_REAL: Final = 2**63 - 2**31 - 1

_ADDRESS_BASE: Final = -(2**63)


class QueueEntry(NamedTuple):
    """One message of a queue."""

    position: int
    size: int  # of its record
    tags_code: int

    @property
    def is_valid(self) -> bool:
        """Whether it stands for something: a record, or a gap (see is_blank)."""
        return self.position >= 0 and self.size > 0

    @property
    def is_blank(self) -> bool:
        """Whether it only fills the place of an offset that has no message."""
        return self.size == PRE_BLANK_SIZE and self.position == 0


def encode_queue_entry(entry: QueueEntry) -> bytes:
    return ENTRY.pack(*entry)


def decode_queue_entry(data: memoryview | bytes, at: int = 0) -> QueueEntry:
    """The entry at byte `at` of `data`; it need not be valid."""
    if at < 0 or len(data) - at < QUEUE_ENTRY_SIZE:
        raise CorruptRecord(at, f"{len(data) - at} bytes left of a queue entry of {QUEUE_ENTRY_SIZE}")
    return QueueEntry._make(ENTRY.unpack_from(data, at))


def decode_queue_entries(data: memoryview | bytes) -> list[QueueEntry]:
    """All entries of `data`, which holds nothing else."""
    if len(data) % QUEUE_ENTRY_SIZE:
        raise CorruptRecord(0, f"{len(data)} bytes are no whole number of queue entries")
    return list(map(QueueEntry._make, ENTRY.iter_unpack(data)))


@lru_cache(maxsize=4096)  # few tags, many messages
def tags_code(tags: str | None) -> int:
    """What a queue entry keeps of the tags."""
    return java_hash(tags) if tags else 0


def is_address(code: int) -> bool:
    """Whether a tags code is the address of an extended entry."""
    return code <= MAX_ADDRESS


def address_of(real: int) -> int:
    """The address that stands for byte `real` of the extended entries."""
    if not 0 <= real <= MAX_REAL:
        raise ValueError(f"no address for byte {real}; it must be from 0 to {MAX_REAL}")
    return real + _ADDRESS_BASE


def real_of(address: int) -> int:
    """The byte of the extended entries that `address` stands for."""
    if not is_address(address):
        raise ValueError(f"{address} is a tags code, not an address")
    return address - _ADDRESS_BASE
