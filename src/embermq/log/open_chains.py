"""Which queues have their files open: those used lately, as many as there may be.

    opened ──→ open ──→ too many are: each that was not used since the last look is closed, and opens again when used
                 └──── what was not on disk of it is remembered by its paths, and synced with the next flush

A process may have so many files open and so many maps, and a broker more queues than that. Whoever writes to a queue
holds `lock` meanwhile: nothing is closed between two steps of a write. Readers hold nothing; they notice.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final, Protocol

_KEPT_SHARE: Final = (
    8  # when too many are open, one of so many is closed, so that it is not looked for at every opening
)


class Closable(Protocol):
    """Files that can be opened again."""

    is_used: bool  # since it was last looked at

    @property
    def file_count(self) -> int: ...

    def suspend(self) -> list[Path]:
        """Close the files; returns those that have something to be synced."""
        ...


class OpenChains:
    """The chains that are open. Safe from every thread."""

    def __init__(self, most: int | None = None) -> None:
        """`most` files may be open at once; None: all."""
        self.most = most
        self.lock = threading.RLock()
        self._open: dict[Closable, int] = {}  # how many files each has
        self._count = 0
        self._unsynced: set[Path] = set()

    def __len__(self) -> int:
        """How many files are open."""
        return self._count

    def opened(self, chain: Closable) -> None:
        """Its files were opened, or it has more than before."""
        with self.lock:
            self._forget(chain)
            self._open[chain] = chain.file_count
            self._count += chain.file_count
            if self.most is not None and self._count > self.most:
                self._close_some(chain, self.most - self.most // _KEPT_SHARE)

    def closed(self, chain: Closable) -> None:
        """It is closed for good."""
        with self.lock:
            self._forget(chain)

    def take_unsynced(self) -> set[Path]:
        """The files with something to be synced that were closed since this was last asked."""
        with self.lock:
            paths, self._unsynced = self._unsynced, set()
        return paths

    def give_back(self, paths: set[Path]) -> None:
        """They could not be synced."""
        with self.lock:
            self._unsynced |= paths

    def _forget(self, chain: Closable) -> None:
        self._count -= self._open.pop(chain, 0)

    def _close_some(self, needed: Closable, target: int) -> None:
        for is_last_round in (False, True):
            for chain in list(self._open):
                if self._count <= target:
                    return
                if chain is needed:
                    continue
                if chain.is_used and not is_last_round:
                    chain.is_used = False
                    continue
                self._unsynced.update(chain.suspend())
                self._forget(chain)
