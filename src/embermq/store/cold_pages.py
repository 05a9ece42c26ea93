"""Keeps what is read far behind from taking the place in memory of what is read all the time.

    log    ├────────────────────────────┼──────────────┤
           cold: pages go once read      hot_bytes: the kernel's own business, and that of log/recent_pages.py

Whoever catches up from the beginning of a large log, reads files that nobody will want again soon. The kernel keeps
their pages, and lets go of others for them: those that consumers at the end of the log will want in a moment, and
those of queues and index. So the pages of cold files are given back every second; only what was read within that
time is in memory. Nothing but time is lost by that, and what is not on the disk yet stays.
"""

from __future__ import annotations

import os
from typing import Final

from embermq.files.file_chain import FileChain

INTERVAL_S: Final = 1.0
HOT_SHARE: Final = 0.4  # of the machine's memory, as RocketMQ reckons


def choose_hot_bytes(wanted: int | None) -> int:
    """How much of a log may be in memory: as much as is wanted, else what the machine may well have there."""
    if wanted is not None:
        return wanted
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * HOT_SHARE)


class ColdPages:
    """The pages of the log's files that end further behind than `hot_bytes`."""

    def __init__(self, chain: FileChain, hot_bytes: int | None) -> None:
        self._chain = chain
        self._hot_bytes = choose_hot_bytes(hot_bytes)

    def give_back(self) -> None:
        """Have the kernel forget them."""
        edge, file_size = self._chain.flushed - self._hot_bytes, self._chain.file_size
        self._chain.forget(self._chain.begin, edge // file_size * file_size)
