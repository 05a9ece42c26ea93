"""How a commit-log record is laid out, and its parts as tuples.

    size 4   magic 4   body crc 4   queue 4   flag 4   offset 8   position 8   sys flag 4
    born time 8   born host 8 or 20   store time 8   store host 8 or 20
    reconsume times 4   prepared position 8   body size 4                          <- the head
    body   topic size 1 (V1) or 2 (V2)   topic   properties size 2   properties

Two bits of the sys flag tell the sizes of the hosts, so there are four heads. All numbers are
signed, except size and magic. A file ends with a BLANK (size 4, the rest of the file, and
magic 4) or with zeros.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple, TypeAlias

from embermq.errors import CorruptRecord
from embermq.model.properties import parse_properties

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
BLANK_SIZE: Final = 8
MIN_RECORD_SIZE: Final = 91

MAX_V1_TOPIC_SIZE: Final = 127
MAX_PROPERTIES_SIZE: Final = 32767

FRAME: Final = struct.Struct(">II")
BYTE: Final = struct.Struct(">b")
SHORT: Final = struct.Struct(">h")

_HOST_SIZES: Final = (("8", "8"), ("20", "8"), ("8", "20"), ("20", "20"))  # born host, store host

# The heads by the host bits of the sys flag: HEADS[sys_flag >> 4 & 3].
HEADS: Final = tuple(struct.Struct(f">IIiiiqqiq{born}sq{store}siqi") for born, store in _HOST_SIZES)

# The same heads, but only size, magic, body crc, queue, offset, position, sys flag, store time, prepared
# position and body size are read.
SCAN_HEADS: Final = tuple(struct.Struct(f">IIii4xqqi8x{born}xq{store}x4xqi") for born, store in _HOST_SIZES)

HOST_FLAGS_AT: Final = 39  # the byte of the sys flag that holds the host bits


class Frame(NamedTuple):
    """How every record, BLANK and unwritten place begins."""

    size: int
    magic: int


class Record(NamedTuple):
    """One record, field for field, except for the sizes that its parts have anyway."""

    size: int
    magic: int
    body_crc: int
    queue: int
    flag: int
    offset: int
    position: int
    sys_flag: int
    born_time: int
    born_host: bytes
    store_time: int
    store_host: bytes
    reconsume_times: int
    prepared_position: int
    body: bytes
    topic: str
    properties: bytes

    @property
    def v2(self) -> bool:
        return self.magic == MAGIC_V2

    def property_map(self) -> dict[str, str]:
        """The properties by name. Raises CorruptRecord if they are not text."""
        try:
            return parse_properties(self.properties)
        except ValueError as error:
            raise CorruptRecord(self.position, f"its properties are not UTF-8: {error}") from error


class Draft(NamedTuple):
    """A record that has no place yet: no offset, position, store time or store host."""

    topic: bytes
    queue: int
    body: bytes
    properties: bytes
    flag: int = 0
    sys_flag: int = 0
    born_time: int = 0
    born_host: bytes = b"\x7f\0\0\1\0\0\0\0"
    reconsume_times: int = 0
    prepared_position: int = 0


# A draft as a plain tuple: what hot loops make and take apart in half the time of a Draft, which is one of them.
DraftFields: TypeAlias = tuple[bytes, int, bytes, bytes, int, int, int, bytes, int, int]


class Scanned(NamedTuple):
    """What dispatch, recovery and checks need of a record."""

    size: int
    topic: str
    queue: int
    offset: int
    position: int
    sys_flag: int
    store_time: int
    properties: bytes
    prepared_position: int


def record_size(topic_size: int, body_size: int, properties_size: int, sys_flag: int, v2: bool) -> int:
    """Bytes of a record with parts of these sizes."""
    sizes = BYTE.size + v2 + SHORT.size
    return HEADS[sys_flag >> 4 & 3].size + sizes + topic_size + body_size + properties_size
