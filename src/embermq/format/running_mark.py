"""The file `abort`, which lies in a store while it is open.

     0   the process that owns the store, in digits, and a line end
    64   "EMBR" 4   version 4   dispatched position 8

RocketMQ writes the digits alone, and anew whenever it opens a store, so that whoever finds the rest knows that EmberMQ
is the owner. The position is in the byte order of the machine: it is changed in mapped memory, in one step, and only
for readers on this machine to see.
"""

from __future__ import annotations

import struct
import sys
from typing import Final

MARK_SIZE: Final = 80
POSITION_AT: Final = 72

_HEAD: Final = struct.Struct(">4sI")
_HEAD_AT: Final = 64
_MAGIC: Final = b"EMBR"
_VERSION: Final = 1


def encode_mark(process: int, position: int) -> bytes:
    """The whole file."""
    text = f"{process}\n".encode().ljust(_HEAD_AT, b"\n")
    return text + _HEAD.pack(_MAGIC, _VERSION) + position.to_bytes(8, sys.byteorder, signed=True)


def find_dispatched(data: bytes) -> int | None:
    """The position up to which the owner has dispatched its log; None if the owner is not EmberMQ."""
    if len(data) != MARK_SIZE or _HEAD.unpack_from(data, _HEAD_AT) != (_MAGIC, _VERSION):
        return None
    position = int.from_bytes(data[POSITION_AT:MARK_SIZE], sys.byteorder, signed=True)
    return position if position >= 0 else None
