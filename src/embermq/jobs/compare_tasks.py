"""What tasks do to compare two stores.

    fingerprint   a range of a log: for each message its position, the size of its record and a digest, where its
                  offset calls for in a file of its queue; laid out as queue entries are
    compare_part  offsets of one queue that both stores have: which digests differ

The digest is of all that a message is: body, properties, flags, when and where it was born, how often it was consumed.
It leaves out what becomes of it in a store: position, time and address of the store, and the position of a transaction.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from embermq.format.queue_entry import ENTRY, QUEUE_ENTRY_SIZE
from embermq.jobs.log_ranges import LogRange, RangeWalk, Walked, open_view
from embermq.jobs.progress import Report
from embermq.jobs.rebuild_tasks import EntryWriter, QueueKey, Run
from embermq.log.placed import Placed
from embermq.model.flags import NOT_QUEUED, SysFlag

FILE_SIZE: Final = QUEUE_ENTRY_SIZE << 20
MOST_DIFFERENT: Final = 1_000  # offsets that are told of a part

_DIGEST_SIZE: Final = 8
_LONGER: Final = 12  # bytes that an address of version 6 has more
_OWN_AT, _SYS_FLAG_AT, _STORE_TIME_AT = 28, 36, 56
_READ_AT_ONCE: Final = 1 << 20


class FingerprintTask(NamedTuple):
    """One range of a log."""

    part: LogRange
    output: str


class Fingerprinted(NamedTuple):
    """What `fingerprint` found in its range."""

    walked: Walked
    runs: dict[QueueKey, list[Run]]  # offsets, in the order of the log


class PartTask(NamedTuple):
    """Offsets of a queue that both stores have."""

    topic: str
    queue: int
    begin: int
    end: int
    left: str  # directories with fingerprints
    right: str


class Different(NamedTuple):
    """A message that is not the same in both stores."""

    offset: int
    left: int  # position in each log
    right: int


class PartResult(NamedTuple):
    """What `compare_part` found."""

    different: int  # how many
    first: list[Different]  # not more than MOST_DIFFERENT


def fingerprint(task: FingerprintTask, report: Report) -> Fingerprinted:
    """Write the fingerprints of a range. A task that is run again writes the same."""
    walk = RangeWalk(task.part, delay_levels=(), with_keys=False)
    writer = EntryWriter(Path(task.output), FILE_SIZE)
    data, start = open_view(task.part.path), task.part.start
    runs: dict[QueueKey, list[Run]] = {}
    try:
        for piece in walk.iter_pieces(report):
            for number in range(len(piece)):
                item = piece[number]
                if item.sys_flag & NOT_QUEUED or item.offset < 0:
                    continue
                record = data[item.position - start : item.position - start + item.size]
                key, count = (item.topic, item.queue), item.count if isinstance(item, Placed) else 1
                writer.write(key, item.offset, ENTRY.pack(item.position, item.size, digest_of(record)))
                _add_run(runs.setdefault(key, []), Run(item.offset, item.offset + count))
    finally:
        writer.close()
    return Fingerprinted(walk.result, runs)


def digest_of(record: memoryview) -> int:
    """A number for all that a message is, wherever it is stored."""
    flag = int.from_bytes(record[_SYS_FLAG_AT : _SYS_FLAG_AT + 4], "big")
    store_time_at = _STORE_TIME_AT + (_LONGER if flag & SysFlag.BORN_HOST_V6 else 0)
    retries_at = store_time_at + 16 + (_LONGER if flag & SysFlag.STORE_HOST_V6 else 0)
    digest = blake2b(record[8:_OWN_AT], digest_size=_DIGEST_SIZE)
    digest.update((flag & ~SysFlag.STORE_HOST_V6).to_bytes(4, "big"))
    digest.update(record[_SYS_FLAG_AT + 4 : store_time_at])
    digest.update(record[retries_at : retries_at + 4])
    digest.update(record[retries_at + 12 :])
    return int.from_bytes(digest.digest(), "big", signed=True)


def compare_part(task: PartTask, report: Report) -> PartResult:
    """Find the offsets of a part whose fingerprints differ."""
    different = 0
    first: list[Different] = []
    for begin in range(task.begin, task.end, _READ_AT_ONCE // QUEUE_ENTRY_SIZE):
        end = min(begin + _READ_AT_ONCE // QUEUE_ENTRY_SIZE, task.end)
        left, right = (_read(Path(root, task.topic, str(task.queue)), begin, end) for root in (task.left, task.right))
        pairs = zip(ENTRY.iter_unpack(left), ENTRY.iter_unpack(right), strict=True)
        for offset, ((position, _, digest), (other, _, other_digest)) in enumerate(pairs, begin):
            if digest != other_digest:
                different += 1
                if len(first) < MOST_DIFFERENT:
                    first.append(Different(offset, position, other))
        report((end - begin) * QUEUE_ENTRY_SIZE)
    return PartResult(different, first)


def _read(folder: Path, begin: int, end: int) -> bytes:
    """The fingerprints [begin, end) of a queue."""
    found = bytearray()
    place, last = begin * QUEUE_ENTRY_SIZE, end * QUEUE_ENTRY_SIZE
    while place < last:
        start = place - place % FILE_SIZE
        size = min(last, start + FILE_SIZE) - place
        with (folder / f"{start:020}").open("rb") as file:
            file.seek(place - start)
            found += file.read(size)
        place += size
    return bytes(found)


def _add_run(runs: list[Run], run: Run) -> None:
    if runs and runs[-1].end == run.begin:
        runs[-1] = Run(runs[-1].begin, run.end)
    else:
        runs.append(run)
