"""Whether a store can be read and written, why not, and all of its figures as one snapshot."""

from __future__ import annotations

import errno
import threading
from dataclasses import dataclass
from pathlib import Path

from embermq.errors import DiskFailed, DiskFull, StoreUnwritable
from embermq.files.space import DiskSpace
from embermq.log.sync_times import SyncSummary
from embermq.store.opening import Recovered
from embermq.store.statistics import PutStatistics


def refusal_of(error: OSError, path: Path) -> StoreUnwritable:
    """Why a put is refused, when the disk answered with `error` to what was to be done at `path`."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(path, free=DiskSpace.usage(path).free, limit=f"what it takes to write ({error.strerror})")
    return DiskFailed(path, error)


class WriteGate:
    """Open while puts are allowed. A passing reason comes and goes; a final one stays as long as the store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._passing: StoreUnwritable | None = None
        self._final: StoreUnwritable | None = None

    @property
    def refusal(self) -> StoreUnwritable | None:
        """Why puts are refused; None while they are allowed."""
        return self._final or self._passing

    @property
    def is_closed(self) -> bool:
        """Whether puts are refused for good."""
        return self._final is not None

    def check(self) -> None:
        """Raise the reason why puts are refused, if there is one."""
        refusal = self._final or self._passing
        if refusal is not None:
            raise refusal

    def refuse(self, reason: StoreUnwritable) -> None:
        """Refuse puts until `allow`."""
        with self._lock:
            self._passing = reason

    def allow(self) -> bool:
        """The passing reason is gone; tells whether there was one."""
        with self._lock:
            had, self._passing = self._passing is not None, None
            return had

    def close(self, reason: StoreUnwritable) -> None:
        """Refuse puts for good; the first reason counts."""
        with self._lock:
            self._final = self._final or reason


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store's figures at one moment."""

    path: str
    durability: str
    readable: bool
    writable: bool
    refusal: str | None  # why it is not writable
    refusal_kind: str | None  # the name of that error
    log_begin: int
    log_written: int
    log_flushed: int
    dispatched: int
    flush_behind: int  # bytes
    dispatch_behind: int  # bytes
    log_files: int
    hung_files: int
    topics: int
    queues: int
    index_files: int
    index_entries: int
    disk_free: int
    disk_total: int
    syncs: int
    sync_times: SyncSummary
    checkpoint_position: int
    puts: PutStatistics
    recovered: Recovered
