"""Puts compacted queues in the place of those that a store has.

    DIR/compacted/                              what takes their place; only there between two steps
    DIR/compaction/…/compacting, swapped in     as a broker does it: see compaction/swapping.py

A crash leaves each queue as it was or as it becomes, or on its way there: the next opening, by a broker or by this
job, goes on with it. The log is not touched.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from embermq.compaction.compacted_queue import Sizes
from embermq.compaction.swapping import prepare, recover_swap, swap
from embermq.errors import StoreError
from embermq.files.durable import make_directory, read_with_backup, replace_file, sync_directory
from embermq.files.lock import DirectoryLock
from embermq.format.compacted import (
    COMPACTION_FOLDER,
    POSITIONS_FILE,
    decode_compacted_positions,
    encode_compacted_positions,
    pair_folders,
    position_key,
)
from embermq.jobs.compact import Compacted, build
from embermq.jobs.compact_source import estimate_room, open_compact_source
from embermq.jobs.in_place import check_unowned
from embermq.jobs.progress import Progress
from embermq.jobs.rebuild_tasks import QueueKey
from embermq.jobs.running import Runner
from embermq.jobs.targets import building
from embermq.store.settings import StoreSettings

MADE_FOLDER: Final = "compacted"


def compact_in_place(
    path: str | Path,
    *,
    runner: Runner,
    progress: Progress,
    topics: Sequence[str] | None = None,
    settings: StoreSettings | None = None,
    sizes: Sizes | None = None,
    range_size: int | None = None,
) -> Compacted:
    """Compact topics of a store that nobody owns; what is not kept is deleted from its compacted queues.

    Raises StoreMissing, TopicNotFound, NotCompacted, what `check_unowned` raises, StoreError if files of earlier
    compactions are damaged, and what a runner raises; then the store is as it was.
    """
    root = Path(path)
    open_compact_source(root, topics, settings, sizes)
    check_unowned(root, needs=0)
    with DirectoryLock(root):
        source = open_compact_source(root, topics, settings, sizes)  # now that nobody changes it
        if source.interrupted:
            for key in source.interrupted:
                recover_swap(pair_folders(root / COMPACTION_FOLDER, *key))
            source = open_compact_source(root, topics, settings, sizes)
        made_folder = root / MADE_FOLDER
        if made_folder.exists():
            shutil.rmtree(made_folder)  # what was killed before it was moved
        try:
            with building(made_folder, needs=estimate_room(source)) as folder:
                made = build(source, folder, runner, progress, range_size=range_size)
                _check_earlier(root, made)
            for key in made.positions:
                _exchange(root, made_folder, key)
            _save_positions(root, made)
        finally:
            shutil.rmtree(made_folder, ignore_errors=True)
    return replace(made, path=root)


def _check_earlier(root: Path, made: Compacted) -> None:
    """What earlier compactions kept may be nowhere else: damaged files are not thrown away."""
    folder = str(root / COMPACTION_FOLDER)
    for path, begin, end, reason in made.damage:
        if path.startswith(folder):
            raise StoreError(
                f"{path}: damaged from {begin} to {end}, {reason}; restore it, or name a directory with --out"
            )


def _exchange(root: Path, made_folder: Path, key: QueueKey) -> None:
    """Have the new files of a queue take the place of the old ones."""
    folders, made = (pair_folders(base / COMPACTION_FOLDER, *key) for base in (root, made_folder))
    for folder in folders:
        make_directory(folder)
    old = sorted(path.name for path in folders[0].glob("[0-9]" * 20))
    for new, folder in zip(prepare(folders), made, strict=True):
        for path in folder.iterdir():
            path.rename(new / path.name)
        sync_directory(new)
    swap(folders, old)


def _save_positions(root: Path, made: Compacted) -> None:
    path = root / COMPACTION_FOLDER / POSITIONS_FILE
    positions = read_with_backup(path, decode_compacted_positions) or {}
    positions |= {position_key(*key): last for key, last in made.positions.items()}
    replace_file(path, encode_compacted_positions(positions), keep_backup=True)
