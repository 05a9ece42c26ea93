"""The entries of one queue, read from its files: which offsets it has, and where the records lie.

Only loaded where pyarrow is.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from embermq.errors import DataLoss, MissingFile, WrongFileSize
from embermq.files.paths import file_name
from embermq.format.queue_entry import PRE_BLANK_SIZE
from embermq.scan.file_system import OpenFile
from embermq.scan.store_files import QueueFiles, StoreFiles

Entries: TypeAlias = npt.NDArray[np.void]

_SIMPLE: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("code", ">i8")])
_BATCH: Final = np.dtype(
    [
        *(("position", ">i8"), ("size", ">i4"), ("code", ">i8"), ("store_time", ">i8")),
        *(("base", ">i8"), ("count", ">i2"), ("compacted", ">i4"), ("reserved", ">i4")),
    ]
)
_PLACE: Final = struct.Struct(">qi")  # which entries of both kinds begin with
_BLOCK: Final = 512  # entries looked at together


class Place(NamedTuple):
    """A record that a queue knows."""

    position: int
    size: int

    @property
    def end(self) -> int:
        return self.position + self.size


class QueueEntries:
    """The entries of a queue, by index. The index of an entry is its offset, except in a batch queue.

    `end` is where the entries end, for those who know. To be closed after use.
    """

    def __init__(self, store: StoreFiles, queue: QueueFiles, *, end: int | None = None) -> None:
        self._store = store
        self._known_end = end
        self.queue = queue
        self._open: tuple[str, OpenFile] | None = None
        self._kind = _BATCH if queue.is_batch else _SIMPLE
        self._file_size = queue.files[0].size if queue.files else 0
        for before, file in zip(queue.files, queue.files[1:], strict=False):
            if int(file.name) != int(before.name) + self._file_size:
                missing = file_name(int(before.name) + self._file_size)
                raise MissingFile(store.name_of(f"{queue.folder}/{missing}"))
            if file.size != self._file_size:
                path = store.name_of(f"{queue.folder}/{file.name}")
                raise WrongFileSize(path, found=file.size, expected=self._file_size)

    @property
    def per_file(self) -> int:
        return self._file_size // self._kind.itemsize

    @cached_property
    def begin(self) -> int:
        """The index of the first entry of the first file."""
        return int(self.queue.files[0].name) // self._kind.itemsize if self.queue.files else 0

    @cached_property
    def end(self) -> int:
        """The index behind the last entry. Zeros follow it, or the end of a file."""
        if self._known_end is not None:
            return self._known_end
        for number in range(len(self.queue.files) - 1, -1, -1):
            first = self.begin + number * self.per_file
            end = bisect_left(range(first + self.per_file), True, lo=first, key=self._is_missing)
            if end > first:
                return end - self._is_torn(end - 1)
        return self.begin

    def read(self, begin: int, end: int) -> Entries:
        """The entries [begin, end), blank ones among them. Raises DataLoss if the files have fewer."""
        parts = []
        at = begin
        while at < end:
            number = (at - self.begin) // self.per_file if self.per_file else -1
            if not 0 <= number < len(self.queue.files):
                raise self._gone(begin, end, f"its entries are [{self.begin}, {self.end})")
            first = self.begin + number * self.per_file
            count = min(end, first + self.per_file) - at
            file = f"{self.queue.folder}/{self.queue.files[number].name}"
            size = self._kind.itemsize
            data = self._read_file(file, (at - first) * size, count * size)
            if len(data) != count * size:
                raise self._gone(begin, end, f"{self._store.name_of(file)} ends early")
            parts.append(np.frombuffer(data, self._kind))
            at += count
        return np.concatenate(parts) if parts else np.empty(0, self._kind)

    def find_tail(self) -> Place | None:
        """The last record that has an entry."""
        end = self.end
        while end > self.begin:
            begin = max(self.begin, end - _BLOCK)
            entries = self.read(begin, end)
            filled = np.flatnonzero(~is_blank(entries))
            if len(filled):
                last = entries[filled[-1]]
                return Place(int(last["position"]), int(last["size"]))
            end = begin
        return None

    def find_from(self, position: int) -> int:
        """The index of the first entry whose record begins at `position` or behind it, else the end."""

        def is_behind(index: int) -> bool:
            found = self._next_filled(index)
            return found is None or found >= position

        if self.begin == self.end:
            return self.end
        first, last = self._read_place(self.begin), self._read_place(self.end - 1)
        if first.size != PRE_BLANK_SIZE and first.position >= position:  # as for the beginning of the log, mostly
            return self.begin
        if last.size != PRE_BLANK_SIZE and last.position < position:  # as for its end
            return self.end
        found = bisect_left(range(self.begin, self.end), True, key=is_behind) + self.begin
        while found < self.end:  # blank entries belong to no record
            entries = self.read(found, min(found + _BLOCK, self.end))
            filled = np.flatnonzero(~is_blank(entries))
            if len(filled):
                return found + int(filled[0])
            found += len(entries)
        return self.end

    def offset_of(self, index: int) -> int:
        """The offset of the first message of an entry; behind the last one, the next offset."""
        if not self.queue.is_batch:
            return index
        if index < self.end:
            return int(self._read_one(index)["base"])
        if self.end == self.begin:
            return 0
        last = self._read_one(self.end - 1)
        return int(last["base"]) + int(last["count"])

    def index_of(self, offset: int) -> int:
        """The index of the entry that holds the message at `offset`, else of the next one."""
        if not self.queue.is_batch:
            return min(max(offset, self.begin), self.end)
        after = bisect_left(range(self.begin, self.end), offset + 1, key=self.offset_of) + self.begin
        if after == self.begin:
            return after
        before = self._read_one(after - 1)
        return after if int(before["base"]) + int(before["count"]) <= offset else after - 1

    def close(self) -> None:
        """Let go of the file that was read last; the next read opens it again."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _read_file(self, path: str, begin: int, size: int) -> bytes:
        if self._open is None or self._open[0] != path:
            self.close()
            self._open = path, self._store.system.open(path)
        buffer = bytearray(size)
        return bytes(buffer[: self._open[1].read_into(memoryview(buffer), begin)])

    def _next_filled(self, index: int) -> int | None:
        """The position of the first record from an entry on."""
        while index < self.end:
            entries = self.read(index, min(index + _BLOCK, self.end))
            filled = np.flatnonzero(~is_blank(entries))
            if len(filled):
                return int(entries[filled[0]]["position"])
            index += len(entries)
        return None

    def _is_torn(self, index: int) -> bool:
        """Whether the last entry is only half there, because it is being written: positions always rise."""
        entries = self.read(max(index - 1, self.begin), index + 1)
        filled = entries[~is_blank(entries)]
        return len(filled) == 2 and bool(filled[1]["position"] <= filled[0]["position"])

    def _is_missing(self, index: int) -> bool:
        position, size = self._read_place(index)
        return not (size > 0 and position >= 0)

    def _read_place(self, index: int) -> Place:
        """What the entry of an index leads to. Raises DataLoss if it is not there."""
        number = (index - self.begin) // self.per_file
        file = f"{self.queue.folder}/{self.queue.files[number].name}"
        at = (index - self.begin - number * self.per_file) * self._kind.itemsize
        data = self._read_file(file, at, _PLACE.size)
        if len(data) < _PLACE.size:
            raise self._gone(index, index + 1, f"{self._store.name_of(file)} ends early")
        return Place(*_PLACE.unpack(data))

    def _read_one(self, index: int) -> Any:
        return self.read(index, index + 1)[0]

    def _gone(self, begin: int, end: int, reason: str) -> DataLoss:
        queue = self.queue
        place = f"{self._store.place.name}, topic {queue.topic!r}, queue {queue.queue}"
        return DataLoss(place, what=f"entries [{begin}, {end})", reason=reason)


def is_blank(entries: Entries) -> npt.NDArray[np.bool_]:
    """Which entries only fill the place of an offset that has no message."""
    blank: npt.NDArray[np.bool_] = (entries["size"] == PRE_BLANK_SIZE) & (entries["position"] == 0)
    return blank
