"""PULLs out of received bytes: recognized, looked up in their queues and answered, many in one call.

    received   ├ frame ┼ frame ┼ half a fr…         each of a shape: all but its numbers is known (patterns.py)
    window     ├ entry ┼ entry ┼ …                  of the shape's queue: one file of it, mapped
    files      start, readable size, address │ …    of the log, mapped (gather.py)
    places     address, size │ …                    of the answers, in their order: heads and scattered records lie in
                                                    `out`, records that lie side by side in the log
    runs       one for pulls of one shape that follow each other: what is to be noted of them

It stops at the first frame that is of no known shape, or for which there is not simply something to be found. Ordinary
code takes that frame. What it takes it answers as ordinary code would. Who calls keeps all files mapped until the
answers are written.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.format.queue_entry import MAX_ADDRESS, QUEUE_ENTRY_SIZE
from embermq.kernels.compiling import Bytes, Table, kernel, part, variable
from embermq.kernels.gather import find_file, is_wanted
from embermq.kernels.memory import copy, get, load_i32, load_i64, put
from embermq.kernels.patterns import (
    COMMIT_OFFSET,
    HIGH_OFFSET,
    LOW_OFFSET,
    NEXT_OFFSET,
    NUMBERS,
    OFFSET,
    OPAQUE,
    size_pattern,
    write_pattern,
)
from embermq.kernels.shapes import (
    ANSWER,
    ENDED,
    ENOUGH,
    FIRST_OWN,
    FORM,
    HEAD_SIZE,
    NOT_KNOWN,
    NOT_PLAIN,
    find_end,
    find_shape,
    write_head,
)

# A shape: of a queue, how far it goes now (an address), which entries the window has, and what may be read.
QUEUE_END, WINDOW, WINDOW_BEGIN, WINDOW_END, LOW, LIMIT, SCAN, MAX_BYTES, CODES, CODE_COUNT = range(
    FIRST_OWN, FIRST_OWN + 10
)
SHAPE_WIDTH: Final = FIRST_OWN + 10

# A run.
RUN_SHAPE, RUN_PULLS, RUN_RECORDS, RUN_SIZE, RUN_NEXT, RUN_COMMIT = range(6)
RUN_WIDTH: Final = 6

# What a call knows. The first ones are what it tells.
REASON, PULLS, SIZE, PLACE_COUNT, RUN_COUNT, STOPPED_SHAPE, STOPPED_OFFSET, READ_AT = range(8)
RECEIVED, RECEIVED_SIZE, FRAME_LIMIT, HEADER_LIMIT, FILES, FILE_COUNT = range(8, 14)
_OUT, _OUT_SIZE, _PLACES, _MOST_PLACES, _STRETCHES, _MOST_STRETCHES, _RUNS, _SCRATCH = range(14, 22)
_KNOWN: Final = 22  # numbers

# Why it stopped, besides what all kernels of shapes tell.
OTHER_WINDOW: Final = 4  # the next frame asks for an entry that the shape's window does not have

MOST_PULLS: Final = 8  # of one call
ENOUGH_BYTES: Final = 512 * 1024
_LARGE: Final = 8_192  # bytes; stretches that are smaller on average are dearer to write from than to copy
_LARGEST_BODY: Final = 1 << 30
_I32: Final = 2**31
_PLACE: Final = 2  # numbers


class PullMemory:
    """The memory that calls work with, used again and again."""

    def __init__(self, *, out_size: int, most_places: int, most_stretches: int) -> None:
        self._out: Bytes = np.empty(out_size, np.uint8)
        self._places: Table = np.zeros((most_places, _PLACE), np.int64)
        self._stretches: Table = np.zeros((most_stretches, _PLACE), np.int64)
        self._runs: Table = np.zeros((MOST_PULLS, RUN_WIDTH), np.int64)
        self._scratch: Table = np.zeros(NUMBERS, np.int64)
        self._numbers: Table = np.zeros(_KNOWN, np.int64)
        self.address = int(self._numbers.ctypes.data)
        self.places_address = int(self._places.ctypes.data)
        self.numbers = self._numbers.data  # quicker than numpy to read and write one by one
        self.runs = self._runs.reshape(-1).data
        self.numbers[_OUT], self.numbers[_OUT_SIZE] = int(self._out.ctypes.data), out_size
        self.numbers[_PLACES], self.numbers[_MOST_PLACES] = self.places_address, most_places
        self.numbers[_STRETCHES], self.numbers[_MOST_STRETCHES] = int(self._stretches.ctypes.data), most_stretches
        self.numbers[_RUNS], self.numbers[_SCRATCH] = int(self._runs.ctypes.data), int(self._scratch.ctypes.data)


@part
def _collect(
    shape: int, offset: int, count: int, files: int, file_count: int, stretches: int, most: int
) -> tuple[int, int, int, int]:
    """Find the records of at most `count` entries from `offset` on: entries looked at, records, bytes, stretches.

    No entries, if one of them is for ordinary code.
    """
    limit, max_bytes = get(shape, LIMIT), get(shape, MAX_BYTES)
    codes, code_count = get(shape, CODES), get(shape, CODE_COUNT)
    in_window = get(shape, WINDOW_END) - offset
    entry = get(shape, WINDOW) + (offset - get(shape, WINDOW_BEGIN)) * QUEUE_ENTRY_SIZE
    records = size = found = variable(0)
    file = start = end = address = stretch_end = variable(0)
    for number in range(min(count, in_window)):
        position, length, code = load_i64(entry), load_i32(entry + 8), load_i64(entry + 12)
        entry += QUEUE_ENTRY_SIZE
        if position < 0 or length <= 0 or (code_count > 0 and code <= MAX_ADDRESS):
            return 0, 0, 0, 0
        if records > 0 and (records >= limit or length > max_bytes - size):
            return number, records, size, found
        if code_count > 0 and not is_wanted(codes, code_count, code):
            continue
        if file == 0 or not start <= position < end:
            file = find_file(files, file_count, position)
            if file == 0:
                return 0, 0, 0, 0
            start, address = get(file, 0), get(file, 2)
            end = start + get(file, 1)
        if length > end - position or length > _LARGEST_BODY - size:
            return 0, 0, 0, 0
        place = address + (position - start)
        if place == stretch_end:
            last = stretches + (found - 1) * (_PLACE * 8)
            put(last, 1, get(last, 1) + length)
        else:
            if found >= most:
                return 0, 0, 0, 0
            put(stretches + found * (_PLACE * 8), 0, place)
            put(stretches + found * (_PLACE * 8), 1, length)
            found += 1
        stretch_end = place + length
        size += length
        records += 1
    if count > in_window:  # what follows is in the next file
        return 0, 0, 0, 0
    return count, records, size, found


@part
def _add_place(places: int, count: int, address: int, size: int) -> int:
    """Add a place behind `count` others, or to the last of them if it follows that; how many there are then."""
    if count > 0:
        last = places + (count - 1) * (_PLACE * 8)
        if get(last, 0) + get(last, 1) == address:
            put(last, 1, get(last, 1) + size)
            return count
    put(places + count * (_PLACE * 8), 0, address)
    put(places + count * (_PLACE * 8), 1, size)
    return count + 1


@part
def _note_run(known: int, shape: int, records: int, size: int, next_offset: int, commit_offset: int) -> None:
    """Note a pull: with the last ones, if they are of the same shape."""
    count = get(known, RUN_COUNT)
    run = get(known, _RUNS) + (count - 1) * (RUN_WIDTH * 8)
    if count == 0 or get(run, RUN_SHAPE) != shape:
        run += RUN_WIDTH * 8
        put(run, RUN_SHAPE, shape)
        put(run, RUN_PULLS, 0)
        put(run, RUN_RECORDS, 0)
        put(run, RUN_SIZE, 0)
        put(known, RUN_COUNT, count + 1)
    put(run, RUN_PULLS, get(run, RUN_PULLS) + 1)
    put(run, RUN_RECORDS, get(run, RUN_RECORDS) + records)
    put(run, RUN_SIZE, get(run, RUN_SIZE) + size)
    put(run, RUN_NEXT, next_offset)
    put(run, RUN_COMMIT, commit_offset)


@part
def _write_answer(known: int, shape: int, form: int, out: int, size: int, found: int) -> int:
    """Write the answer with `found` stretches of `size` bytes from `out` on; where it ends there, or 0 for no room."""
    numbers, pattern = get(known, _SCRATCH), shape + ANSWER * 8
    places, count, stretches = get(known, _PLACES), get(known, PLACE_COUNT), get(known, _STRETCHES)
    header_size = size_pattern(pattern, numbers)
    is_copied = found * _LARGE > size + _LARGE
    more = HEAD_SIZE + header_size + (size if is_copied else 0)
    if more > get(known, _OUT) + get(known, _OUT_SIZE) - out:
        return 0
    if count + 1 + (0 if is_copied else found) > get(known, _MOST_PLACES):
        return 0
    header = write_head(out, form, header_size, size)
    end = header + header_size
    write_pattern(pattern, numbers, header, end)
    count = _add_place(places, count, out, more)
    for number in range(found):
        place = get(stretches + number * (_PLACE * 8), 0)
        length = get(stretches + number * (_PLACE * 8), 1)
        if is_copied:
            copy(end, place, length)
            end += length
        else:
            count = _add_place(places, count, place, length)
    put(known, PLACE_COUNT, count)
    put(known, SIZE, get(known, SIZE) + HEAD_SIZE + header_size + size)
    return end


@part
def _answer(known: int, shapes: int, number: int, out: int) -> tuple[int, int]:
    """Answer the pull whose numbers were read: where the answer ends in `out`, or 0 and a reason."""
    shape, numbers = shapes + number * (SHAPE_WIDTH * 8), get(known, _SCRATCH)
    offset, commit_offset, opaque = get(numbers, OFFSET), get(numbers, COMMIT_OFFSET), get(numbers, OPAQUE)
    high = get(get(shape, QUEUE_END), 0)
    if offset < get(shape, LOW) or offset < 0 or offset >= high or commit_offset < 0 or not -_I32 <= opaque < _I32:
        return 0, NOT_PLAIN
    if not get(shape, WINDOW_BEGIN) <= offset < get(shape, WINDOW_END):
        put(known, STOPPED_SHAPE, number)
        put(known, STOPPED_OFFSET, offset)
        return 0, OTHER_WINDOW
    entries, records, size, found = _collect(
        shape, offset, min(high - offset, get(shape, SCAN)), get(known, FILES), get(known, FILE_COUNT),
        get(known, _STRETCHES), get(known, _MOST_STRETCHES),
    )  # fmt: skip
    if records == 0:
        return 0, NOT_PLAIN
    if get(known, PULLS) == 0:
        entry = get(shape, WINDOW) + (offset - get(shape, WINDOW_BEGIN)) * QUEUE_ENTRY_SIZE
        put(known, READ_AT, load_i64(entry))  # where readers are, one of them tells
    put(numbers, NEXT_OFFSET, offset + entries)
    put(numbers, HIGH_OFFSET, high)
    put(numbers, LOW_OFFSET, get(shape, LOW))
    end = _write_answer(known, shape, get(shape, FORM), out, size, found)
    if end == 0:
        return 0, ENOUGH if get(known, PULLS) > 0 else NOT_PLAIN
    _note_run(known, number, records, size, offset + entries, commit_offset)
    return end, ENDED


@kernel("int64(int64, int64, int64, int64, int64)")
def take_pulls(known: int, shapes: int, shape_count: int, begin: int, end: int) -> int:
    """Answer the PULLs at the beginning of the received bytes [begin, end); how many bytes they take.

    `known` is the address of what a PullMemory knows, `shapes` that of a table of shapes.
    """
    for number in range(REASON, RECEIVED):
        put(known, number, 0)
    if not 0 <= begin <= end <= get(known, RECEIVED_SIZE):
        return 0
    first, at, limit = get(known, RECEIVED) + begin, get(known, RECEIVED) + begin, get(known, RECEIVED) + end
    out, frame_limit, header_limit = get(known, _OUT), get(known, FRAME_LIMIT), get(known, HEADER_LIMIT)
    numbers, shape, reason, pulls = get(known, _SCRATCH), variable(0), variable(ENDED), variable(0)
    while True:
        after = find_end(at, limit, frame_limit, header_limit)
        if after <= 0:
            reason = -after
            break
        if pulls >= MOST_PULLS or get(known, SIZE) >= ENOUGH_BYTES:
            reason = ENOUGH
            break
        found = find_shape(shapes, shape_count, SHAPE_WIDTH, shape, at, after, numbers)
        if found < 0:
            reason = NOT_KNOWN
            break
        written, reason = _answer(known, shapes, found, out)
        if written == 0:
            break
        out, shape, at = written, found, after
        pulls += 1
        put(known, PULLS, pulls)
    put(known, REASON, reason)
    return at - first
