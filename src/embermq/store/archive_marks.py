"""Marks that archives leave in a store: up to where its log is safe elsewhere. Retention can wait for them.

    archived/<archive>.json     {"archive": "5f0c…", "position": 1048576, "target": "…"}

A store that waits deletes nothing behind the least position of all marks. Remove the file of an archive that is not
kept up any more.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from pathlib import Path
from typing import Final, NamedTuple

from embermq.files.durable import make_directory, replace_file

log = logging.getLogger(__name__)

MARKS_FOLDER: Final = "archived"
_ARCHIVE: Final = re.compile(r"[0-9a-f]{32}")
_writing = threading.Lock()  # of one mark, two writes at once would use the same temporary file


class ArchiveMark(NamedTuple):
    """All that is wanted of the log before `position` is in the archive."""

    archive: str  # its id, of 32 hexadecimal digits
    position: int
    target: str  # where it is, for people


def is_archive(text: str) -> bool:
    """Whether this can be the id of an archive."""
    return _ARCHIVE.fullmatch(text) is not None


def write_mark(store: Path, mark: ArchiveMark) -> None:
    """Leave a mark in the directory of a store, durably. Raises OSError."""
    assert is_archive(mark.archive), mark
    folder = store / MARKS_FOLDER
    with _writing:
        make_directory(folder)
        replace_file(folder / f"{mark.archive}.json", json.dumps(mark._asdict()).encode())


def find_archived(store: Path) -> int:
    """The position before which the log is in all archives; 0 if there is none, or if one's mark cannot be read."""
    positions = []
    for path in sorted((store / MARKS_FOLDER).glob("*.json")):
        try:
            positions.append(int(json.loads(path.read_bytes())["position"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("mark of an archive unreadable file=%s reason=%s; nothing is deleted", path, error)
            return 0
    return min(positions, default=0)
