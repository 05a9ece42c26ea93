"""What can go wrong with jobs: a branch of the tree in `embermq.errors`.

EmberError
└── JobError              a job over whole stores that cannot begin, or not go on
    ├── TargetExists      what it is to make is there already
    ├── NoRoom            the disk has less space than it needs
    ├── NotCompacted      a topic that keeps all of its messages
    ├── SwapInterrupted   an earlier compaction did not come to its end
    ├── RecordTooLarge    it does not fit into the file of a compacted topic
    ├── MasterUnreachable no Spark answers there
    ├── ClusterFailed     a cluster on this machine did not start
    ├── TaskFailed        for a cause that nobody foresaw
    └── WorkerLost        the process of a task is gone
"""

from __future__ import annotations

from pathlib import Path

from embermq.errors import EmberError


class JobError(EmberError):
    """A job over whole stores cannot begin, or cannot go on; nothing that was there is changed."""


class TargetExists(JobError):
    """What a job is to make is there already."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(f"{path} exists already; name a directory that does not, or move this one away")
        self.path = path


class NoRoom(JobError):
    """The disk has less space than a job needs."""

    def __init__(self, path: Path | str, *, needs: int, free: int) -> None:
        super().__init__(f"no room for {path}: it takes up to {needs} bytes, {free} are free; name another disk")
        self.path = path


class NotCompacted(JobError):
    """There is no topic to compact, or it keeps all of its messages."""

    def __init__(self, path: Path | str, topic: str | None = None) -> None:
        what = f"topic {topic!r} of {path} keeps" if topic is not None else f"all topics of {path} keep"
        command = f"ember topic create {topic or 'TOPIC'} --attribute cleanup.policy=COMPACTION"
        super().__init__(f"{what} every message until it expires; one that is compacted is made so: `{command}`")
        self.path = path


class SwapInterrupted(JobError):
    """What an earlier compaction has made is not in its place yet."""

    def __init__(self, path: Path | str, topic: str, queue: int) -> None:
        super().__init__(
            f"{path}: a compaction of queue {queue} of topic {topic!r} is at work, or was killed; "
            "try it again, or compact without --out, which ends it first"
        )
        self.path = path


class RecordTooLarge(JobError):
    """A record does not fit into a file of a compacted topic."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"a record of {size} bytes does not fit into compacted files of {limit} bytes; a broker with a larger "
            "compaction_file_size must make them anew"
        )


class MasterUnreachable(JobError):
    """No Spark answers at the address of its master."""

    def __init__(self, master: str, reason: str) -> None:
        super().__init__(f"no Spark answers at {master} ({reason}); start it, or correct the address")
        self.master = master


class ClusterFailed(JobError):
    """A master or worker of a cluster on this machine did not start."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"Spark's {name} did not start: {reason}; `java -version` must say 17 or newer")


class TaskFailed(JobError):
    """A task of a job failed for a cause that nobody foresaw."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"a task failed: {reason}")


class WorkerLost(JobError):
    """The process that worked on a task is gone."""

    def __init__(self, pid: int, code: int) -> None:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        super().__init__(f"worker process {pid} {how}; too little memory is the usual cause: use fewer workers")
