"""What can go wrong with archives.

DataLoss
└── NeverArchived     the store deleted messages too soon

JobError
├── ArchiveMissing    no archive is there
├── ArchiveDamaged    what an archive says of itself makes no sense
├── ArchiveMismatch   it was made from another store, or of other topics
├── ArchiveBusy       somebody else changed it meanwhile
└── TopicAbsent       there are no messages of a topic to send again
"""

from __future__ import annotations

from pathlib import Path

from embermq.errors import DataLoss, StoreError
from embermq.jobs.errors import JobError


class ArchiveMissing(JobError):
    """There is no archive."""

    def __init__(self, place: str) -> None:
        super().__init__(f"no archive at {place}; make one with `ember archive run DIR {place}`")
        self.place = place


class ArchiveDamaged(JobError):
    """What an archive says of itself cannot be read, or makes no sense."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"archive {place}: {reason}")
        self.place = place


class ArchiveMismatch(JobError):
    """An archive is not of this store, or not of what was asked for."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"archive {place}: {reason}; or name another target")
        self.place = place


class ArchiveBusy(JobError):
    """Somebody else changed the archive meanwhile."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"archive {place}: another job changed it at the same time; nothing of this batch is in it, start again "
            f"({reason})"
        )
        self.place = place


class TopicAbsent(JobError):
    """No message of a topic is in what is to be sent again."""

    def __init__(self, topic: str, nearest: str | None = None) -> None:
        hint = f"; the nearest name is {nearest!r}" if nearest else ""
        super().__init__(f"no messages of topic {topic!r} are there to be sent again{hint}")
        self.topic = topic


class NeverArchived(DataLoss):
    """Messages are in neither archive nor store any more."""

    def __init__(self, place: Path | str, *, begin: int, end: int) -> None:
        self.place, self.what = place, f"log positions [{begin}, {end})"
        self.reason = "the store deleted them before they were archived"
        StoreError.__init__(
            self,
            f"{place}: {self.what} are lost: {self.reason}; `ember archive run --allow-loss` goes on without them, and "
            "the setting wait_for_archive has a store wait",
        )
