"""Message ids: those made from a place in a log, and those made by a client.

    offset id   store host 8 or 20   position 8
    unique id   address 4 or 16   process 2   instance 4   ms since the month began 4   counter 2

Both are written in upper-case hexadecimal, so both have 32 or 56 digits.
"""

from __future__ import annotations

import itertools
import struct
import time
from typing import Final, NamedTuple

from embermq.clock import Clock, SystemClock
from embermq.errors import CorruptRecord
from embermq.format.host import decode_host
from embermq.model.message import Host

_POSITION_SIZE: Final = 8
_ID_SIZES: Final = (16, 28)
_UNIQUE_TAIL: Final = struct.Struct(">HIIH")


def encode_message_id(store_host: bytes, position: int) -> str:
    """The id of the record at `position` of the broker at `store_host`."""
    return f"{store_host.hex().upper()}{position:016X}"


def decode_message_id(text: str) -> tuple[Host, int]:
    """Broker and log position that an offset id stands for."""
    data = _decode_hex(text)
    host, position = data[:-_POSITION_SIZE], data[-_POSITION_SIZE:]
    return decode_host(host), int.from_bytes(position, "big", signed=True)


class UniqueId(NamedTuple):
    """The parts of an id that a client made."""

    address: bytes
    process: int  # low 16 bits of the process id
    instance: int
    month_ms: int  # since the month began, where the client was
    counter: int


def encode_unique_id(unique: UniqueId) -> str:
    return (unique.address + _UNIQUE_TAIL.pack(*unique[1:])).hex().upper()


def decode_unique_id(text: str) -> UniqueId:
    """The parts of a unique id. Ids need not have this form: anything unique will do for a store."""
    data = _decode_hex(text)
    split = len(data) - _UNIQUE_TAIL.size
    return UniqueId(data[:split], *_UNIQUE_TAIL.unpack_from(data, split))


class UniqueIds:
    """Makes unique ids. Any number of threads may ask."""

    def __init__(self, address: bytes, *, process: int, instance: int, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._prefix = f"{address.hex().upper()}{process & 0xFFFF:04X}{instance & 0xFFFF_FFFF:08X}"
        self._counter = itertools.count()
        self._month = _month_of(self._clock.now_ms())

    def next(self) -> str:
        """An id that no other call, of this or of another process, gets."""
        now = self._clock.now_ms()
        begin, end = self._month
        if now >= end:
            begin, end = self._month = _month_of(now)
        # A clock that is set back over the start of the month must not make the number negative.
        elapsed = max(0, now - begin)
        return f"{self._prefix}{elapsed & 0xFFFF_FFFF:08X}{next(self._counter) & 0xFFFF:04X}"


def month_ms(now_ms: int) -> int:
    """The milliseconds since the month began, as unique ids have them."""
    return max(0, now_ms - _month_of(now_ms)[0])


def _month_of(now_ms: int) -> tuple[int, int]:
    """Begin and end of the month, in local time as RocketMQ's clients do."""
    local = time.localtime(now_ms // 1000)
    months = local.tm_mon, local.tm_mon + 1  # mktime takes 13 for the next January
    begin, end = (int(time.mktime((local.tm_year, month, 1, 0, 0, 0, 0, 0, -1))) for month in months)
    return begin * 1000, end * 1000


def _decode_hex(text: str) -> bytes:
    try:
        data = bytes.fromhex(text)
    except ValueError as error:
        raise CorruptRecord(0, f"{text[:80]!r} is no message id: {error}") from error
    if len(data) not in _ID_SIZES or len(text) != 2 * len(data):
        raise CorruptRecord(0, f"{text[:80]!r} is no message id: 32 or 56 hexadecimal digits are expected")
    return data
