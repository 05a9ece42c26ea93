"""Staged batches: messages that a broker keeps aside until all of a batch are published, or none.

job        whoever stages: one stream, or one write; its batches have rising numbers
task       one part of a batch, staged by one worker under a name that nobody else has
chunk      what a task sends in one request
plan       which tasks, at which brokers, make up a batch
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from embermq.errors import IllegalField

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
LARGEST_INDEX: Final = 2**32  # messages of one batch at one broker


class StagedTask(NamedTuple):
    """What a task staged at one broker."""

    name: str
    chunks: int
    messages: int


Plan = Mapping[str, tuple[StagedTask, ...]]  # tasks by the name of their broker


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a broker has promised of a job: its newest batch, being published or published.

    Batches before it are published. `position` is where the log ended when the promise was made, so that
    no message of the batch lies before it; `month_ms` goes into the keys of its messages. `tasks` are those of the
    plan that are this broker's.
    """

    job: str
    batch: int
    is_done: bool
    position: int
    month_ms: int
    tasks: tuple[StagedTask, ...]
    plan: Plan


class BatchKeys:
    """The unique keys of a batch's messages, by which a broker knows them again in its log.

        digest 4   index, high half 2   digest 4   ms since the month began 4   index, low half 2

    Laid out as RocketMQ's clients lay out theirs, so that its tools find the time in them.
    """

    def __init__(self, job: str, batch: int, month_ms: int) -> None:
        digest = hashlib.sha256(f"{job}\0{batch}".encode()).hexdigest().upper()
        self.first, self.second = digest[:8], f"{digest[8:16]}{month_ms & 0xFFFF_FFFF:08X}"

    def key(self, index: int) -> str:
        """The key of the message with this number in its batch."""
        return f"{self.first}{index >> 16:04X}{self.second}{index & 0xFFFF:04X}"

    def find_index(self, key: str) -> int | None:
        """The number of the message that has this key; None if it is of another batch."""
        if len(key) != 32 or key[:8] != self.first or key[12:28] != self.second:
            return None
        try:
            return int(key[8:12], 16) << 16 | int(key[28:], 16)
        except ValueError:
            return None


def check_name(name: str, field: str) -> str:
    """`name`, if a job or a task may have it: it becomes the name of a file. Raises IllegalField."""
    if not _NAME.fullmatch(name):
        raise IllegalField(field, f"{name[:120]!r} is no name; 1 to 100 letters, digits, - and _ are wanted")
    return name
