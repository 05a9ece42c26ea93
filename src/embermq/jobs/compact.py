"""Compacts topics: of all messages with the same keys, the newest stays; one without a body deletes its keys.

    log, earlier files ─→ read_keys ─→ rows by queue and share of keys ─→ choose ─→ place ─→ copy, a pair a task

Only rows of eight numbers change hands; a body is read once more, by the task that copies it. The result is what a
broker keeps in `compaction/`, RocketMQ's too: offsets stay what they were, with gaps between them.

The background compaction of a broker leaves its last files alone. This one takes everything that is in the log, and
what earlier compactions have kept and the log has no more.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from embermq.compaction.compacted_queue import Sizes
from embermq.files.durable import replace_file
from embermq.files.paths import file_name
from embermq.format.compacted import (
    COMPACTION_FOLDER,
    POSITIONS_FILE,
    encode_compacted_positions,
    pair_folders,
    position_key,
)
from embermq.jobs.compact_reading import Noted, ReadTask, read_keys
from embermq.jobs.compact_rows import ROW_SIZE, Block
from embermq.jobs.compact_source import CompactSource, estimate_room, open_compact_source
from embermq.jobs.compact_tasks import (
    ChooseTask,
    CopyTask,
    PlacedPair,
    PlaceTask,
    SourceFile,
    choose,
    copy,
    place,
)
from embermq.jobs.errors import SwapInterrupted
from embermq.jobs.kernels_ready import load_for
from embermq.jobs.log_ranges import choose_size, find_unchained, plan_ranges
from embermq.jobs.progress import Progress
from embermq.jobs.rebuild_tasks import QueueKey
from embermq.jobs.running import Runner
from embermq.jobs.targets import building, check_room
from embermq.store.settings import StoreSettings

_STAGING: Final = ".staging"


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction made, and what it came by."""

    path: Path
    topics: tuple[str, ...]
    queues: int
    kept: int
    dropped: int  # what was in the log and in earlier files counts twice
    bytes: int  # of what was kept
    without_keys: int  # messages that cannot be compacted, and are left out
    positions: dict[QueueKey, int] = field(default_factory=dict)  # the last offset of each queue
    damage: list[tuple[str, int, int, str]] = field(default_factory=list)  # passed over: file, from where to where, why


def compact(
    path: str | Path,
    out: str | Path,
    *,
    runner: Runner,
    progress: Progress,
    topics: Sequence[str] | None = None,
    settings: StoreSettings | None = None,
    sizes: Sizes | None = None,
    range_size: int | None = None,
) -> Compacted:
    """Compact topics of the store at `path`, all that are meant to be unless named, into the new directory `out`.

    `out` gets a folder `compaction` that can take the place of the store's own. Raises StoreMissing, TopicNotFound,
    NotCompacted, SwapInterrupted, TargetExists, NoRoom and what a runner raises; then nothing was changed.
    """
    source = open_compact_source(Path(path), topics, settings, sizes)
    if source.interrupted:
        raise SwapInterrupted(path, *source.interrupted[0])
    target = Path(out)
    with building(target, needs=estimate_room(source)) as folder:
        made = build(source, folder, runner, progress, range_size=range_size)
    return replace(made, path=target)


def build(
    source: CompactSource, folder: Path, runner: Runner, progress: Progress, *, range_size: int | None = None
) -> Compacted:
    """Make the files of all topics in `folder`, which is empty."""
    (folder / COMPACTION_FOLDER).mkdir()
    job = CompactJob(source, folder, runner, progress)
    notes = job.read(range_size)
    pairs = job.plan(notes)
    size = job.copy(pairs)
    job.clean()
    last_offsets = _last_offsets(notes)
    positions = source.positions | {position_key(*key): last for key, last in last_offsets.items()}
    replace_file(folder / COMPACTION_FOLDER / POSITIONS_FILE, encode_compacted_positions(positions))
    read = sum(block.rows for note in notes for shares in note.blocks.values() for block in shares.values())
    kept = sum(pair.survivors.rows for parts in pairs.values() for pair in parts)
    return Compacted(
        path=folder,
        topics=source.topics,
        queues=len(pairs),
        kept=kept,
        dropped=read - kept,
        bytes=size,
        without_keys=sum(note.without_keys for note in notes),
        positions=last_offsets,
        damage=job.damage(notes),
    )


class CompactJob:
    """The steps of one compaction, in their order. `folder` is empty, and gets what it makes."""

    def __init__(self, source: CompactSource, folder: Path, runner: Runner, progress: Progress) -> None:
        self._source = source
        self._folder = folder
        self._staging = folder / _STAGING
        self._runner = runner
        self._progress = progress
        self._tasks: list[ReadTask] = []

    def read(self, range_size: int | None = None) -> list[Noted]:
        """Note which message has which key: earlier files first, then the log."""
        load_for(self._source.size)
        self._staging.mkdir()
        notes = self._read_ranges(range_size or choose_size(self._source.size, self._runner.workers))
        log = [(task.part, note.walked) for task, note in zip(self._tasks, notes, strict=True) if not task.is_pair]
        if find_unchained([part for part, _ in log], [walked for _, walked in log]) is not None:
            # A body looks like records. Whole files have nothing to look for.
            notes = self._read_ranges(self._source.store.layout.log_file_size)
        return notes

    def plan(self, notes: Sequence[Noted]) -> dict[QueueKey, list[PlacedPair]]:
        """Choose who survives, and say which file each goes to."""
        last_offsets = _last_offsets(notes)
        tasks: list[ChooseTask] = []
        owners: list[QueueKey] = []
        for key in sorted(last_offsets):
            for share in range(self._source.shares[key[0]]):
                blocks = tuple(note.blocks[key][share] for note in notes if share in note.blocks.get(key, {}))
                tasks.append(ChooseTask(blocks, last_offsets[key], str(self._staging / f"{len(tasks)}.kept")))
                owners.append(key)
        self._progress.begin("newest", ROW_SIZE * sum(block.rows for task in tasks for block in task.blocks))
        kept: dict[QueueKey, list[Block]] = {key: [] for key in last_offsets}
        for key, block in zip(owners, self._runner.run(choose, tasks, self._progress.add), strict=True):
            kept[key].append(block)
        return self._place(kept)

    def copy(self, pairs: dict[QueueKey, list[PlacedPair]]) -> int:
        """Write all files; how many bytes of records they have."""
        total = sum(pair.size for parts in pairs.values() for pair in parts)
        sizes = self._source.sizes
        check_room(self._folder, needs=total + sizes.queue * sum(map(len, pairs.values())))
        tasks = [task for key, parts in pairs.items() for task in self._copy_tasks(key, parts)]
        self._progress.begin("copies", total)
        return sum(self._runner.run(copy, tasks, self._progress.add))

    def clean(self) -> None:
        """Remove what was only needed meanwhile."""
        shutil.rmtree(self._staging)

    def damage(self, notes: Sequence[Noted]) -> list[tuple[str, int, int, str]]:
        """What was passed over, and in which file."""
        return [
            (task.part.path, *damage)
            for task, note in zip(self._tasks, notes, strict=True)
            for damage in note.walked.damage
        ]

    def _read_ranges(self, size: int) -> list[Noted]:
        source, store = self._source, self._source.store
        pairs = [part for parts in source.pairs.values() for part in parts]
        log = plan_ranges(store.segments, store.layout.log_file_size, store.end, size=size)
        self._tasks = [
            ReadTask(
                number,
                part,
                source.shares,
                str(source.queues) if source.queues is not None else None,
                store.layout.queue_sizes.simple,
                number < len(pairs),
                str(self._staging),
            )
            for number, part in enumerate([*pairs, *log])
        ]
        self._progress.begin("keys", sum(task.part.end - task.part.begin for task in self._tasks))
        return self._runner.run(read_keys, self._tasks, self._progress.add)

    def _place(self, kept: dict[QueueKey, list[Block]]) -> dict[QueueKey, list[PlacedPair]]:
        sizes = self._source.sizes
        tasks = [
            PlaceTask(tuple(blocks), str(self._staging / f"{number}.placed"), sizes.log, sizes.queue)
            for number, blocks in enumerate(kept.values())
        ]
        self._progress.begin("places", ROW_SIZE * sum(block.rows for blocks in kept.values() for block in blocks))
        return dict(zip(kept, self._runner.run(place, tasks, self._progress.add), strict=True))

    def _copy_tasks(self, key: QueueKey, pairs: Sequence[PlacedPair]) -> Iterator[CopyTask]:
        source, folder = self._source, self._folder / COMPACTION_FOLDER
        log_folder, queue_folder = pair_folders(folder, *key)
        for each in (log_folder, queue_folder):
            each.mkdir(parents=True)
        log_files = tuple(SourceFile(str(segment.path), segment.start) for segment in source.store.segments)
        pair_files = tuple(SourceFile(part.path, part.start) for part in source.pairs.get(key, ()))
        for pair in pairs:
            name = file_name(pair.start)
            yield CopyTask(
                pair,
                *source.sizes,
                pair is not pairs[-1],
                str(log_folder / name),
                str(queue_folder / name),
                log_files,
                pair_files,
            )


def _last_offsets(notes: Sequence[Noted]) -> dict[QueueKey, int]:
    """The last offset of each queue that has messages."""
    found: dict[QueueKey, int] = {}
    for note in notes:
        for key, offset in note.last_offsets.items():
            found[key] = max(found.get(key, -1), offset)
    return found
