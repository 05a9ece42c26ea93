"""Many messages in one body, as clients send a batch.

    size 4   magic 4   crc 4   flag 4   body size 4   body   properties size 2   properties

once for each message. Size, magic and crc are written but, as in RocketMQ, not looked at: clients
leave magic and crc zero.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord, IllegalMessage
from embermq.format.cursor import Cursor, Truncated

_HEAD: Final = struct.Struct(">iiiii")
_SHORT: Final = struct.Struct(">h")
_IGNORED_SIZE: Final = 12


class BatchElement(NamedTuple):
    """One message of a batch; the rest it has in common with the others."""

    flag: int
    body: bytes
    properties: bytes


def iter_batch(body: bytes | memoryview) -> Iterator[BatchElement]:
    """The messages of a batch. Raises CorruptRecord with the byte of `body` where the broken one begins."""
    cursor = Cursor(body)
    while cursor.left:
        begin = cursor.at
        try:
            cursor.take(_IGNORED_SIZE)
            flag = cursor.signed(4)
            element = BatchElement(flag, cursor.take(cursor.signed(4)), cursor.take(cursor.signed(2)))
        except Truncated as error:
            raise CorruptRecord(begin, f"no message of a batch: {error}") from error
        yield element


def encode_batch(elements: Iterable[BatchElement]) -> bytes:
    """The body of a batch. Raises IllegalMessage if a message does not fit."""
    parts: list[bytes] = []
    try:
        for flag, body, properties in elements:
            size = _HEAD.size + len(body) + _SHORT.size + len(properties)
            parts += _HEAD.pack(size, 0, 0, flag, len(body)), body, _SHORT.pack(len(properties)), properties
    except struct.error as error:
        raise IllegalMessage(f"no batch can hold this: {error}") from error
    return b"".join(parts)
