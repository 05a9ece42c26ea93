"""Which log files may go, and why. Pure: it is told everything and deletes nothing.

A file's age is that of its newest message, never its modification time: copying or
restoring a store must not change what it keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a file goes."""

    EXPIRED = "expired"
    TOO_MANY_BYTES = "more than max_bytes"
    DISK_SHORT = "disk above its ratio"


@dataclass(frozen=True, slots=True)
class LogFile:
    """What retention needs to know of one log file."""

    start: int
    size: int
    newest_ms: int | None  # when its newest message was stored; None: not known, so never expired


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept."""

    retention_ms: int
    max_bytes: int | None
    delete_batch: int
    disk_max_ratio: float
    disk_clean_ratio: float


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known now."""

    now_ms: int
    in_window: bool  # the hour of the day is one in which expired files go
    asked: bool  # an operator asked for it
    disk_ratio: float
    archived: int | None = None  # only files that end at or before this position may go; None: that is not asked for


def plan_deletions(files: Sequence[LogFile], policy: Policy, moment: Moment) -> list[tuple[LogFile, Reason]]:
    """The oldest files that go in this round, in order. Never the last; at most `delete_batch`."""
    may_expire = moment.in_window or moment.asked or moment.disk_ratio > policy.disk_max_ratio
    total = sum(file.size for file in files)
    going: list[tuple[LogFile, Reason]] = []
    for file in files[:-1]:
        if len(going) == policy.delete_batch:
            break
        if moment.archived is not None and file.start + file.size > moment.archived:
            break
        if policy.max_bytes is not None and total > policy.max_bytes:
            reason = Reason.TOO_MANY_BYTES
        elif moment.disk_ratio > policy.disk_clean_ratio:
            reason = Reason.DISK_SHORT
        elif may_expire and file.newest_ms is not None and file.newest_ms + policy.retention_ms <= moment.now_ms:
            reason = Reason.EXPIRED
        else:
            break
        going.append((file, reason))
        total -= file.size
    return going
