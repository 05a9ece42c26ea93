"""Rebuilds queues and index from the log, into a new directory.

    log ─ ranges ─→ scatter ─┬→ files of simple queues, each entry at its place
                             ├→ staged keys ─→ fill_index, a file a task
                             └→ staged records ─→ fill_queue, a queue a task

The result is what the live dispatcher would have written for the same records into empty folders, byte for byte;
the names of index files aside, which tell when a file was made. What the log does not know is taken from the old files
where they have it (filter bits of extended entries), or is lost with them.

The log is only read, so an owner may work on it. Records that are damaged are passed over, and told of. What belongs to
topics that the table of topics does not have any more is left out, as the store leaves it out when it recovers.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

from embermq.format.queue_entry import PRE_BLANK, QUEUE_ENTRY_SIZE
from embermq.jobs.expired_queues import keep_expired
from embermq.jobs.kernels_ready import load_for
from embermq.jobs.log_ranges import choose_size, find_unchained, plan_ranges
from embermq.jobs.progress import Progress
from embermq.jobs.rebuild_index import KEY_SIZE, fill_index, plan_index
from embermq.jobs.rebuild_source import Source, estimate_room, open_source
from embermq.jobs.rebuild_tasks import (
    EntryWriter,
    FillQueueTask,
    QueueKey,
    Run,
    Scattered,
    ScatterTask,
    fill_queue,
    scatter,
)
from embermq.jobs.running import Runner
from embermq.jobs.targets import building, takes_places
from embermq.log.consume_queue import LARGEST_GAP
from embermq.log.queue_kind import QueueKind
from embermq.store.layout import INDEX_FOLDER
from embermq.store.queues import SIMPLE_FOLDER
from embermq.store.settings import StoreSettings

T = TypeVar("T")

_STAGING: Final = ".staging"
_BLANKS_AT_ONCE: Final = 65_536


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a rebuild made, and what it came by."""

    path: Path
    records: int
    bytes: int  # of the log
    end: int  # of the log
    queues: int
    entries: int  # of queues
    index_files: int
    index_entries: int
    last_store_time: int
    damage: list[tuple[int, int, str]] = field(default_factory=list)  # passed over: from where to where, and why
    left_out: dict[str, int] = field(default_factory=dict)  # topics that there are no more, and their records


def rebuild(
    path: str | Path,
    out: str | Path,
    *,
    runner: Runner,
    progress: Progress,
    settings: StoreSettings | None = None,
    with_index: bool = True,
    range_size: int | None = None,
    scattered: bool | None = None,
) -> Rebuilt:
    """Make the queues and the index of the store at `path` anew, in the directory `out`, which must not exist.

    `scattered` says whether its file system can write to any place of a file; it is tried unless given.
    Raises StoreMissing, TargetExists, NoRoom and what a runner raises; then nothing was changed.
    """
    source = open_source(Path(path), settings)
    target = Path(out)
    with building(target, needs=estimate_room(source)) as folder:
        scattered = takes_places(folder) if scattered is None else scattered
        source = source._replace(kinds=source.kinds._replace(is_scattered=scattered))
        made = build(source, folder, runner, progress, with_index=with_index, range_size=range_size)
    return replace(made, path=target)


def build(
    source: Source,
    folder: Path,
    runner: Runner,
    progress: Progress,
    *,
    with_index: bool = True,
    range_size: int | None = None,
) -> Rebuilt:
    """Make queues and index in `folder`, which is empty."""
    load_for(source.size)
    staging = folder / _STAGING
    staging.mkdir()
    job = _Job(source, folder, runner, progress)
    results = job.scatter(range_size or choose_size(source.size, runner.workers), with_index=with_index)
    entries = job.fill_queues(results)
    entries |= keep_expired(source, folder, entries)
    index_entries = job.fill_index(results)
    shutil.rmtree(staging)
    return Rebuilt(
        path=folder,
        records=sum(result.walked.records for result in results),
        bytes=source.size,
        end=source.end,
        queues=len(entries),
        entries=sum(entries.values()),
        index_files=len(index_entries),
        index_entries=sum(index_entries),
        last_store_time=max((result.last_store_time for result in results), default=0),
        damage=[damage for result in results for damage in result.walked.damage],
        left_out=_sum_counts([result.unknown for result in results]),
    )


class _Job:
    """The steps of one rebuild."""

    def __init__(self, source: Source, folder: Path, runner: Runner, progress: Progress) -> None:
        self._source = source
        self._folder = folder
        self._runner = runner
        self._progress = progress
        self._tasks: list[ScatterTask] = []

    def scatter(self, size: int, *, with_index: bool) -> list[Scattered]:
        """Go over the log."""
        results = self._scatter_ranges(size, with_index=with_index)
        walks = [result.walked for result in results]
        if find_unchained([task.part for task in self._tasks], walks) is not None:
            # A body looks like records. Whole files have nothing to look for.
            shutil.rmtree(self._folder / SIMPLE_FOLDER, ignore_errors=True)
            results = self._scatter_ranges(self._source.layout.log_file_size, with_index=with_index)
        return results

    def fill_queues(self, results: Sequence[Scattered]) -> dict[QueueKey, int]:
        """Finish all queues; how many entries each has."""
        runs = _join([result.runs for result in results])
        disputed = {key for key, parts in runs.items() if _is_disputed(parts)}
        staged = _join([{key: [path] for key, path in result.staged.items()} for result in results])
        disputed |= {key for key in staged if self._source.kinds.is_plain(key[0])}  # with offsets that cannot be
        entries = {key: parts[-1].end for key, parts in runs.items() if key not in disputed}
        self._fill_gaps({key: parts for key, parts in runs.items() if key not in disputed})
        staged = {key: paths for key, paths in staged.items() if key not in disputed} | self._stage(disputed)
        tasks = [self._fill_task(key, paths) for key, paths in sorted(staged.items())]
        self._progress.begin("other queues", 0)
        filled = self._runner.run(fill_queue, tasks, self._progress.add)
        entries |= {key: end for key, end in zip(sorted(staged), filled, strict=True) if end}
        return entries

    def fill_index(self, results: Sequence[Scattered]) -> list[int]:
        """Make the index files; how many entries each has."""
        files = [(result.keys_file, result.key_count) for result in results if result.key_count]
        layout = self._source.layout
        tasks = plan_index(
            files,
            self._folder / INDEX_FOLDER,
            self._folder / _STAGING,
            slots=layout.index_slots,
            entries=layout.index_entries,
            is_apart=not self._source.kinds.is_scattered,
        )
        self._progress.begin("index", KEY_SIZE * sum(count for _, count in files))
        return self._runner.run(fill_index, tasks, self._progress.add)

    def _scatter_ranges(self, size: int, *, with_index: bool) -> list[Scattered]:
        source = self._source
        ranges = plan_ranges(source.segments, source.layout.log_file_size, source.end, size=size)
        self._tasks = [
            ScatterTask(
                number,
                part,
                str(self._folder),
                str(self._folder / _STAGING),
                source.kinds,
                source.delay_levels,
                source.layout.queue_sizes.simple,
                with_index,
                None,
            )
            for number, part in enumerate(ranges)
        ]
        return self._run_scatter("queues", self._tasks)

    def _run_scatter(self, step: str, tasks: Sequence[ScatterTask]) -> list[Scattered]:
        self._progress.begin(step, sum(task.part.end - task.part.begin for task in tasks))
        return self._runner.run(scatter, tasks, self._progress.add)

    def _stage(self, disputed: set[QueueKey]) -> dict[QueueKey, list[str]]:
        """Go over the log again for queues with places that two records claim; what was written there is removed."""
        if not disputed:
            return {}
        for topic, queue in disputed:
            shutil.rmtree(self._folder / SIMPLE_FOLDER / topic / str(queue), ignore_errors=True)
        tasks = [task._replace(only=frozenset(disputed)) for task in self._tasks]
        results = self._run_scatter("disputed queues", tasks)
        return _join([{key: [path] for key, path in result.staged.items()} for result in results])

    def _fill_task(self, key: QueueKey, paths: list[str]) -> FillQueueTask:
        kinds, (topic, queue) = self._source.kinds, key
        return FillQueueTask(
            topic,
            queue,
            QueueKind.BATCH if topic in kinds.batch else QueueKind.SIMPLE,
            tuple(paths),
            str(self._folder),
            self._source.layout.queue_sizes,
            kinds.has_extended and topic not in kinds.batch,
            not kinds.is_scattered,
            str(self._source.root),
        )

    def _fill_gaps(self, runs: dict[QueueKey, list[Run]]) -> None:
        """Write blank entries where offsets are missing: before the first one in its file, and between others."""
        per_file = self._source.layout.queue_sizes.simple // QUEUE_ENTRY_SIZE
        writer = EntryWriter(self._folder / SIMPLE_FOLDER, self._source.layout.queue_sizes.simple)
        try:
            for key, parts in runs.items():
                end = parts[0].begin - parts[0].begin % per_file
                for part in parts:
                    for offset in range(end, part.begin, _BLANKS_AT_ONCE):
                        count = min(part.begin - offset, _BLANKS_AT_ONCE)
                        writer.write(key, offset, PRE_BLANK * count)
                    end = part.end
        finally:
            writer.close()


def _is_disputed(runs: Sequence[Run]) -> bool:
    """Whether offsets do not rise, or leave a gap that only damage makes: then more must be known of the records."""
    return any(not 0 <= later.begin - earlier.end <= LARGEST_GAP for earlier, later in pairwise(runs))


def _join(parts: Sequence[dict[QueueKey, list[T]]]) -> dict[QueueKey, list[T]]:
    joined: dict[QueueKey, list[T]] = {}
    for part in parts:
        for key, values in part.items():
            joined.setdefault(key, []).extend(values)
    return joined


def _sum_counts(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))
