"""The timer wheel: a ring of slots in memory, one for each step of time, and the file that keeps it.

    now                              + 7 days
     ├──┬──┬──┬──┬──┬──┬──── … ───────┤        slot → newest unit → the one before → … → first unit
        │
      a step of `precision` ms

What was changed is written to the file by `save`, from a copy that `take_changes` made: the units that it points to
must be on disk before, so that the file never knows more than the timer log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from embermq.errors import WrongFileSize
from embermq.files.durable import sync_directory
from embermq.format.timer_slot import (
    TIMER_SLOT,
    TIMER_SLOT_SIZE,
    WHEEL_SIZE,
    TimerSlot,
    encode_timer_slot,
    slot_number,
)

_PAGE: Final = 4096
_NO_SLOTS: Final = bytes(_PAGE)


class TimerWheel:
    """Slots by their time in ms. Used by one thread; only `save` may run in another."""

    def __init__(self, path: Path, *, precision: int) -> None:
        self.precision = precision
        self._path = path
        self._pages: dict[int, bytearray] = {}  # by their place in the file; those that were never used are not here
        self._changed: set[int] = set()
        self.was_found = self._is_made = path.exists()

    def load(self) -> None:
        """Take over what the file has. Raises WrongFileSize."""
        if not self._is_made:
            return
        size = self._path.stat().st_size
        if size != WHEEL_SIZE:
            raise WrongFileSize(self._path, found=size, expected=WHEEL_SIZE)
        with self._path.open("rb") as file:
            at = _next_data(file.fileno(), 0)
            while at < WHEEL_SIZE:
                file.seek(at)
                page = file.read(_PAGE)
                if page != _NO_SLOTS:
                    self._pages[at] = bytearray(page)
                at = _next_data(file.fileno(), at + _PAGE)

    def find(self, time_ms: int) -> TimerSlot | None:
        """The slot of a time; None if nothing was ever put there."""
        time = time_ms // self.precision
        page, at = self._find_page(slot_number(time) * TIMER_SLOT_SIZE)
        slot = TimerSlot._make(TIMER_SLOT.unpack_from(page, at))
        return slot if slot.time == time and time else None

    def link(self, time_ms: int, first: int, last: int, change: int) -> None:
        """Make the units from place `first` to `last` of the timer log the newest of their slot.

        By `change` the messages become more, or fewer.
        """
        slot = self.find(time_ms)
        if slot is None:
            slot = TimerSlot(time_ms // self.precision, first, last, 0)
        self.set(time_ms, slot._replace(last=last, messages=slot.messages + change))

    def set(self, time_ms: int, slot: TimerSlot | None) -> None:
        """Put a slot in place of the one of this time; None for an empty one."""
        place = slot_number(time_ms // self.precision) * TIMER_SLOT_SIZE
        page = self._pages.setdefault(place - place % _PAGE, bytearray(_PAGE))
        at = place % _PAGE
        page[at : at + TIMER_SLOT_SIZE] = encode_timer_slot(slot or TimerSlot(0, 0, 0, 0))
        self._changed.add(place)

    def clear(self) -> None:
        """Forget all slots."""
        for begin, page in self._pages.items():
            page[:] = _NO_SLOTS
            self._changed.update(range(begin, begin + _PAGE, TIMER_SLOT_SIZE))

    def iter_from(self, time_ms: int) -> Iterator[tuple[int, TimerSlot]]:
        """The slots of this time and later ones, by their time in ms, in no order."""
        begin = time_ms // self.precision
        for page in self._pages.values():
            for slot in map(TimerSlot._make, TIMER_SLOT.iter_unpack(page)):
                if slot.time >= begin and slot.time:
                    yield slot.time * self.precision, slot

    def take_changes(self) -> Mapping[int, bytes]:
        """The slots that changed since the last call, by their place in the file."""
        changed, self._changed = self._changed, set()
        taken = {}
        for place in sorted(changed):
            page, at = self._find_page(place)
            taken[place] = bytes(page[at : at + TIMER_SLOT_SIZE])
        return taken

    def give_back(self, changes: Mapping[int, bytes]) -> None:
        """Remember changes again that could not be saved."""
        self._changed.update(changes)

    def save(self, changes: Mapping[int, bytes]) -> None:
        """Write changed slots to the file and onto the disk. Raises OSError."""
        if self._is_made and not changes:
            return
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.ftruncate(descriptor, WHEEL_SIZE)
            for place, slot in changes.items():
                os.pwrite(descriptor, slot, place)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        if not self._is_made:
            sync_directory(self._path.parent)
            self._is_made = True

    def _find_page(self, place: int) -> tuple[bytes | bytearray, int]:
        """The page that a place is in, and where in it."""
        at = place % _PAGE
        return self._pages.get(place - at, _NO_SLOTS), at


def _next_data(descriptor: int, at: int) -> int:
    """The first page at or behind `at` that the file has; its end if there is none."""
    try:
        return os.lseek(descriptor, at, os.SEEK_DATA) // _PAGE * _PAGE
    except OSError:  # nothing but a hole follows
        return WHEEL_SIZE
