"""New files for old ones, so that a crash leaves either: an intent is on disk while files change their names.

    compacting/…        new pairs, whole and on disk
    compacting/replace  the intent: which files go
      old ─→ old.delete        all of them, before any new one comes
      compacting/new ─→ new
    intent gone ─→ *.delete gone

An opening that finds the intent goes on with it. RocketMQ renames its files in the same way, without an intent; what
it left under other names is no file of a queue.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from embermq.files.durable import make_directory, replace_file, sync_directory
from embermq.format.compacted import COMPACTING_FOLDER

log = logging.getLogger(__name__)

INTENT: Final = "replace"
_GONE: Final = ".delete"


def swap(folders: Sequence[Path], old: Sequence[str]) -> None:
    """Replace the files `old` of each folder by those in its `compacting`. Raises OSError; the next opening goes on."""
    intent = folders[0] / COMPACTING_FOLDER / INTENT
    replace_file(intent, json.dumps(list(old)).encode())
    _go_on(folders, old)
    _forget(intent)
    clean(folders)


def find_intent(folder: Path) -> Path | None:
    """The intent of a swap that a crash interrupted in the first of its folders."""
    intent = folder / COMPACTING_FOLDER / INTENT
    return intent if intent.is_file() else None


def recover_swap(folders: Sequence[Path]) -> bool:
    """End what a crash interrupted; tells whether files were replaced."""
    intent = find_intent(folders[0])
    if intent is not None:
        log.warning("compaction goes on folder=%s", folders[0])
        _go_on(folders, json.loads(intent.read_bytes()))
        _forget(intent)
    clean(folders)
    return intent is not None


def prepare(folders: Sequence[Path]) -> list[Path]:
    """Empty folders for new files."""
    clean(folders)
    made = [folder / COMPACTING_FOLDER for folder in folders]
    for folder in made:
        make_directory(folder)
    return made


def clean(folders: Sequence[Path]) -> None:
    """Delete what is in none of the files that count."""
    for folder in folders:
        new = folder / COMPACTING_FOLDER
        for path in [*folder.glob(f"*{_GONE}"), *(new.iterdir() if new.is_dir() else ())]:
            path.unlink(missing_ok=True)
        if new.is_dir():
            new.rmdir()
        if folder.is_dir():
            sync_directory(folder)


def _go_on(folders: Sequence[Path], old: Sequence[str]) -> None:
    for folder in folders:
        for name in old:
            if not (folder / (name + _GONE)).exists() and (folder / name).exists():
                (folder / name).rename(folder / (name + _GONE))
        sync_directory(folder)
    for folder in folders:
        for path in (folder / COMPACTING_FOLDER).glob("[0-9]" * 20):
            path.replace(folder / path.name)
        sync_directory(folder)


def _forget(intent: Path) -> None:
    """Remove an intent, before the old files go: with it and without them, new files would be taken for old ones."""
    intent.unlink()
    sync_directory(intent.parent)
