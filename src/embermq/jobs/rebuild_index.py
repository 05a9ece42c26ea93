"""Index files from keys that tasks staged: in the order of the log, as many to a file as it holds.

staged    ├ 0.keys ┤├ 1.keys ──────┤├ 2.keys ┤
files     ├ 1st, full ──┤├ 2nd, full ──┤├ 3rd
"""

from __future__ import annotations

import os
import shutil
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from embermq.jobs.progress import Report
from embermq.jobs.targets import appearing
from embermq.kernels import loading
from embermq.log.index_file import IndexFile
from embermq.log.key_index import name_of

if TYPE_CHECKING:
    from embermq.kernels.compiling import Table

KEY_SIZE: Final = 24  # bytes that a key takes in a staging file

_AT_ONCE: Final = 65_536  # keys


class KeyPart(NamedTuple):
    """The keys [begin, end) of a staging file."""

    path: str
    begin: int
    end: int


class IndexTask(NamedTuple):
    """One index file."""

    folder: str
    staging: str  # where it is made
    name: str
    slots: int
    entries: int
    parts: tuple[KeyPart, ...]
    is_apart: bool  # it is made elsewhere, and copied as a whole


def write_once(path: Path, data: bytes) -> None:
    """Write a file that appears whole, however many do so at a time."""
    with appearing(path) as file:
        file.write(data)


class StagedKeys:
    """The keys of a range, in the order of the log: hash, position and store time, 8 bytes each."""

    def __init__(self, staging: Path, number: int) -> None:
        self._path = staging / f"{number}.keys"
        self._temporary = staging / f"{number}.{uuid4().hex}.tmp"  # another run of the task may be at it
        self._file = self._temporary.open("wb")
        self._count = 0

    def add_table(self, keys: Table) -> None:
        self._file.write(keys.data)
        self._count += len(keys)

    def add_rows(self, rows: Iterable[tuple[int, tuple[int, int]]]) -> None:
        numbers = array("q", [number for key_hash, place in rows for number in (key_hash, *place)])
        self._file.write(numbers.tobytes())
        self._count += len(numbers) // 3

    def finish(self) -> tuple[str, int]:
        self._file.close()
        os.replace(self._temporary, self._path)
        return str(self._path), self._count

    def close(self) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)


def plan_index(
    files: Sequence[tuple[str, int]], folder: Path, staging: Path, *, slots: int, entries: int, is_apart: bool = False
) -> list[IndexTask]:
    """The index files that the keys of staging files, each with its count, call for."""
    tasks: list[IndexTask] = []
    parts: list[KeyPart] = []

    def add() -> None:
        name = _name(parts, tasks)
        tasks.append(IndexTask(str(folder), str(staging), name, slots, entries, tuple(parts), is_apart))

    room = entries - 1  # entry 0 is never used
    for path, count in files:
        begin = 0
        while begin < count:
            end = min(count, begin + room)
            parts.append(KeyPart(path, begin, end))
            begin, room = end, room - (end - begin)
            if not room:
                add()
                parts.clear()
                room = entries - 1
    if parts:
        add()
    return tasks


def _name(parts: list[KeyPart], before: list[IndexTask]) -> str:
    """Files are named after times that rise: here those of their first records, so that a name is always the same."""
    with Path(parts[0].path).open("rb") as file:
        file.seek(parts[0].begin * KEY_SIZE)
        store_time = array("q", file.read(KEY_SIZE))[2]
    name = name_of(max(store_time, 0))
    return max(name, f"{int(before[-1].name) + 1:017}") if before else name


def fill_index(task: IndexTask, report: Report) -> int:
    """Make one index file; how many entries it has. It appears when it is whole."""
    folder = Path(task.folder)
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(task.staging, f"{task.name}.{uuid4().hex}")
    if not task.is_apart:
        count = _fill_index(task, temporary, report)
    else:
        with tempfile.TemporaryDirectory(prefix="embermq-index-") as apart:
            count = _fill_index(task, Path(apart, task.name), report)
            shutil.copyfile(Path(apart, task.name), temporary)
    os.replace(temporary, folder / task.name)
    return count


def _fill_index(task: IndexTask, path: Path, report: Report) -> int:
    file = IndexFile.create(path, slots=task.slots, entries=task.entries)
    try:
        count = 0
        for number in _put_parts(file, task.parts):
            report(number * KEY_SIZE)
            count += number
    finally:
        file.close()
    return count


def _put_parts(file: IndexFile, parts: Iterable[KeyPart]) -> Iterator[int]:
    """Put the keys of all parts; how many, from time to time."""
    is_loaded = loading.is_loaded()
    if is_loaded:
        from embermq.jobs.found_ranges import read_keys
    for part in parts:
        for begin in range(part.begin, part.end, _AT_ONCE):
            count = min(part.end - begin, _AT_ONCE)
            file.reserve(count)
            if is_loaded:
                file.put_table(read_keys(part.path, begin, count))
            else:
                file.put(_read_rows(part.path, begin, count))
            yield count


def _read_rows(path: str, begin: int, count: int) -> list[tuple[int, tuple[int, int]]]:
    with Path(path).open("rb") as file:
        file.seek(begin * KEY_SIZE)
        numbers = array("q", file.read(count * KEY_SIZE))
    return [(numbers[at], (numbers[at + 1], numbers[at + 2])) for at in range(0, len(numbers), 3)]
