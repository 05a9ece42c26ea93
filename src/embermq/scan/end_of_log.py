"""How far a store may be read, so that no record is seen that its writer has not confirmed.

| the store                     | is read up to                                                             |
|-------------------------------|---------------------------------------------------------------------------|
| was closed                    | the end of its whole records                                              |
| is open in EmberMQ            | the position that its owner publishes in the file `abort`, or says        |
| is open in RocketMQ           | the last record that a queue knows: queues are filled after confirmation; |
|                               | not at all if its queues are in a RocksDB                                 |
| crashed, or is a copy of one  | the end of its whole records: what its owner finds when it opens it again |
  that was open

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from embermq.errors import CorruptRecord, StoreError
from embermq.files.lock import is_locked
from embermq.format.running_mark import MARK_SIZE, find_dispatched
from embermq.scan.engine import has_kernels
from embermq.scan.file_system import LocalFiles, OwnerState
from embermq.scan.file_walk import FileWalk
from embermq.scan.queue_entries import Place, QueueEntries
from embermq.scan.splits import LogFile
from embermq.scan.store_files import ABORT_FILE, StoreFiles

_PLAIN_RECORDS: Final = 4096  # after which kernels go on: plain code takes 40 ms for them, a load takes a second


class OwnerOnly(StoreError):
    """An open store whose queues are in a RocksDB: only its owner can tell which messages are confirmed."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"{place} is open, and its queues are in a RocksDB, which only its owner can read; read it through its "
            "broker (option namesrv), or when that has stopped"
        )


class LogEnd(NamedTuple):
    """How far a log may be read, and how far it should reach by what the queues say, if they were asked."""

    position: int
    expected: int = 0


def find_end(
    store: StoreFiles,
    files: Sequence[LogFile],
    queues: Callable[[], Iterable[QueueEntries]],
    owner: OwnerState | None = None,
) -> LogEnd:
    """Where the records end that may be read. `queues` are asked for only if they are needed.

    Raises OwnerOnly if nobody but the owner of the store can tell.
    """
    if owner is not None:
        return LogEnd(min(owner.log_end, files[-1].end if files else 0), owner.log_end)
    has_owner = is_open(store)
    published = _find_published(store) if has_owner else None
    if published is not None:
        return LogEnd(min(published, files[-1].end if files else 0), published)
    tails = []
    for queue in queues():
        tail = queue.find_tail()
        tails += [tail] if tail is not None else []
        queue.close()
    if has_owner and not tails and store.has_rocksdb:
        raise OwnerOnly(store.place.name)
    known = _find_known(store, files, tails)
    expected = max((tail.end for tail in tails), default=0)
    return LogEnd(known if has_owner else _walk(store, files, known), expected)


def is_open(store: StoreFiles) -> bool:
    """Whether some process works on the store now."""
    return isinstance(store.system, LocalFiles) and is_locked(Path(store.system.root))


def _find_published(store: StoreFiles) -> int | None:
    """What the owner of an open store says, if it is EmberMQ."""
    try:
        return find_dispatched(store.read(ABORT_FILE, 0, MARK_SIZE + 1))
    except OSError:
        return None


def _find_known(store: StoreFiles, files: Sequence[LogFile], tails: Sequence[Place]) -> int:
    """The end of the last record that a queue knows and the log has.

    An entry that is just being written, or one of a copy whose log is older than its queues, leads to no record.
    """
    for tail in sorted(tails, key=lambda tail: tail.end, reverse=True):
        file = next((file for file in files if file.start <= tail.position and tail.end <= file.end), None)
        if file is not None and _is_record(store, file, tail):
            return tail.end
    return files[0].start if files else 0


def _is_record(store: StoreFiles, file: LogFile, tail: Place) -> bool:
    with FileWalk(store, file, tail.position, tail.end, read_size=tail.size) as walk:
        try:
            record = walk.next(check_body=True)
        except CorruptRecord:
            return False
        return record is not None and len(record) == tail.size


def _walk(store: StoreFiles, files: Sequence[LogFile], begin: int) -> int:
    """The end of the whole records from `begin` on, where a record begins; each is checked."""
    position = begin
    for file in files:
        if position >= file.end:
            continue
        if position < file.start:
            return position
        position = _walk_file(store, file, position)
        if position < file.end:
            return position
    return position


def _walk_file(store: StoreFiles, file: LogFile, begin: int) -> int:
    """The end of the whole records of one file; the file's own end if it is closed."""
    with FileWalk(store, file, begin, file.end) as walk:
        try:
            _walk_records(walk)
        except CorruptRecord:
            return walk.position
        return file.end if walk.is_closed else walk.position


def _walk_records(walk: FileWalk) -> None:
    """Go to the end of the records. Behind a queue there are few; where there is none, kernels pass those in memory."""
    for _ in range(_PLAIN_RECORDS):
        if walk.next(check_body=True) is None:
            return
    is_compiled = has_kernels()
    while walk.next(check_body=True) is not None:
        if is_compiled:
            _pass_whole(walk)


def _pass_whole(walk: FileWalk) -> None:
    """Pass the whole records that a walk has in memory, up to one that plain code has to look at."""
    from embermq.kernels.found_records import pass_whole  # not there without numba

    while (data := walk.rest) and (passed := pass_whole(data, 0, walk.position, needs_crc=False)).records:
        walk.pass_over(passed.end)
