r"""The checksum over a whole record, kept as its last property.

    "__CRC32#" 0x01 ten digits 0x02

It covers every byte before it. The digits stand in reverse, the lowest first.
"""

from __future__ import annotations

import zlib
from typing import Final

from embermq.model.properties import PROPERTY_CRC

_NAME: Final = PROPERTY_CRC.encode() + b"\x01"
_DIGITS: Final = 10
PROPERTY_CRC_SIZE: Final = len(_NAME) + _DIGITS + 1


def encode_property_crc(value: int) -> bytes:
    """The 20 bytes that say `value`."""
    return _NAME + f"{value:010d}"[::-1].encode() + b"\x02"


def prepare_properties(properties: bytes) -> bytes:
    """`properties` as they must be for a checksum to follow: without one, and with their last 0x02."""
    if _NAME in properties:
        pieces = properties.split(b"\x02")
        properties = b"\x02".join(piece for piece in pieces if not piece.startswith(_NAME))
    if properties and not properties.endswith(b"\x02"):
        properties += b"\x02"
    return properties


def verify_property_crc(record: memoryview | bytes) -> bool | None:
    """Whether the checksum at the end of `record`, which is all of one record, holds; None if it has none."""
    begin = len(record) - PROPERTY_CRC_SIZE
    if begin < 0:
        return None
    tail = bytes(record[begin:])
    if not tail.startswith(_NAME) or not tail.endswith(b"\x02"):
        return None
    return tail == encode_property_crc(zlib.crc32(record[:begin]) & 0x7FFF_FFFF)
