"""Compares two stores, message by message: a store and its backup or replica, or before and after a move.

    both logs ─→ fingerprint ─→ files by queue and offset ─→ compare_part ─→ what differs, by queue and offset

Messages are the same if their offset and all that they are is, wherever they lie in the logs. Stores are only read, so
owners may work on them; what is written meanwhile may be in one and not in the other.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from embermq.errors import CorruptRecord
from embermq.format.queue_entry import QUEUE_ENTRY_SIZE
from embermq.format.record import Record, decode_record
from embermq.jobs.compare_tasks import Different, FingerprintTask, PartResult, PartTask, compare_part, fingerprint
from embermq.jobs.kernels_ready import load_for
from embermq.jobs.log_ranges import choose_size, open_view, plan_ranges
from embermq.jobs.progress import Progress
from embermq.jobs.rebuild_source import Source, open_source
from embermq.jobs.rebuild_tasks import QueueKey
from embermq.jobs.running import Runner
from embermq.jobs.targets import check_room
from embermq.store.settings import StoreSettings
from embermq.store.verify_damage import Ranges

_ROOM: Final = 64 << 20
_USUAL_RECORD: Final = 400  # bytes, at the least
_COMPARED: Final = (
    "flag", "sys_flag", "born_time", "born_host", "reconsume_times", "body", "properties",
)  # fmt: skip


class Kind(StrEnum):
    """How stores differ."""

    LEFT = "only in the first"
    RIGHT = "only in the second"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Difference:
    """The offsets [begin, end) of a queue in which stores differ."""

    topic: str
    queue: int
    begin: int
    end: int
    kind: Kind
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `compare` found."""

    same: int  # messages that are the same
    different: int
    only_left: int
    only_right: int
    differences: list[Difference]

    @property
    def is_same(self) -> bool:
        return not self.differences


def compare(
    left: str | Path,
    right: str | Path,
    *,
    runner: Runner,
    progress: Progress,
    range_size: int | None = None,
    staging: str | Path | None = None,
) -> Comparison:
    """Compare the messages of two stores. Fingerprints are kept in `staging`, or where temporary files are.

    Raises StoreMissing, and NoRoom if there is no room for 20 bytes a message.
    """
    sources = [open_source(Path(path), StoreSettings()) for path in (left, right)]
    size = sum(source.size for source in sources)
    place = Path(staging or tempfile.gettempdir()).absolute()
    check_room(place, needs=_ROOM + size * QUEUE_ENTRY_SIZE // _USUAL_RECORD)
    load_for(size)
    with tempfile.TemporaryDirectory(prefix="embermq-compare-", dir=place) as folder:
        job = _Job(sources, [Path(folder, name) for name in ("left", "right")], runner, progress)
        return job.run(range_size or choose_size(size, runner.workers))


class _Job:
    """One comparison."""

    def __init__(self, sources: Sequence[Source], folders: Sequence[Path], runner: Runner, progress: Progress) -> None:
        self._sources = sources
        self._folders = folders
        self._runner = runner
        self._progress = progress

    def run(self, size: int) -> Comparison:
        left, right = self._find_offsets(size)
        differences: list[Difference] = []
        parts: list[PartTask] = []
        for key in sorted({*left, *right}):
            ours, theirs = left.get(key, Ranges()), right.get(key, Ranges())
            differences += [Difference(*key, *each, Kind.LEFT) for each in _iter_only(ours, theirs)]
            differences += [Difference(*key, *each, Kind.RIGHT) for each in _iter_only(theirs, ours)]
            parts += [PartTask(*key, *each, *map(str, self._folders)) for each in _iter_common(ours, theirs)]
        self._progress.begin("messages", sum(part.end - part.begin for part in parts) * QUEUE_ENTRY_SIZE)
        results: list[PartResult] = self._runner.run(compare_part, parts, self._progress.add)
        for part, result in zip(parts, results, strict=True):
            differences += self._explain(part, result)
        common, different = sum(part.end - part.begin for part in parts), sum(result.different for result in results)
        only = {kind: sum(each.end - each.begin for each in differences if each.kind is kind) for kind in Kind}
        return Comparison(common - different, different, only[Kind.LEFT], only[Kind.RIGHT], differences)

    def _find_offsets(self, size: int) -> list[dict[QueueKey, Ranges]]:
        """The offsets of each queue, of each store; their fingerprints are written meanwhile."""
        tasks, owners = [], []
        for number, (source, folder) in enumerate(zip(self._sources, self._folders, strict=True)):
            parts = plan_ranges(source.segments, source.layout.log_file_size, source.end, size=size)
            tasks += [FingerprintTask(part, str(folder)) for part in parts]
            owners += [number] * len(parts)
        self._progress.begin("logs", sum(task.part.end - task.part.begin for task in tasks))
        found: list[dict[QueueKey, Ranges]] = [{} for _ in self._sources]
        for owner, result in zip(owners, self._runner.run(fingerprint, tasks, self._progress.add), strict=True):
            for key, runs in result.runs.items():
                if self._sources[owner].kinds.is_wanted(key[0]):
                    ranges = found[owner].setdefault(key, Ranges())
                    for run in runs:
                        ranges.add(run.begin, run.end)
        return found

    def _explain(self, part: PartTask, result: PartResult) -> Iterator[Difference]:
        """What differs, in which fields; neighbours that differ in the same are one."""
        pending: Difference | None = None
        for each in result.first:
            detail = self._find_detail(each)
            if pending is not None and (pending.end, pending.detail) == (each.offset, detail):
                pending = Difference(part.topic, part.queue, pending.begin, each.offset + 1, Kind.DIFFERENT, detail)
                continue
            if pending is not None:
                yield pending
            pending = Difference(part.topic, part.queue, each.offset, each.offset + 1, Kind.DIFFERENT, detail)
        if pending is not None:
            yield pending
        if result.different > len(result.first):
            last, more = result.first[-1].offset, result.different - len(result.first)
            yield Difference(part.topic, part.queue, last + 1, part.end, Kind.DIFFERENT, f"{more} more among them")

    def _find_detail(self, different: Different) -> str:
        try:
            left = _read_record(self._sources[0], different.left)
            right = _read_record(self._sources[1], different.right)
        except CorruptRecord as error:
            return str(error)
        names = [name for name in _COMPARED if getattr(left, name) != getattr(right, name)]
        return ", ".join(name.replace("_", " ") for name in names)


def _read_record(source: Source, position: int) -> Record:
    segment = next(each for each in reversed(source.segments) if each.start <= position)
    data = open_view(str(segment.path))[position - segment.start :]
    return decode_record(data, position, check_body=False)


def _iter_only(ours: Ranges, theirs: Ranges) -> Iterator[tuple[int, int]]:
    for begin, end in ours.items():
        yield from theirs.iter_gaps(begin, end)


def _iter_common(ours: Ranges, theirs: Ranges) -> Iterator[tuple[int, int]]:
    for begin, end in ours.items():
        at = begin
        for gap_begin, gap_end in [*theirs.iter_gaps(begin, end), (end, end)]:
            if at < gap_begin:
                yield at, gap_begin
            at = gap_end
