"""The timer log: units one after the other in files of one size. What waits is found from the wheel, through chains.

Several units are added at once: `add` gives each its place, `commit` writes them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from embermq.errors import CorruptRecord
from embermq.files.durable import make_directory
from embermq.files.file_chain import FileChain
from embermq.format.timer_unit import (
    TIMER_END,
    TIMER_UNIT,
    TIMER_UNIT_SIZE,
    TimerUnit,
    decode_timer_unit,
    encode_timer_end,
    is_timer_end,
)

RESERVE_STEP: Final = 1 << 20
_STEP: Final = 1 << 20
_ZEROS: Final = bytes(_STEP)
LEAST_FILE_SIZE: Final = TIMER_UNIT_SIZE + TIMER_END.size


class UnitLog:
    """The units of a folder, by their place. One thread uses it; another may flush."""

    def __init__(self, folder: Path, file_size: int) -> None:
        self._folder = folder
        self._files = FileChain(folder, _size_of(folder) or file_size, reserve_step=RESERVE_STEP)
        self._added: list[bytes] = []  # of the file that `_place` is in
        self._full: list[tuple[list[bytes], int]] = []  # of files before it, with the bytes they have left
        self._place = 0

    def load(self) -> None:
        """Find the files; recovery says where they end. Raises what a FileChain does."""
        if self._folder.is_dir():
            self._files.load()

    @property
    def begin(self) -> int:
        return self._files.begin

    @property
    def end(self) -> int:
        """The place behind the last unit, or behind the end of a full file."""
        return self._files.end

    @property
    def file_size(self) -> int:
        return self._files.file_size

    def next_place(self) -> int:
        """Where the next unit goes, those that are not committed counted in."""
        if not self._added and not self._full:
            self._place = self._files.end
        left = self.file_size - self._place % self.file_size
        if left < LEAST_FILE_SIZE:
            self._full.append((self._added, left))
            self._added = []
            self._place += left
        return self._place

    def add(self, unit: bytes) -> None:
        """Have a unit written at `next_place`, which was just asked for."""
        self._added.append(unit)
        self._place += TIMER_UNIT_SIZE

    def room(self) -> int:
        """How many units fit into the file behind `next_place`, which was just asked for."""
        left = self.file_size - self._place % self.file_size
        return (left - TIMER_END.size) // TIMER_UNIT_SIZE

    def add_many(self, units: bytes) -> None:
        """The same as `add` for units side by side, for which there is room."""
        self._added.append(units)
        self._place += len(units)

    def commit(self) -> None:
        """Write what was added. Raises OSError; some of it is written then, and `discard` forgets the rest."""
        full, added = self._full, self._added
        make_directory(self._folder)
        for units, left in full:
            self._files.append_file().fill(b"".join(units) + encode_timer_end(left))
        if added:
            self._files.append_file().append(b"".join(added))
        self._full, self._added = [], []

    def discard(self, end: int) -> None:
        """Forget what was added and not, or only in part, written behind `end`."""
        self._full, self._added = [], []
        if self._files.files and self._files.end > end:
            self._files.truncate(end)

    def position_at(self, place: int) -> tuple[int, int, int, int, int, int] | None:
        """Of the unit at a place: the one before, flags, write time, record, record's size, topic. For long chains."""
        data = self._files.select(place, TIMER_UNIT_SIZE)
        if data is None:
            return None
        _, previous, flags, write_time, _, position, size, topic_hash, _ = TIMER_UNIT.unpack(data)
        return previous, flags, write_time, position, size, topic_hash

    def select_file(self, place: int) -> tuple[int, memoryview] | None:
        """The file that has the unit at a place: where it begins, and what is written of it."""
        file = self._files.find(place)
        return None if file is None else (file.start, file.view[: file.committed])

    def iter_from(self, place: int) -> Iterator[tuple[int, TimerUnit]]:
        """Units with their places from the file on that `place` is in, up to the first thing that is none."""
        for file in self._files.files:
            if file.start + file.size <= place:
                continue
            at = 0
            while True:
                try:
                    unit = decode_timer_unit(file.view, at, file.start + at)
                except CorruptRecord:
                    return
                if unit is None:
                    break
                yield file.start + at, unit
                at += TIMER_UNIT_SIZE
            if file.size - at >= LEAST_FILE_SIZE:
                return  # not full, so none follows

    def end_behind(self, place: int) -> int:
        """The end of the units if they end at `place`: that of the file, if it was closed there."""
        file = self._files.find(place)
        if file is None or file.size - (place - file.start) >= LEAST_FILE_SIZE:
            return place
        return file.start + file.size if is_timer_end(file.view, place - file.start) else place

    def set_end(self, end: int) -> None:
        """Say where the units end; what lies behind is forgotten, on disk too. Raises SyncFailed."""
        file = self._files.find(end)
        rest = file.view[end - file.start :] if file is not None else b""
        is_unused = all(not _is_set(rest[at : at + _STEP]) for at in range(0, len(rest), _STEP))
        (self._files.set_end if is_unused else self._files.truncate)(end)

    def flush(self) -> int:
        """Bring the units onto the disk; returns up to which place. Raises SyncFailed."""
        return self._files.flush()

    def sync(self) -> None:
        """The same, also for what `load` found in memory only. Raises SyncFailed."""
        self._files.sync()

    def delete_before(self, log_begin: int) -> int:
        """Delete the files whose records are all gone from the log; returns how many."""
        return len(self._files.delete_oldest(lambda file: _last_position(file.view, file.start) < log_begin))

    def destroy(self) -> None:
        """Delete all files."""
        if self._folder.is_dir():
            self._files.destroy()

    def close(self) -> None:
        self._files.close()


def _last_position(data: memoryview, start: int) -> int:
    """Where the record of a full file's last unit lies."""
    at = (len(data) - TIMER_END.size) // TIMER_UNIT_SIZE * TIMER_UNIT_SIZE - TIMER_UNIT_SIZE
    unit = decode_timer_unit(data, at, start + at)
    return -1 if unit is None else unit.position


def _size_of(folder: Path) -> int | None:
    """The size of the files that are there, which may have been made with another setting."""
    sizes = [path.stat().st_size for path in sorted(folder.glob("[0-9]" * 20))] if folder.is_dir() else []
    return next((size for size in sizes if size >= LEAST_FILE_SIZE), None)


def _is_set(data: memoryview | bytes) -> bool:
    """Whether there is anything but zeros."""
    return data != memoryview(_ZEROS)[: len(data)]
