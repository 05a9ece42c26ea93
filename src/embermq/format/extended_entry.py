"""An extended queue entry: what does not fit into the 20 bytes of a queue entry.

    size 2   tags code 8   store time 8   size of the bits 2   filter bits

A size of -1 closes a file before its end; zero is where the entries end.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord

MIN_EXTENDED_SIZE: Final = 20
MAX_EXTENDED_SIZE: Final = 32767
END_MARK: Final = b"\xff\xff"

_HEAD: Final = struct.Struct(">hqqh")
_SIZE: Final = struct.Struct(">h")


class ExtendedEntry(NamedTuple):
    """Tags code, store time and filter bits of one message."""

    tags_code: int
    store_time: int
    bits: bytes = b""

    @property
    def size(self) -> int:
        """Bytes it takes in a file."""
        return MIN_EXTENDED_SIZE + len(self.bits)


def encode_extended_entry(entry: ExtendedEntry) -> bytes:
    """The bytes of `entry`. Raises ValueError if its bits are too many for one entry."""
    if entry.size > MAX_EXTENDED_SIZE:
        raise ValueError(f"an extended entry of {entry.size} bytes, limit {MAX_EXTENDED_SIZE}")
    return _HEAD.pack(entry.size, entry.tags_code, entry.store_time, len(entry.bits)) + entry.bits


def decode_extended_entry(data: memoryview | bytes, at: int = 0) -> ExtendedEntry | None:
    """The entry at byte `at` of `data`, or None where the entries of a file end."""
    left = len(data) - at
    if at < 0 or left < _SIZE.size:
        return None
    (size,) = _SIZE.unpack_from(data, at)
    if size <= 0:
        return None
    if size < MIN_EXTENDED_SIZE or size > left:
        raise CorruptRecord(at, f"extended entry of {size} bytes announced, {left} left")
    _, tags_code, store_time, bits_size = _HEAD.unpack_from(data, at)
    if MIN_EXTENDED_SIZE + bits_size != size:
        raise CorruptRecord(at, f"extended entry of {size} bytes has {bits_size} bytes of bits")
    begin = at + MIN_EXTENDED_SIZE
    return ExtendedEntry(tags_code, store_time, bytes(data[begin : begin + bits_size]))
