"""A record that has its place in the log: all that queues and index need to know of it."""

from __future__ import annotations

from typing import NamedTuple


class Placed(NamedTuple):
    """What the dispatcher hands on for one record.

    Most records take one offset of their queue; an inner batch takes `count` from
    `offset` on.
    """

    topic: str
    queue: int
    offset: int
    position: int
    size: int
    tags_code: int
    store_time: int
    sys_flag: int
    properties: bytes
    count: int = 1  # type: ignore[assignment]  # hides tuple.count, which nobody needs
    filter_bits: bytes = b""
