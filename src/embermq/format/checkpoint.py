"""The checkpoint page: how far a store is known to be on disk.

       0   log time 8   queue time 8   index time 8   master's flushed position 8   confirmed position 8
    1024   EmberMQ's own progress, which RocketMQ neither reads nor writes:
           "EMBR" 4   version 4   position 8   queue count 8   entry count 8   index files 8   index entries 8
           log time 8   queue time 8   index time 8   crc32 of all this 4

Times are those of the newest message that is safe in each structure. The progress repeats
them: if they differ from those at the start of the page, somebody else has written the store
since, and the progress says nothing any more.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord

CHECKPOINT_SIZE: Final = 4096
PROGRESS_AT: Final = 1024

_CHECKPOINT: Final = struct.Struct(">qqqqq")
_PROGRESS: Final = struct.Struct(">4sIqqqqqqqq")
_CRC: Final = struct.Struct(">I")
_MAGIC: Final = b"EMBR"
_VERSION: Final = 1
_SAFETY_MS: Final = 3000


class Checkpoint(NamedTuple):
    """Times are milliseconds since 1970; 0 where nothing is known."""

    log_time: int = 0
    queue_time: int = 0
    index_time: int = 0
    master_flushed_position: int = 0
    confirmed_position: int = 0

    @property
    def safe_time(self) -> int:
        """A time before which everything is safe in the log and in the queues."""
        return max(0, min(self.log_time, self.queue_time) - _SAFETY_MS)


class Progress(NamedTuple):
    """What was derived from the log and is on disk, in the queues and in the index."""

    position: int  # the log is dispatched up to here
    queue_count: int
    entry_count: int
    index_files: int
    index_entries: int
    log_time: int
    queue_time: int
    index_time: int


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The 40 bytes at the start of the page."""
    return _CHECKPOINT.pack(*checkpoint)


def decode_checkpoint(page: memoryview | bytes) -> Checkpoint:
    """The checkpoint at the start of `page`."""
    if len(page) < _CHECKPOINT.size:
        raise CorruptRecord(0, f"{len(page)} bytes of a checkpoint of {_CHECKPOINT.size}")
    return Checkpoint._make(_CHECKPOINT.unpack_from(page))


def encode_progress(progress: Progress) -> bytes:
    """The bytes that belong at PROGRESS_AT of the page."""
    data = _PROGRESS.pack(_MAGIC, _VERSION, *progress)
    return data + _CRC.pack(zlib.crc32(data))


def decode_progress(page: memoryview | bytes) -> Progress | None:
    """The progress in `page`; None if there is none, or none that can be trusted."""
    end = PROGRESS_AT + _PROGRESS.size
    if len(page) < end + _CRC.size:
        return None
    magic, version, *fields = _PROGRESS.unpack_from(page, PROGRESS_AT)
    (crc,) = _CRC.unpack_from(page, end)
    if (magic, version) != (_MAGIC, _VERSION) or zlib.crc32(page[PROGRESS_AT:end]) != crc:
        return None
    progress = Progress._make(fields)
    times = progress.log_time, progress.queue_time, progress.index_time
    return progress if times == decode_checkpoint(page)[:3] else None


def encode_page(checkpoint: Checkpoint, progress: Progress | None) -> bytes:
    """The whole page."""
    page = bytearray(CHECKPOINT_SIZE)
    page[: _CHECKPOINT.size] = encode_checkpoint(checkpoint)
    if progress is not None:
        data = encode_progress(progress)
        page[PROGRESS_AT : PROGRESS_AT + len(data)] = data
    return bytes(page)
