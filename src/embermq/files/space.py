"""How full a disk is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, Self


class DiskSpace(NamedTuple):
    """Bytes of the file system that a path lies on."""

    used: int
    free: int  # for this user: less than what is unused where some is set aside for root
    total: int

    @classmethod
    def usage(cls, path: Path) -> Self:
        """The space where `path` is, or would be if it is not there yet."""
        while not path.exists() and path != path.parent:
            path = path.parent
        found = os.statvfs(path)
        return cls(
            used=(found.f_blocks - found.f_bfree) * found.f_frsize,
            free=found.f_bavail * found.f_frsize,
            total=found.f_blocks * found.f_frsize,
        )

    @property
    def percent(self) -> int:
        """How much of what this user could have is used, in whole percent, rounded up."""
        reachable = self.used + self.free
        return -(-self.used * 100 // reachable) if reachable else 0

    @property
    def ratio(self) -> float:
        """`percent` as a fraction."""
        return self.percent / 100
