"""The 46-byte entry of a batch queue: one record that holds one or more messages.

position 8   size 4   tags code 8   store time 8
base offset 8   count 2   compacted offset 4   reserved 4
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord

BATCH_ENTRY: Final = struct.Struct(">qiqqqhii")
BATCH_ENTRY_SIZE: Final = BATCH_ENTRY.size


class BatchEntry(NamedTuple):
    """The messages `base_offset` to `base_offset + count` of a queue."""

    position: int
    size: int
    tags_code: int
    store_time: int
    base_offset: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    compacted_offset: int = -1
    reserved: int = 0

    @property
    def is_valid(self) -> bool:
        return self.position >= 0 and self.size > 0 and self.base_offset >= 0 and self.count > 0


# Closes a file of a compacted queue before its end.
END_MARK: Final = BatchEntry(-1, 0, 0, 0, 0, 0)


def encode_batch_entry(entry: BatchEntry) -> bytes:
    return BATCH_ENTRY.pack(*entry)


def decode_batch_entry(data: memoryview | bytes, at: int = 0) -> BatchEntry:
    """The entry at byte `at` of `data`; it need not be valid."""
    if at < 0 or len(data) - at < BATCH_ENTRY_SIZE:
        raise CorruptRecord(at, f"{len(data) - at} bytes left of a batch entry of {BATCH_ENTRY_SIZE}")
    return BatchEntry._make(BATCH_ENTRY.unpack_from(data, at))


def decode_batch_entries(data: memoryview | bytes) -> list[BatchEntry]:
    """All entries of `data`, which holds nothing else."""
    if len(data) % BATCH_ENTRY_SIZE:
        raise CorruptRecord(0, f"{len(data)} bytes are no whole number of batch entries")
    return list(map(BatchEntry._make, BATCH_ENTRY.iter_unpack(data)))
