"""Headers that are known but for a few numbers: read by comparing them, written by copying.

    {"code":11,"extFields":{"queueOffset":"▮","commitOffset":"▮",…},"flag":0,"opaque":▮,…}

A pattern is a list of steps, each a piece of text and the number behind it; behind the last piece there is none. JSON
has all numbers in digits. A binary header has the opaque number and the size of its fields in four bytes each, and
before the digits of others four bytes with their size. Where a field has several numbers (the handle of a popped
message), its own size comes first, in four bytes, and its numbers are digits alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from embermq.format.frame import JSON_FORM
from embermq.kernels.compiling import part, variable
from embermq.kernels.digits import count_digits, write_digits
from embermq.kernels.memory import address_of, copy, get, is_same, load_i32, put, store_32
from embermq.kernels.scanning import read_number

# What a number means; a list of NUMBERS 64-bit numbers has room for all.
OPAQUE: Final = 0
OFFSET: Final = 1
COMMIT_OFFSET: Final = 2
NEXT_OFFSET: Final = 3
HIGH_OFFSET: Final = 4
LOW_OFFSET: Final = 5
REST: Final = 6  # how many bytes follow it in a binary header
NO_NUMBER: Final = 7
QUEUE: Final = 8
START, POP_TIME, INVISIBLE, REVIVE_QUEUE, OTHER_QUEUE, OTHER_OFFSET = range(9, 15)  # of a handle
TEXT_SIZE: Final = 15  # of a field with several numbers, in a binary header
TEXT_END: Final = 16  # no number: here that field ends
NUMBERS: Final = 17

# What a pattern is in memory.
_TEXT: Final = 0
_FORM: Final = 1
_FIRST_STEP: Final = 2  # of steps of two numbers each: the size of the piece, and what follows it
_MOST_STEPS: Final = 13
PATTERN_WIDTH: Final = _FIRST_STEP + 2 * _MOST_STEPS

_SIZE_SIZE: Final = 4


class Pattern:
    """Pieces of text, and which number follows each of them."""

    def __init__(self, form: int, steps: Sequence[tuple[bytes, int]]) -> None:
        if not 0 < len(steps) <= _MOST_STEPS or steps[-1][1] != NO_NUMBER:
            raise ValueError(f"{len(steps)} steps; at most {_MOST_STEPS} are possible, and the last has no number")
        self._text = b"".join(piece for piece, _ in steps) or b"\0"  # kept: its address is in the row
        numbers = [address_of(self._text), form]
        for piece, number in steps:
            numbers += (len(piece), number)
        self.row = numbers + [0] * (PATTERN_WIDTH - len(numbers))


@part
def _read(form: int, number: int, at: int, end: int) -> tuple[int, int]:
    """A number, and the byte behind it; -1 for that if there is none."""
    if form == JSON_FORM or START <= number <= OTHER_OFFSET:
        return read_number(at, end)
    if end - at < _SIZE_SIZE:
        return 0, -1
    value = load_i32(at)
    at += _SIZE_SIZE
    if number == OPAQUE:
        return value, at
    if number == TEXT_SIZE:
        return at + value, (at if 0 < value <= end - at else -1)
    if number == REST:
        return value, (at if value == end - at else -1)
    if value <= 0 or value > end - at:
        return 0, -1
    number_end = at + value
    value, after = read_number(at, number_end)
    return value, (after if after == number_end else -1)


@part
def match_pattern(pattern: int, at: int, end: int, numbers: int) -> bool:
    """Whether the bytes [at, end) are the pattern's, with any numbers; these are put into `numbers`.

    In place of the size of a field with several numbers, that has the address of its end.
    """
    text, form = get(pattern, _TEXT), get(pattern, _FORM)
    for step in range(_MOST_STEPS):
        size, number = get(pattern, _FIRST_STEP + 2 * step), get(pattern, _FIRST_STEP + 2 * step + 1)
        if size > end - at or not is_same(text, at, size):
            return False
        text += size
        at += size
        if number == NO_NUMBER:
            return at == end
        if number == TEXT_END:
            if at != get(numbers, TEXT_SIZE):
                return False
            continue
        value, at = _read(form, number, at, end)
        if at < 0:
            return False
        put(numbers, number, value)
    return False


@part
def size_pattern(pattern: int, numbers: int) -> int:
    """How many bytes a pattern of an answer, where no field has several numbers, takes with these."""
    form, size = get(pattern, _FORM), variable(0)
    for step in range(_MOST_STEPS):
        size += get(pattern, _FIRST_STEP + 2 * step)
        number = get(pattern, _FIRST_STEP + 2 * step + 1)
        if number == NO_NUMBER:
            break
        if form != JSON_FORM:
            size += _SIZE_SIZE
        if form == JSON_FORM or number not in (OPAQUE, REST):
            size += count_digits(get(numbers, number))
    return size


@part
def write_pattern(pattern: int, numbers: int, out: int, end: int) -> None:
    """Write a pattern with these numbers to the bytes [out, end), which are as many as it takes."""
    text, form = get(pattern, _TEXT), get(pattern, _FORM)
    for step in range(_MOST_STEPS):
        size, number = get(pattern, _FIRST_STEP + 2 * step), get(pattern, _FIRST_STEP + 2 * step + 1)
        copy(out, text, size)
        text += size
        out += size
        if number == NO_NUMBER:
            break
        if number == REST:
            store_32(out, end - out - _SIZE_SIZE)
            out += _SIZE_SIZE
            continue
        value = get(numbers, number)
        if form != JSON_FORM and number == OPAQUE:
            store_32(out, value)
            out += _SIZE_SIZE
            continue
        digits = count_digits(value)
        if form != JSON_FORM:
            store_32(out, digits)
            out += _SIZE_SIZE
        out = write_digits(out, value, digits)
