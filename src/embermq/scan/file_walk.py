"""Walks over the records of one log file, one after the other, in plain Python.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from typing import Final, Self

from embermq.errors import CorruptRecord
from embermq.format.record import scan_record
from embermq.format.record_layout import FRAME, MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from embermq.scan.splits import LogFile
from embermq.scan.store_files import StoreFiles
from embermq.scan.window import Window

_MAGICS: Final = (MAGIC_V1, MAGIC_V2)
_MAGIC_BEGIN: Final = MAGIC_V1.to_bytes(4, "big")[:3]  # of records of both versions
_MAGIC_AT: Final = 4
_OWN_AT: Final = 28  # where a record says its own position
_OWN_END: Final = _OWN_AT + 8


class FileWalk:
    """Begins at log position `begin` and sees no byte from `end` on. Close it, or use it in a `with` block.

    `position` is where the next record begins. `is_closed` says, once `next` gave None or damage was skipped, whether
    the records of the file end there for good.
    """

    def __init__(self, store: StoreFiles, file: LogFile, begin: int, end: int, *, read_size: int | None = None) -> None:
        self._file_end = file.end
        self._window = Window(store.system, file, begin, min(end, file.end), read_size=read_size)
        self._at = 0
        self.is_closed = False

    @property
    def position(self) -> int:
        return self._window.position + self._at

    @property
    def rest(self) -> memoryview:
        """The bytes from `position` on that are in memory; good until the walk goes on."""
        return self._window.data[self._at :]

    def skip_damage(self) -> None:
        """Go on from what is no record to the next that is one. Without one, the file ends there for good."""
        self._at = min(self._at + 1, self._window.size)
        self.is_closed = not self.find_next()

    def pass_over(self, size: int) -> None:
        """Go on behind `size` bytes of the rest."""
        self._at += size

    def next(self, *, check_body: bool) -> memoryview | None:
        """The bytes of the record at `position`, good until the next call; None if the records end there.

        Raises CorruptRecord. The walk goes on behind the record.
        """
        self.fill()
        data, at = self._window.data, self._at
        found = scan_record(data, at, self.position, check_body=check_body)
        if found is None:
            self.is_closed = is_closed(data, at, self._file_end - self.position)
            return None
        self._at += found.size
        return data[at : at + found.size]

    def find_next(self) -> bool:
        """Go to the first whole record at `position` or behind it; False, at the end, if there is none.

        A record says its own position, so what looks like one inside of a body is none. Bodies are not checked: one
        that is damaged must be found by whoever reads the record, not passed over.
        """
        while True:
            self.fill()
            at = bytes(self._window.data[self._at :]).find(_MAGIC_BEGIN, _MAGIC_AT)
            if at < 0:
                kept = min(self._window.size - self._at, _MAGIC_AT + len(_MAGIC_BEGIN) - 1)
                self._at = self._window.size - kept
                if not self._move():
                    self._at = self._window.size
                    return False
                continue
            self._at += at - _MAGIC_AT
            try:
                self.fill()
                if scan_record(self._window.data, self._at, self.position, check_body=False) is not None:
                    return True
            except CorruptRecord:
                pass
            self._at += 1

    def close(self) -> None:
        self._window.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fill(self) -> bool:
        """Have the whole record at `position` in memory, if there is one; whether more was read for it."""
        has_moved = False
        while True:
            data, left = self._window.data, self._window.size - self._at
            if left >= _OWN_END:
                size, magic = FRAME.unpack_from(data, self._at)
                own = int.from_bytes(data[self._at + _OWN_AT : self._at + _OWN_END], "big")
                if size <= left or magic not in _MAGICS or own != self.position:
                    return has_moved
            if not self._move():
                return has_moved
            has_moved = True

    def _move(self) -> bool:
        moved = self._window.move(self._at)
        self._at = 0
        return moved > 0


def is_closed(data: memoryview, at: int, left: int) -> bool:
    """Whether the records of a file, of which `left` bytes are left, end at byte `at` of `data` for good."""
    if left < FRAME.size:
        return True
    if len(data) - at < FRAME.size:
        return False
    size, magic = FRAME.unpack_from(data, at)
    return bool(magic == MAGIC_BLANK and size == left)
