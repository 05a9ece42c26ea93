"""How pops are doing at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class ReviveFigures(NamedTuple):
    """One revive queue."""

    behind: int  # records that were not looked at
    pending: int  # checkpoints whose time has not come, or whose acks may still come
    late_ms: int  # how long the oldest of them has been due
    revived: int  # messages since the start


class PopFigures(NamedTuple):
    """All of it: by revive queue, and by revive queue and kind of record (ck, ack, bAck)."""

    queues: Sequence[ReviveFigures] = ()
    written: Mapping[tuple[int, str], int] = {}
    read: Mapping[tuple[int, str], int] = {}
    unsettled: int = 0  # pops whose offsets wait for the disk
