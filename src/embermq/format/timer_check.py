"""`config/timercheck`: how far the timer is. A page of which 56 bytes are used; they are also what replicas ask for.

read time 8   log place 8   queue offset 8   master's queue offset 8   state version 8   version time 8   counter 8
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord
from embermq.model.version import DataVersion

TIMER_CHECK_SIZE: Final = 4096
_CHECK: Final = struct.Struct(">qqqqqqq")
_OLD_SIZE: Final = 32  # of peers that know no version


class TimerCheck(NamedTuple):
    """All that was before these is done, and on disk."""

    read_time: int = 0  # slots before it are delivered
    log_place: int = 0  # the timer log is on disk up to here
    queue_offset: int = 0  # messages of the timer's topic before it are in the timer log
    master_offset: int = 0
    version: DataVersion = DataVersion()


def encode_timer_check(check: TimerCheck) -> bytes:
    state, counter, time = check.version
    return _CHECK.pack(*check[:4], state, time, counter)


def encode_timer_page(check: TimerCheck) -> bytes:
    """The whole page."""
    return encode_timer_check(check).ljust(TIMER_CHECK_SIZE, b"\0")


def decode_timer_check(data: memoryview | bytes) -> TimerCheck:
    """What a page or an answer begins with. Raises CorruptRecord."""
    if len(data) < _OLD_SIZE:
        raise CorruptRecord(0, f"{len(data)} bytes of a timer checkpoint of {_CHECK.size}")
    read, place, offset, master, state, time, counter = _CHECK.unpack(
        bytes(data[: _CHECK.size]).ljust(_CHECK.size, b"\0")
    )
    return TimerCheck(read, place, offset, master, DataVersion(state, counter, time))
