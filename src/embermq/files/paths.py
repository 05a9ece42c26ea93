"""Where the files of a chain are, and which of several directories the next one goes to."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from embermq.errors import ForeignFile, MissingFile

_CHUNK = 1 << 20


def file_name(position: int) -> str:
    """The name of the file that begins at `position`."""
    return f"{position:020d}"


def choose_path(candidates: Sequence[Path], full: Collection[Path], position: int, file_size: int) -> Path:
    """The directory for the file that begins at `position`.

    Files go round the candidates in the order of their names, leaving out those that are full,
    unless all are. RocketMQ chooses the same.
    """
    usable = sorted((path for path in candidates if path not in full), key=str) or sorted(candidates, key=str)
    return usable[position // file_size % len(usable)]


def find_files(folders: Iterable[Path]) -> list[Path]:
    """The files in all `folders`, ordered by position; directories in them are no matter.

    Raises ForeignFile for a name that is not a position. A missing folder is an empty one.
    """
    files = [file for folder in dict.fromkeys(folders) for file in _iter_files(folder)]
    return sorted(files, key=lambda file: file.name)


def check_no_gap(files: Sequence[Path], file_size: int) -> None:
    """Raise MissingFile unless each file begins where the one before it ends."""
    for before, file in pairwise(files):
        expected = int(before.name) + file_size
        if int(file.name) != expected:
            raise MissingFile(before.with_name(file_name(expected)))


def split_at_gap(files: Sequence[Path], file_size: int) -> tuple[list[Path], list[Path]]:
    """The files up to the first gap, and those behind it."""
    for count, (before, file) in enumerate(pairwise(files), start=1):
        if int(file.name) != int(before.name) + file_size:
            return list(files[:count]), list(files[count:])
    return list(files), []


def is_unused(path: Path) -> bool:
    """Whether a file holds nothing but zeros: it was made ahead, and never came into use."""
    with path.open("rb") as file:
        return not any(chunk.strip(b"\0") for chunk in iter(lambda: file.read(_CHUNK), b""))


def _iter_files(folder: Path) -> Iterator[Path]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir():
            continue
        name = entry.name
        if len(name) != 20 or not (name.isascii() and name.isdecimal()):
            raise ForeignFile(folder / name, "its name is not a position of 20 digits")
        yield folder / name
