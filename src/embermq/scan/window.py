"""A window that moves over a log file: some megabytes of it in one buffer that is used again and again.

    file     ├────────────────┬──────────────────────┬───────────────────┤
                          position             position + size
    memory                    ├── data ──────────────┤

What of the window is not used up when it moves, the beginning of a record that was cut, is kept in front of what is
read next. A record that is larger than the buffer makes it grow.

Only loaded where pyarrow is.
"""

from __future__ import annotations

from typing import Final, Self

from embermq.scan.file_system import FileSystem
from embermq.scan.splits import LogFile

_ROOM: Final = 1 << 20  # bytes for what is kept in front


class Window:
    """The bytes [position, position + size) of the log, all of one file. Close it, or use it in a `with` block."""

    def __init__(
        self, system: FileSystem, file: LogFile, begin: int, end: int, *, read_size: int | None = None
    ) -> None:
        self._file = system.open(file.path)
        self._start = file.start
        self._end = end
        self._read_size = read_size or system.read_size
        self._buffer = bytearray(min(self._read_size + _ROOM, max(end - begin, 1)))
        self.position = begin
        self.size = 0

    @property
    def data(self) -> memoryview:
        """The bytes of the window. They change when it moves."""
        return memoryview(self._buffer)[: self.size].toreadonly()

    @property
    def is_last(self) -> bool:
        """Whether nothing lies behind the window."""
        return self.position + self.size >= self._end

    def move(self, at: int) -> int:
        """Let the first `at` bytes go, and read on; how many bytes were added: 0 at the end."""
        left = self.size - at
        if left and at:
            kept = bytes(memoryview(self._buffer)[at : self.size])
            self._buffer[:left] = kept
        self.position += at
        self.size = left
        wanted = min(self._read_size, self._end - self.position - left)
        if left + wanted > len(self._buffer) and wanted > 0:
            self._buffer = bytearray(self._buffer[:left]) + bytearray(max(wanted, left))
        place = memoryview(self._buffer)[left : left + max(wanted, 0)]
        count = self._file.read_into(place, self.position + left - self._start) if wanted > 0 else 0
        self.size += count
        return count

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
