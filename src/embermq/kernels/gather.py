"""Records of a queue, one after the other: the body of the answer to a pull.

    entries   ├ position, size, tags code ┼ …           of one queue, from mapped memory (format/queue_entry.py)
    files     start, readable size, address │ …         of the log, in their order; three 64-bit numbers each
    codes     code │ …                                  of the tags that are wanted; none means all

What ordinary code finds by the same entries is found here, up to the first entry that is unusual: blank, damaged,
or for a record that is not whole in one file. Who calls keeps all these files mapped until the call returns.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from embermq.format.queue_entry import MAX_ADDRESS, QUEUE_ENTRY_SIZE
from embermq.kernels.compiling import Bytes, Table, kernel, part, variable
from embermq.kernels.memory import copy, get, load_i32, load_i64, put

# Why it stopped.
ENTRIES_DONE: Final = 0
ENOUGH: Final = 1  # the next one would be too many, or too large
UNUSUAL: Final = 2  # the next entry is for ordinary code
OUTPUT_FULL: Final = 3  # the next record does not fit

_FILE: Final = 3  # numbers of a file
_I32: Final = 2**31


class Gathered(NamedTuple):
    """How far a call got."""

    entries: int  # looked at; the next offset is that much further
    records: int
    size: int
    reason: int


class LogFiles:
    """The readable parts of the log's files, where kernels find them."""

    def __init__(self, parts: Iterable[tuple[int, int, int]]) -> None:
        """`parts` have a start, a size that can be read and an address each."""
        self._memory: Table = np.array([*parts], np.int64).reshape(-1, _FILE)
        self._numbers = self._memory.reshape(-1).data  # quicker than numpy to write one by one
        self.address = int(self._memory.ctypes.data)
        self.count = len(self._memory)

    def set_size(self, number: int, size: int) -> None:
        """More of a file can be read now."""
        self._numbers[number * _FILE + 1] = size

    def rows(self) -> list[list[int]]:
        """The start, size and address of every file."""
        rows: list[list[int]] = self._memory.tolist()
        return rows


class WantedCodes:
    """Tags codes, where kernels find them."""

    def __init__(self, codes: Iterable[int] = ()) -> None:
        self._memory = np.array(sorted(codes), np.int64)
        self.address = int(self._memory.ctypes.data)
        self.count = len(self._memory)


@part
def find_file(files: int, count: int, position: int) -> int:
    """The file, by its address in the list, in whose readable part `position` lies; 0 if there is none."""
    low, high = variable(0), count
    while low < high:
        middle = (low + high) >> 1
        file = files + middle * _FILE * 8
        start = get(file, 0)
        if position < start:
            high = middle
        elif position - start < get(file, 1):
            return file
        else:
            low = middle + 1
    return 0


@part
def is_wanted(codes: int, count: int, code: int) -> bool:
    """Whether the lower half of a tags code, as a number with a sign, is among those wanted."""
    code = ((code & 0xFFFF_FFFF) ^ _I32) - _I32
    for index in range(count):  # noqa: SIM110 - numba has no any()
        if get(codes, index) == code:
            return True
    return False


@kernel("UniTuple(int64, 4)(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def gather_records(
    entries: int,
    entries_size: int,
    files: int,
    file_count: int,
    codes: int,
    code_count: int,
    limit: int,
    max_bytes: int,
    out: int,
    out_size: int,
) -> tuple[int, int, int, int]:
    """Copy at most `limit` records and `max_bytes`, but one at least; see Gathered for what is returned."""
    count = entries_size // QUEUE_ENTRY_SIZE
    file = start = end = variable(0)
    records = written = variable(0)
    for number in range(count):
        entry = entries + number * QUEUE_ENTRY_SIZE
        position, size, code = load_i64(entry), load_i32(entry + 8), load_i64(entry + 12)
        if position < 0 or size <= 0:
            return number, records, written, UNUSUAL
        if records > 0 and (records >= limit or size > max_bytes - written):
            return number, records, written, ENOUGH
        if code_count > 0:
            if code <= MAX_ADDRESS:
                return number, records, written, UNUSUAL
            if not is_wanted(codes, code_count, code):
                continue
        if file == 0 or not start <= position < end:
            file = find_file(files, file_count, position)
            if file == 0:
                return number, records, written, UNUSUAL
            start = get(file, 0)
            end = start + get(file, 1)
        if size > end - position:
            return number, records, written, UNUSUAL
        if size > out_size - written:
            return number, records, written, OUTPUT_FULL
        copy(out + written, get(file, 2) + position - start, size)
        written += size
        records += 1
    return count, records, written, ENTRIES_DONE


def gather_into(
    out: int, out_size: int, entries: int, entries_size: int, files: LogFiles, codes: WantedCodes, *,
    limit: int, max_bytes: int,
) -> Gathered:  # fmt: skip
    """The same with the lists as they are kept."""
    return Gathered._make(
        gather_records(
            entries, entries_size, files.address, files.count, codes.address, codes.count, limit, max_bytes,
            out, out_size,
        )
    )  # fmt: skip


# What `collect_records` says instead of a number of places.
COPIED: Final = 0  # the records lie in too many of them to be sent from there
UNUSUAL_ENTRIES: Final = -1  # they are for ordinary code

_PLACE: Final = 2  # numbers of a place
_LARGE: Final = 8_192  # bytes; places that are smaller on average are dearer to send from than to copy from


class Places:
    """Where records lie in a file, as kernels tell it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._memory: Table = np.zeros((most, _PLACE), np.int64)
        self.address = int(self._memory.ctypes.data)

    def ranges(self, count: int) -> list[list[int]]:
        """Where the first `count` of them begin and end in the file."""
        found: list[list[int]] = self._memory[:count].tolist()
        return found


class ReusedBuffer:
    """Memory that is handed out piece by piece, and from the beginning again once all pieces are given up."""

    def __init__(self, size: int) -> None:
        self.used = 0
        self._memory: Bytes = np.empty(size, np.uint8)
        self.address = int(self._memory.ctypes.data)
        self._lent: weakref.ref[Bytes] | None = None  # what all views that are out there are views of

    def room(self) -> int:
        """How many bytes can be taken now."""
        if self._lent is None or self._lent() is None:
            self.used = 0
        return len(self._memory) - self.used

    def take(self, size: int) -> memoryview:
        """The next `size` bytes."""
        lent = self._lent() if self._lent is not None else None
        if lent is None:
            lent = self._memory[:]
            self._lent = weakref.ref(lent)
        view = lent.data[self.used : self.used + size]
        self.used += size
        return view


@kernel("UniTuple(int64, 3)(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def collect_records(
    entries: int,
    entries_size: int,
    start: int,
    readable: int,
    address: int,
    max_bytes: int,
    places: int,
    most_places: int,
    out: int,
    out_size: int,
) -> tuple[int, int, int]:
    """Find the records of entries in one file of the log: at most `max_bytes` of them, but one record at least.

    The file begins at log position `start` and lies at `address`, where `readable` bytes of it can be read. Returns
    how many records there are, their bytes, and in how many `places` they lie side by side. Where that would be too
    many, they are copied to `out`, if they fit: COPIED. UNUSUAL_ENTRIES if one is blank, damaged or leads elsewhere.
    """
    count = entries_size // QUEUE_ENTRY_SIZE
    records = size = found = variable(0)
    begin = end = variable(-1)
    for number in range(count):
        entry = entries + number * QUEUE_ENTRY_SIZE
        at, length = load_i64(entry), load_i32(entry + 8)
        if at < start or length <= 0 or at - start > readable - length:
            return 0, 0, UNUSUAL_ENTRIES
        if records > 0 and length > max_bytes - size:
            break
        at -= start
        if at != end:
            if 0 < found <= most_places:
                put(places + (found - 1) * _PLACE * 8, 0, begin)
                put(places + (found - 1) * _PLACE * 8, 1, end)
            found += 1
            begin = at
        end = at + length
        size += length
        records += 1
    if 0 < found <= most_places and found * _LARGE <= size + _LARGE:
        put(places + (found - 1) * _PLACE * 8, 0, begin)
        put(places + (found - 1) * _PLACE * 8, 1, end)
        return records, size, found
    if records == 0 or size > out_size:
        return 0, 0, UNUSUAL_ENTRIES
    for number in range(records):
        entry = entries + number * QUEUE_ENTRY_SIZE
        length = load_i32(entry + 8)
        copy(out, address + load_i64(entry) - start, length)
        out += length
    return records, size, COPIED
