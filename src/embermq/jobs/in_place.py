"""Puts rebuilt queues and index in the place of those that a store has; the old ones are kept aside.

    DIR/replaced/<time>/consumequeue, index, …    what was there
    DIR/rebuilt/                                  what takes its place; only there between two steps

While folders are moved, the store is marked as one whose filling was interrupted: whoever opens it after a crash in
between fills queues and index from the log. The mark is taken away last, when the checkpoint counts the new files.
"""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from embermq.errors import NotSupported, StoreLocked, StoreReadOnly
from embermq.files.durable import make_directory, sync_directory, sync_file
from embermq.files.lock import DirectoryLock, find_owner
from embermq.format.checkpoint import Checkpoint
from embermq.format.checkpoint import Progress as CheckpointProgress
from embermq.jobs.progress import Progress
from embermq.jobs.rebuild import Rebuilt, build
from embermq.jobs.rebuild_source import Source, estimate_room, open_source
from embermq.jobs.running import Runner
from embermq.jobs.targets import building, check_room
from embermq.store.checkpoint_file import CheckpointFile
from embermq.store.layout import INDEX_FOLDER
from embermq.store.opening import expect_interruption
from embermq.store.queues import BATCH_FOLDER, EXTENDED_FOLDER, SIMPLE_FOLDER
from embermq.store.settings import StoreSettings
from embermq.store.verify_queues import ROCKSDB_SIGN

REPLACED_FOLDER: Final = "replaced"
REBUILT_FOLDER: Final = "rebuilt"

_QUEUE_FOLDERS: Final = (SIMPLE_FOLDER, EXTENDED_FOLDER, BATCH_FOLDER)


def rebuild_in_place(
    path: str | Path,
    *,
    runner: Runner,
    progress: Progress,
    settings: StoreSettings | None = None,
    with_index: bool = True,
    range_size: int | None = None,
) -> tuple[Rebuilt, Path]:
    """Make the queues and the index of a store anew; returns what was made, and where the old ones are.

    Raises StoreMissing, what `check_in_place` raises, and what a runner raises; then the store is as it was.
    """
    root = Path(path)
    check_in_place(open_source(root, settings), needs=0)
    with DirectoryLock(root):
        source = open_source(root, settings)  # now that nobody changes it
        rebuilt = root / REBUILT_FOLDER
        if rebuilt.exists():
            shutil.rmtree(rebuilt)  # what was killed before it was moved
        with building(rebuilt, needs=estimate_room(source)) as folder:
            made = build(source, folder, runner, progress, with_index=with_index, range_size=range_size)
        aside = _exchange(source, made, rebuilt, with_index=with_index)
    return replace(made, path=root), root / aside.relative_to(source.root)


def check_in_place(source: Source, *, needs: int) -> None:
    """See whether a store's files could be replaced; changes nothing.

    Raises StoreLocked if somebody owns it, NotSupported for queues in a RocksDB, NoRoom, StoreReadOnly.
    """
    root = source.root
    if (root / ROCKSDB_SIGN).is_file():
        raise NotSupported(f"{root}: its queues are in a RocksDB, which is not written; name a directory with --out")
    check_unowned(root, needs=needs)


def check_unowned(root: Path, *, needs: int) -> None:
    """See whether files of a store could be replaced. Raises StoreLocked if somebody owns it, NoRoom, StoreReadOnly."""
    owner = find_owner(root)
    if owner is not None:
        raise StoreLocked(f"{root} is in use by {owner}; stop it first, or name a directory with --out")
    if not os.access(root, os.W_OK):
        raise StoreReadOnly(root, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    check_room(root, needs=needs)


def _exchange(source: Source, made: Rebuilt, rebuilt: Path, *, with_index: bool) -> Path:
    """Move the old folders aside and the new ones to their places; returns where the old ones are."""
    root, layout = source.root, source.layout
    checkpoint = CheckpointFile(layout.checkpoint_file)
    before, counted = checkpoint.checkpoint, checkpoint.progress
    was_clean = not layout.abort_file.exists()
    aside = _make_aside(root)
    if not was_clean:
        for segment in source.segments:
            sync_file(segment.path)  # a killed process may have left it in memory only
    expect_interruption(layout, checkpoint)
    for name in (*_QUEUE_FOLDERS, *([INDEX_FOLDER] if with_index else [])):
        if (root / name).exists():
            os.rename(root / name, aside / name)
        if (rebuilt / name).exists():
            os.rename(rebuilt / name, root / name)
    sync_directory(aside)
    sync_directory(root)
    rebuilt.rmdir()
    if not with_index and counted is not None:
        made = replace(made, index_files=counted.index_files, index_entries=counted.index_entries)
    _save_checkpoint(checkpoint, before, made)
    if was_clean:
        layout.abort_file.unlink()
        sync_directory(root)
    return aside


def _make_aside(root: Path) -> Path:
    """A new folder for what was there."""
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}"
    aside, number = root / REPLACED_FOLDER / name, 0
    while aside.exists():
        number += 1
        aside = aside.with_name(f"{name}.{number}")
    make_directory(aside)
    return aside


def _save_checkpoint(checkpoint: CheckpointFile, before: Checkpoint, made: Rebuilt) -> None:
    """Have the checkpoint vouch for what was made: everything up to the log's end, which is on disk."""
    times = before[:3]  # what RocketMQ goes by stays as it was
    progress = CheckpointProgress(made.end, made.queues, made.entries, made.index_files, made.index_entries, *times)
    checkpoint.save(Checkpoint(*times, before.master_flushed_position, before.confirmed_position), progress)
