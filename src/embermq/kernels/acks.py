"""ACKs of popped messages out of received bytes: recognized, and their answers written, many in one call.

    received   ├ frame ┼ frame ┼ half a fr…      each of a shape: all but its numbers is known (shapes.py)
    acks       of each its offset, and where its frame and its answer begin
    runs       one for acks of one pop and queue that follow each other
    answers    ├ frame ┼ frame ┼ …               that all is well, one for each: nobody has them before that is so

It stops at the first frame that is of no known shape, or has a number that no plain ack has. Whether there was such a
pop is for who calls.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from embermq.kernels.compiling import Bytes, Table, kernel, part, variable
from embermq.kernels.memory import get, put
from embermq.kernels.patterns import (
    INVISIBLE,
    NUMBERS,
    OFFSET,
    OPAQUE,
    POP_TIME,
    QUEUE,
    REVIVE_QUEUE,
    START,
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

SHAPE_WIDTH: Final = FIRST_OWN  # there is no more to know

# A run: its shape, the numbers that its acks have in common, which of the acks they are, and the least and the greatest
# of their offsets.
RUN_SHAPE, RUN_QUEUE, RUN_START, RUN_POP_TIME, RUN_INVISIBLE, RUN_REVIVE_QUEUE = range(6)
RUN_FIRST, RUN_COUNT, RUN_LOW, RUN_HIGH = range(6, 10)
RUN_WIDTH: Final = 10

# An ack.
ACK_OFFSET, ACK_AT, ACK_ANSWER_AT = range(3)
ACK_WIDTH: Final = 3

# What a call knows. The first ones are what it tells.
REASON, ACKS, RUNS, ANSWERS_SIZE = range(4)
RECEIVED, RECEIVED_SIZE, FRAME_LIMIT, HEADER_LIMIT = range(4, 8)
_ACKS_AT, _MOST_ACKS, _RUNS_AT, _OUT, _OUT_SIZE, _SCRATCH = range(8, 14)
_KNOWN: Final = 14  # numbers

_MOST: Final = 10**18  # handles have no larger numbers
_I32: Final = 2**31


class AckMemory:
    """The memory that calls work with, used again and again."""

    def __init__(self, *, most_acks: int, out_size: int) -> None:
        self._acks: Table = np.zeros((most_acks, ACK_WIDTH), np.int64)
        self._runs: Table = np.zeros((most_acks, RUN_WIDTH), np.int64)
        self._out: Bytes = np.empty(out_size, np.uint8)
        self._scratch: Table = np.zeros(NUMBERS, np.int64)
        self._numbers: Table = np.zeros(_KNOWN, np.int64)
        self.address = int(self._numbers.ctypes.data)
        self.numbers = self._numbers.data  # quicker than numpy to read and write one by one
        self.acks = self._acks.reshape(-1).data
        self.runs = self._runs.reshape(-1).data
        self.answers = self._out.data
        self.numbers[_ACKS_AT], self.numbers[_MOST_ACKS] = int(self._acks.ctypes.data), most_acks
        self.numbers[_RUNS_AT], self.numbers[_SCRATCH] = int(self._runs.ctypes.data), int(self._scratch.ctypes.data)
        self.numbers[_OUT], self.numbers[_OUT_SIZE] = int(self._out.ctypes.data), out_size


@part
def _is_plain(numbers: int) -> bool:
    """Whether ordinary code would take the numbers of an ack for what they are."""
    for number in (OFFSET, START, POP_TIME, INVISIBLE, REVIVE_QUEUE):
        if not 0 <= get(numbers, number) < _MOST:
            return False
    return 0 <= get(numbers, QUEUE) < _I32 and -_I32 <= get(numbers, OPAQUE) < _I32


@part
def _is_of_run(run: int, shape: int, numbers: int) -> bool:
    return (
        get(run, RUN_SHAPE) == shape
        and get(run, RUN_QUEUE) == get(numbers, QUEUE)
        and get(run, RUN_START) == get(numbers, START)
        and get(run, RUN_POP_TIME) == get(numbers, POP_TIME)
        and get(run, RUN_INVISIBLE) == get(numbers, INVISIBLE)
        and get(run, RUN_REVIVE_QUEUE) == get(numbers, REVIVE_QUEUE)
    )


@part
def _open_run(known: int, shape: int, numbers: int) -> int:
    """Begin a run with the ack whose numbers were read; where the run is."""
    count, offset = get(known, RUNS), get(numbers, OFFSET)
    run = get(known, _RUNS_AT) + count * (RUN_WIDTH * 8)
    put(run, RUN_SHAPE, shape)
    put(run, RUN_QUEUE, get(numbers, QUEUE))
    put(run, RUN_START, get(numbers, START))
    put(run, RUN_POP_TIME, get(numbers, POP_TIME))
    put(run, RUN_INVISIBLE, get(numbers, INVISIBLE))
    put(run, RUN_REVIVE_QUEUE, get(numbers, REVIVE_QUEUE))
    put(run, RUN_FIRST, get(known, ACKS))
    put(run, RUN_COUNT, 0)
    put(run, RUN_LOW, offset)
    put(run, RUN_HIGH, offset)
    put(known, RUNS, count + 1)
    return run


@part
def _note(known: int, run: int, numbers: int, at: int) -> None:
    """Add the ack whose numbers were read, and whose frame begins at byte `at`, to a run."""
    count, offset = get(known, ACKS), get(numbers, OFFSET)
    ack = get(known, _ACKS_AT) + count * (ACK_WIDTH * 8)
    put(ack, ACK_OFFSET, offset)
    put(ack, ACK_AT, at)
    put(ack, ACK_ANSWER_AT, get(known, ANSWERS_SIZE))
    put(known, ACKS, count + 1)
    put(run, RUN_COUNT, get(run, RUN_COUNT) + 1)
    put(run, RUN_LOW, min(get(run, RUN_LOW), offset))
    put(run, RUN_HIGH, max(get(run, RUN_HIGH), offset))


@part
def _write_answer(known: int, shape: int, numbers: int, header_size: int) -> None:
    """Write the answer to the ack whose numbers were read; there is room for it."""
    size = get(known, ANSWERS_SIZE)
    header = write_head(get(known, _OUT) + size, get(shape, FORM), header_size, 0)
    write_pattern(shape + ANSWER * 8, numbers, header, header + header_size)
    put(known, ANSWERS_SIZE, size + HEAD_SIZE + header_size)


@kernel("int64(int64, int64, int64, int64, int64)")
def take_acks(known: int, shapes: int, shape_count: int, begin: int, end: int) -> int:
    """Take the ACKs at the beginning of the received bytes [begin, end); how many bytes they take.

    `known` is the address of what an AckMemory knows, `shapes` that of a table of shapes.
    """
    for number in range(REASON, RECEIVED):
        put(known, number, 0)
    if not 0 <= begin <= end <= get(known, RECEIVED_SIZE):
        return 0
    received, frame_limit, header_limit = get(known, RECEIVED), get(known, FRAME_LIMIT), get(known, HEADER_LIMIT)
    at, limit, numbers = received + begin, received + end, get(known, _SCRATCH)
    shape, run, reason = variable(0), variable(0), variable(ENDED)
    while True:
        after = find_end(at, limit, frame_limit, header_limit)
        if after <= 0:
            reason = -after
            break
        if get(known, ACKS) >= get(known, _MOST_ACKS):
            reason = ENOUGH
            break
        found = find_shape(shapes, shape_count, SHAPE_WIDTH, shape, at, after, numbers)
        if found < 0 or not _is_plain(numbers):
            reason = NOT_KNOWN if found < 0 else NOT_PLAIN
            break
        row = shapes + found * (SHAPE_WIDTH * 8)
        header_size = size_pattern(row + ANSWER * 8, numbers)
        if header_size > get(known, _OUT_SIZE) - get(known, ANSWERS_SIZE) - HEAD_SIZE:
            reason = ENOUGH if get(known, ACKS) > 0 else NOT_PLAIN
            break
        if run == 0 or not _is_of_run(run, found, numbers):
            run = _open_run(known, found, numbers)
        _note(known, run, numbers, at - received)
        _write_answer(known, row, numbers, header_size)
        shape, at = found, after
    put(known, REASON, reason)
    return at - received - begin
