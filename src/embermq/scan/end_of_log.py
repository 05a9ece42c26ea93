"""How far a store may be read, so that no record is seen that its writer has not confirmed.

| the store                     | is read up to                                                             |
|-------------------------------|---------------------------------------------------------------------------|
| was closed                    | the end of its whole records                                              |
| is open in EmberMQ            | the position that its owner publishes in the checkpoint page              |
| is open in RocketMQ           | the last record that a queue knows: queues are filled after confirmation  |
| crashed, or is a copy of one  | the end of its whole records: what its owner finds when it opens it again |
  that was open

Only loaded where pyarrow is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from embermq.errors import CorruptRecord
from embermq.files.lock import is_locked
from embermq.scan.file_system import LocalFiles
from embermq.scan.file_walk import FileWalk
from embermq.scan.queue_entries import Tail
from embermq.scan.splits import LogFile
from embermq.scan.store_files import StoreFiles


def find_end(store: StoreFiles, files: Sequence[LogFile], tails: Iterable[Tail]) -> int:
    """The position behind the last record that may be read."""
    if not files:
        return 0
    known = max((tail.end for tail in tails if files[0].start <= tail.position < files[-1].end), default=files[0].start)
    if is_open(store):
        return known
    return walk(store, files, min(known, files[-1].end))


def is_open(store: StoreFiles) -> bool:
    """Whether some process works on the store now."""
    return isinstance(store.system, LocalFiles) and is_locked(Path(store.system.root))


def walk(store: StoreFiles, files: Sequence[LogFile], begin: int) -> int:
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
            while walk.next(check_body=True) is not None:
                pass
        except CorruptRecord:
            return walk.position
        return file.end if walk.is_closed else walk.position
